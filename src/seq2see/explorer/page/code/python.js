/**
 * Python code as text, for the user to copy and run.
 *
 *   python(["import numpy as np", SEQ2SEE], [loadModel(app.run), assignCall("record", "model.trace", [text("红猫")])])
 *
 * Imports are sorted as Python's formatters sort them. A call that is too long for a line has one argument per line.
 */

const MAX_LINE_LENGTH = 88; // as in Python's formatters
const MAX_TEXT_LENGTH = 78; // of a string literal on one line
const INSTALLED = /^(?:import|from) (?:numpy|seq2see|torch)\b/; // other modules are in the standard library

/** The import of all snippets that load a model. */
export const SEQ2SEE = "import seq2see";

/** A complete snippet. Lines may be null (omitted), or nested lists of lines. */
export function python(imports, lines) {
  const groups = [[], []];
  for (const each of new Set(imports.flat().filter(Boolean))) groups[INSTALLED.test(each) ? 1 : 0].push(each);
  const byKind = (one, other) => Number(one.startsWith("from")) - Number(other.startsWith("from")) || (one < other ? -1 : 1);
  const blocks = groups.filter((group) => group.length).map((group) => group.sort(byKind).map(wrappedImport).join("\n"));
  return `${[...blocks, lines.flat(Infinity).filter(Boolean).join("\n")].join("\n\n")}\n`;
}

/** An import, with one name per line if it is too long. */
function wrappedImport(line) {
  if (line.length <= MAX_LINE_LENGTH) return line;
  const [module, names] = line.split(" import ");
  return `${module} import (\n${names.split(", ").map((name) => `    ${name},\n`).join("")})`;
}

/** A text as a Python string literal; a long one as several adjacent literals, which need brackets. */
export function text(value) {
  const literal = quoted(value);
  if (literal.length <= MAX_TEXT_LENGTH) return literal;
  const parts = [""];
  for (const letter of value) {
    if (quoted(parts.at(-1) + letter).length > MAX_TEXT_LENGTH) parts.push("");
    parts[parts.length - 1] += letter;
  }
  return parts.map(quoted).join("\n");
}

/** `name = "..."`. */
export function assignText(name, value) {
  const literal = text(value);
  return literal.includes("\n") ? `${name} = (\n    ${indented(literal)}\n)` : `${name} = ${literal}`;
}

/**
 * The escapes of JSON are valid in Python. Invisible characters and those that change the writing direction are escaped
 * too. `for` iterates over whole characters, so that surrogate pairs are not split.
 */
function quoted(value) {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A number literal; integers have no decimal point. */
export function number(value) {
  if (Number.isFinite(value)) return String(value);
  return `float("${Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf"}")`;
}

/** A list of numbers, wrapped. */
export function numbers(values) {
  return wrapped(values.map(number));
}

/** A list of strings, wrapped. */
export function texts(values) {
  return wrapped(values.map(text));
}

/** A Python list with wrapped lines. */
function wrapped(items) {
  const short = `[${items.join(", ")}]`;
  if (short.length <= MAX_LINE_LENGTH - 24) return short;
  const lines = [""];
  for (const each of items) {
    if (lines.at(-1).length + each.length > MAX_LINE_LENGTH - 10 && lines.at(-1)) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${each},`;
  }
  return `[\n${lines.map((line) => `    ${indented(line)}`).join("\n")}\n]`;
}

/** A call on one line if it fits, else with all arguments on the next line, else with one argument per line. */
export function call(name, args, { before = "", after = "" } = {}) {
  const items = args.filter((each) => each !== null && each !== undefined);
  const short = `${before}${name}(${items.join(", ")})${after}`;
  if (!items.length || (short.length <= MAX_LINE_LENGTH && !short.includes("\n"))) return short;
  const below = `    ${items.join(", ")}`;
  if (below.length <= MAX_LINE_LENGTH && !below.includes("\n")) return `${before}${name}(\n${below}\n)${after}`;
  return `${before}${name}(\n${items.map((each) => `    ${indented(each)},\n`).join("")})${after}`;
}

/** `name = call(...)`. */
export function assignCall(name, callee, args, after = "") {
  return call(callee, args, { before: `${name} = `, after });
}

/** A line with a comment after it, or before it if both are too long. */
export function withComment(line, comment) {
  const commented = `${line}  # ${comment}`;
  return commented.length <= MAX_LINE_LENGTH && !line.includes("\n") ? commented : `# ${comment}\n${line}`;
}

/** The model of a run. */
export function loadModel(run, name = "model") {
  return assignCall(name, "seq2see.load", [text(run.load_name)]);
}

function indented(lines) {
  return lines.replaceAll("\n", "\n    ");
}
