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
  const made = document.createElementNS(SPACE, name);
  made.append(...parts);
  return made;
}

/** The formulas of a line of text, one below the other. */
export function formula(text) {
  const lines = text.split(" ;; ").map((line) => {
    const math = element("math", row(line.match(TOKENS) ?? []));
    math.setAttribute("displaystyle", "true");
    const place = document.createElement("div");
    place.append(math);
    return place;
  });
  const place = document.createElement("div");
  place.className = "formula";
  place.append(...lines);
  return place;
}

/** All that there is, side by side; `tokens` are used up. Letters may touch, words are kept apart from their neighbors. */
function row(tokens) {
  const parts = [];
  let before = "";
  while (tokens.length && tokens[0] !== "}") {
    const next = tokens[0];
    const touch = ENDS.test(before) && NAME.test(next);
    if (touch && (isWord(before) || isWord(next))) parts.push(gap());
    parts.push(scripted(tokens));
    before = next;
  }
  return element("mrow", ...parts);
}

function isWord(token) {
  return /^\p{L}\p{M}*\p{L}/u.test(token) && token !== "frac" && token !== "root";
}

function gap() {
  const made = element("mspace");
  made.setAttribute("width", "0.3em");
  return made;
}

/** One thing, with what is set low and high behind it. */
function scripted(tokens) {
  const base = single(tokens);
  const below = tokens[0] === "_" ? (tokens.shift(), single(tokens)) : null;
  const above = tokens[0] === "^" ? (tokens.shift(), single(tokens)) : null;
  if (below && above) return element("msubsup", base, below, above);
  if (below) return element("msub", base, below);
  return above ? element("msup", base, above) : base;
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
  const inside = row(tokens);
  tokens.shift();
  return inside;
}
