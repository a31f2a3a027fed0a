/**
 * Lines between two columns of tokens: who looks at whom, and how much.
 *
 *   const image = looks({ name: "attention", left: ["我", "有"], right: ["I", "have"], sets: [{ values, color }] });
 *   place.append(image.element);
 *   image.point("left", 2)             only the lines of this token ("right" too; null: all)
 *   bench.offer({ name: "attention", figure: image.svg, table: image.table });
 *
 * values   row by row: a row for each left token, a column for each right one; the thicker a line, the more
 * sets     several heads at once, each in its color and with its name
 * least    lines below this are left out; of the others at most `MOST_LINES`, the strongest
 * onPoint  (side, index or null) as the pointer or the arrow keys move
 *
 * `image.svg.viewData = {left, right, lines: [{from, to, value, set}]}` is what is shown.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, make } from "./dom.js";
import { readable } from "./strip.js";
import { t } from "../words.js";

const MOST_LINES = 2000;
const [STEP, ROOM, BETWEEN, SIZE] = [26, 150, 260, 15];
const FONT = { "font-size": SIZE, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function attentionLines(options) {
  const { name, left, right, sets, least = 0.05, onPoint = () => {} } = options;
  const high = Math.max(left.length, right.length, 1) * STEP + 8;
  const wide = 2 * ROOM + BETWEEN;
  const size = { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high };
  const svg = draw("svg", { ...size, role: "group", "aria-label": name, class: "attentionLines" });
  const lines = strongest(sets, right.length, least);
  const paths = lines.map((line) => strokeOf(line, sets[line.set].color ?? LINE_COLORS[line.set % LINE_COLORS.length]));
  const tokens = {
    left: left.map((text, row) => tokenElement(text, row, "left")),
    right: right.map((text, row) => tokenElement(text, row, "right")),
  };
  svg.append(draw("g", {}, ...paths), draw("g", {}, ...tokens.left), draw("g", {}, ...tokens.right));
  svg.redraw = () => attentionLines({ ...options, onPoint: undefined }).svg;
  svg.viewData = { left, right, lines };
  const told = ({ from, to, value, set }) => [sets[set].name ?? set + 1, from + 1, left[from], to + 1, right[to], value];
  const table = { columns: ["", "#", t("row"), "#", t("column"), t("value")], rows: lines.toReversed().map(told) };
  const point = (side, index) => {
    const { ink, mark } = palette();
    paths.forEach((stroke, place) => {
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

function strokeOf({ from, to, value }, color) {
  const [y1, y2] = [(from + 0.5) * STEP, (to + 0.5) * STEP];
  const middle = ROOM + BETWEEN / 2;
  const path = `M${ROOM} ${y1} C${middle} ${y1} ${middle} ${y2} ${ROOM + BETWEEN} ${y2}`;
  const attentionLines = { fill: "none", stroke: color, "stroke-width": 1 + 5 * value, "stroke-opacity": 0.15 + 0.85 * value };
  return draw("path", { d: path, ...attentionLines });
}

function tokenElement(text, row, side) {
  const isLeft = side === "left";
  const place = isLeft ? { x: ROOM - 8, "text-anchor": "end" } : { x: ROOM + BETWEEN + 8, "text-anchor": "start" };
  const reached = { tabindex: row === 0 ? 0 : -1, role: "button", "aria-label": `${text} ${row + 1}` };
  const viewData = [...readable(text)].slice(0, 16).join("");
  return draw("text", { ...place, y: (row + 0.5) * STEP + 5, ...FONT, fill: palette().ink, ...reached }, viewData);
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
