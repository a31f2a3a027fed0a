/**
 * Lines between two columns of tokens: who looks at whom, and how much.
 *
 *   const picture = looks({ name: "attention", left: ["我", "有"], right: ["I", "have"], sets: [{ values, colour }] });
 *   place.append(picture.element);
 *   picture.point("left", 2)             only the lines of this token ("right" too; null: all)
 *   bench.offer({ name: "attention", picture: picture.svg, table: picture.table });
 *
 * values   row by row: a row for each left token, a column for each right one; the thicker a line, the more
 * sets     several heads at once, each in its colour and with its name
 * least    lines below this are left out; of the others at most `MOST_LINES`, the strongest
 * onPoint  (side, index or null) as the pointer or the arrow keys move
 *
 * `picture.svg.shown = {left, right, lines: [{from, to, value, set}]}` is what is shown.
 */

import { LINES, paper } from "./colours.js";
import { draw, make } from "./dom.js";
import { readable } from "./strip.js";
import { word } from "../words.js";

const MOST_LINES = 2000;
const [STEP, ROOM, BETWEEN, SIZE] = [26, 150, 260, 15];
const FONT = { "font-size": SIZE, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function looks(given) {
  const { name, left, right, sets, least = 0.05, onPoint = () => {} } = given;
  const high = Math.max(left.length, right.length, 1) * STEP + 8;
  const wide = 2 * ROOM + BETWEEN;
  const size = { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high };
  const svg = draw("svg", { ...size, role: "group", "aria-label": name, class: "looks" });
  const lines = strongest(sets, right.length, least);
  const strokes = lines.map((line) => strokeOf(line, sets[line.set].colour ?? LINES[line.set % LINES.length]));
  const tokens = {
    left: left.map((text, row) => tokenOf(text, row, "left")),
    right: right.map((text, row) => tokenOf(text, row, "right")),
  };
  svg.append(draw("g", {}, ...strokes), draw("g", {}, ...tokens.left), draw("g", {}, ...tokens.right));
  svg.again = () => looks({ ...given, onPoint: undefined }).svg;
  svg.shown = { left, right, lines };
  const told = ({ from, to, value, set }) => [sets[set].name ?? set + 1, from + 1, left[from], to + 1, right[to], value];
  const table = { columns: ["", "#", word("row"), "#", word("column"), word("value")], rows: lines.toReversed().map(told) };
  const point = (side, index) => {
    const { ink, mark } = paper();
    strokes.forEach((stroke, place) => {
      const meant = index === null || (side === "left" ? lines[place].from : lines[place].to) === index;
      stroke.setAttribute("display", meant ? "inline" : "none");
    });
    for (const [each, texts] of Object.entries(tokens))
      texts.forEach((text, place) => text.setAttribute("fill", each === side && place === index ? mark : ink));
  };
  listen(svg, tokens, (side, index) => {
    point(side, index);
    onPoint(side, index);
  });
  return { element: make("div", { class: "scroll" }, svg), svg, point, table };
}

/** The lines that are worth drawing, the weakest first, so that strong ones lie on top. */
function strongest(sets, width, least) {
  const found = [];
  sets.forEach(({ values }, set) => values.forEach((value, place) => {
    if (value >= least) found.push({ from: Math.floor(place / width), to: place % width, value, set });
  }));
  return found.sort((one, other) => one.value - other.value).slice(-MOST_LINES);
}

function strokeOf({ from, to, value }, colour) {
  const [y1, y2] = [(from + 0.5) * STEP, (to + 0.5) * STEP];
  const middle = ROOM + BETWEEN / 2;
  const path = `M${ROOM} ${y1} C${middle} ${y1} ${middle} ${y2} ${ROOM + BETWEEN} ${y2}`;
  const looks = { fill: "none", stroke: colour, "stroke-width": 1 + 5 * value, "stroke-opacity": 0.15 + 0.85 * value };
  return draw("path", { d: path, ...looks });
}

function tokenOf(text, row, side) {
  const isLeft = side === "left";
  const place = isLeft ? { x: ROOM - 8, "text-anchor": "end" } : { x: ROOM + BETWEEN + 8, "text-anchor": "start" };
  const reached = { tabindex: row === 0 ? 0 : -1, role: "button", "aria-label": `${text} ${row + 1}` };
  const shown = [...readable(text)].slice(0, 16).join("");
  return draw("text", { ...place, y: (row + 0.5) * STEP + 5, ...FONT, fill: paper().ink, ...reached }, shown);
}

function listen(svg, tokens, point) {
  for (const [side, texts] of Object.entries(tokens))
    texts.forEach((text, index) => {
      text.addEventListener("pointerenter", () => point(side, index));
      text.addEventListener("focus", () => point(side, index));
      text.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const across = { ArrowLeft: "left", ArrowRight: "right" }[event.key];
        const next = step ? texts[index + step] : across ? tokens[across][Math.min(index, tokens[across].length - 1)] : null;
        if (!step && !across) return;
        event.preventDefault();
        next?.focus();
      });
    });
  svg.addEventListener("pointerleave", () => point(null, null));
  svg.addEventListener("focusout", () => point(null, null));
}
