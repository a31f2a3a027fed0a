/**
 * Formulas as MathML, which browsers set by themselves: no library, no image.
 *
 * They are written in a line of text, much as people write them in mail: `softmax(frac{Q K^T}{root{d}}) V`. A word of
 * several letters is upright, a single letter slanted; `_` and `^` set what follows low and high, braces hold things
 * together, `frac{}{}` and `root{}` are what they say, and ` ;; ` begins a new line.
 */

const SPACE = "http://www.w3.org/1998/Math/MathML";
/** Numbers, words (with marks above letters), and everything else sign by sign. */
const TOKENS = /\d+(?:\.\d+)?|\p{L}\p{M}*(?:\p{L}\p{M}*)*|\S/gu;

/** Numbers and letters: what is no sign. */
const NAME = /^[\p{L}\d]/u;
const ENDS = /^[\p{L}\d)]/u;

/** A MathML element with parts in it. */
function element(name, ...parts) {
  const node = document.createElementNS(SPACE, name);
  node.append(...parts);
  return node;
}

/** The formulas of a line of text, one below the other. */
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

/** All that there is, side by side; `tokens` are used up. Letters may touch, words are kept apart from their neighbors. */
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

/** One thing, with what is set low and high behind it. */
function scripted(tokens) {
  const base = single(tokens);
  const subscript = tokens[0] === "_" ? (tokens.shift(), single(tokens)) : null;
  const superscript = tokens[0] === "^" ? (tokens.shift(), single(tokens)) : null;
  if (subscript && superscript) return element("msubsup", base, subscript, superscript);
  if (subscript) return element("msub", base, subscript);
  return superscript ? element("msup", base, superscript) : base;
}

/** A number, a word, a sign, or a group in braces. */
function single(tokens) {
  const token = tokens.shift() ?? "";
  if (token === "{") return group(tokens);
  if (token === "frac") return element("mfrac", single(tokens), single(tokens));
  if (token === "root") return element("msqrt", single(tokens));
  if (/^\d/u.test(token)) return element("mn", token);
  return element(/^\p{L}/u.test(token) ? "mi" : "mo", token);
}

/** What stands before the closing brace. */
function group(tokens) {
  const content = row(tokens);
  tokens.shift();
  return content;
}
