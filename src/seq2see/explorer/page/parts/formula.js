/**
 * Formulas as MathML, without a library.
 *
 * The syntax is a simplified LaTeX: `softmax(frac{Q K^T}{root{d}}) V`. A word of several letters is upright, a single
 * letter italic; `_` and `^` are subscripts and superscripts, braces group, `frac{}{}` is a fraction, `root{}` a square
 * root, and ` ;; ` begins a new line.
 */

const SPACE = "http://www.w3.org/1998/Math/MathML";
/** Numbers, words (with combining marks), and single symbols. */
const TOKENS = /\d+(?:\.\d+)?|\p{L}\p{M}*(?:\p{L}\p{M}*)*|\S/gu;

/** The start of a number or a word. */
const NAME = /^[\p{L}\d]/u;
const ENDS = /^[\p{L}\d)]/u;

/** A MathML element with children. */
function element(name, ...parts) {
  const node = document.createElementNS(SPACE, name);
  node.append(...parts);
  return node;
}

/** The formulas of a text, one per line. */
export function formula(text) {
  const rows = text.split(" ;; ").map((line) => {
    const math = element("math", row(line.match(TOKENS) ?? []));
    math.setAttribute("displaystyle", "true");
    const container = document.createElement("div");
    container.append(math);
    return container;
  });
  const container = document.createElement("div");
  container.className = "formula";
  container.append(...rows);
  return container;
}

/** An <mrow> of all tokens up to a closing brace; `tokens` are consumed. Words are separated by a space. */
function row(tokens) {
  const parts = [];
  let previous = "";
  while (tokens.length && tokens[0] !== "}") {
    const next = tokens[0];
    const adjacent = ENDS.test(previous) && NAME.test(next);
    if (adjacent && (isWord(previous) || isWord(next))) parts.push(gap());
    parts.push(scripted(tokens));
    previous = next;
  }
  return element("mrow", ...parts);
}

function isWord(token) {
  return /^\p{L}\p{M}*\p{L}/u.test(token) && token !== "frac" && token !== "root";
}

function gap() {
  const node = element("mspace");
  node.setAttribute("width", "0.3em");
  return node;
}

/** One element with its subscript and superscript. */
function scripted(tokens) {
  const base = single(tokens);
  const subscript = tokens[0] === "_" ? (tokens.shift(), single(tokens)) : null;
  const superscript = tokens[0] === "^" ? (tokens.shift(), single(tokens)) : null;
  if (subscript && superscript) return element("msubsup", base, subscript, superscript);
  if (subscript) return element("msub", base, subscript);
  return superscript ? element("msup", base, superscript) : base;
}

/** A number, a word, a symbol, or a group in braces. */
function single(tokens) {
  const token = tokens.shift() ?? "";
  if (token === "{") return group(tokens);
  if (token === "frac") return element("mfrac", single(tokens), single(tokens));
  if (token === "root") return element("msqrt", single(tokens));
  if (/^\d/u.test(token)) return element("mn", token);
  return element(/^\p{L}/u.test(token) ? "mi" : "mo", token);
}

/** The contents of braces. */
function group(tokens) {
  const content = row(tokens);
  tokens.shift();
  return content;
}
