/**
 * Python as text: what a learner can take out of the page and run.
 *
 *   python(["import numpy as np", SEQ2SEE], [loaded(app.run), assigned("record", call("model.trace", [text("红猫")]))])
 *
 * Imports are sorted as Python's formatters sort them. A call that is too long for a line gets a line for each argument.
 */

const WIDEST = 88; // characters of a line, as Python's formatters count
const LONGEST = 78; // of a text on one line
const INSTALLED = /^(?:import|from) (?:numpy|seq2see|torch)\b/; // all else comes with Python

/** What every snippet that opens a model imports. */
export const SEQ2SEE = "import seq2see";

/** A whole snippet. Lines may be null (nothing stands there), or lists of lines. */
export function python(imports, lines) {
  const groups = [[], []];
  for (const each of new Set(imports.flat().filter(Boolean))) groups[INSTALLED.test(each) ? 1 : 0].push(each);
  const plainFirst = (one, other) => Number(one.startsWith("from")) - Number(other.startsWith("from")) || (one < other ? -1 : 1);
  const above = groups.filter((group) => group.length).map((group) => group.sort(plainFirst).join("\n"));
  return `${[...above, lines.flat(Infinity).filter(Boolean).join("\n")].join("\n\n")}\n`;
}

/** A text as a Python string, a long one in several parts, which Python joins; alone on a line these need brackets. */
export function text(value) {
  const whole = quoted(value);
  if (whole.length <= LONGEST) return whole;
  const parts = [""];
  for (const letter of value) {
    if (quoted(parts.at(-1) + letter).length > LONGEST) parts.push("");
    parts[parts.length - 1] += letter;
  }
  return parts.map(quoted).join("\n");
}

/** `name = "..."`. */
export function assignText(name, value) {
  const told = text(value);
  return told.includes("\n") ? `${name} = (\n    ${indented(told)}\n)` : `${name} = ${told}`;
}

/**
 * JSON's escapes are Python's, too; what would not be seen, or would turn the direction of what is read, is escaped
 * besides. A letter is never cut in two: `for` goes by whole characters.
 */
function quoted(value) {
  return JSON.stringify(value).replace(/[\u007f-\u009f\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A number; a whole one stays whole. */
export function number(value) {
  if (Number.isFinite(value)) return String(value);
  return `float("${Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf"}")`;
}

/** A list of numbers, on as many lines as it needs. */
export function numbers(values) {
  return filled(values.map(number));
}

/** A list of texts. */
export function texts(values) {
  return filled(values.map(text));
}

/** A Python list whose lines are filled. */
function filled(items) {
  const short = `[${items.join(", ")}]`;
  if (short.length <= WIDEST - 24) return short;
  const lines = [""];
  for (const each of items) {
    if (lines.at(-1).length + each.length > WIDEST - 10 && lines.at(-1)) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${each},`;
  }
  return `[\n${lines.map((line) => `    ${indented(line)}`).join("\n")}\n]`;
}

/** A call on one line if it fits behind what stands before it, else its arguments on one below, else a line for each. */
export function call(name, args, { before = "", after = "" } = {}) {
  const items = args.filter((each) => each !== null && each !== undefined);
  const short = `${before}${name}(${items.join(", ")})${after}`;
  if (!items.length || (short.length <= WIDEST && !short.includes("\n"))) return short;
  const below = `    ${items.join(", ")}`;
  if (below.length <= WIDEST && !below.includes("\n")) return `${before}${name}(\n${below}\n)${after}`;
  return `${before}${name}(\n${items.map((each) => `    ${indented(each)},\n`).join("")})${after}`;
}

/** `name = call(...)`. */
export function assignCall(name, called, args, after = "") {
  return call(called, args, { before: `${name} = `, after });
}

/** A line with a remark behind it, or below where both are too long together. */
export function withComment(line, comment) {
  const both = `${line}  # ${comment}`;
  return both.length <= WIDEST && !line.includes("\n") ? both : `# ${comment}\n${line}`;
}

/** The model of a run. */
export function loadModel(run, name = "model") {
  return assignCall(name, "seq2see.load", [text(run.load_name)]);
}

function indented(lines) {
  return lines.replaceAll("\n", "\n    ");
}
