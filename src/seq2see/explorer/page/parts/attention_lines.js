/**
 * Attention as lines between two columns of tokens: queries at the left, keys at the right.
 *
 *   const lines = attentionLines({ name: "attention", left: ["我", "有"], right: ["I", "have"], sets: [{ values, color }] });
 *   container.append(lines.element);
 *   lines.point("left", 2)             only the lines of this token (also "right"; null: all)
 *   app.addDownload({ name: "attention", figure: lines.svg, table: lines.table });
 *
 * values     row by row: a row for each left token, a column for each right one; the width of a line is proportional
 * sets       several heads at once, each with its color and name
 * threshold  smaller weights have no line; of the others the largest `MAX_LINES` are drawn
 * onPoint    (side, index or null) as the pointer or the arrow keys move
 *
 * `lines.svg.viewData = {left, right, lines: [{from, to, value, set}]}` is the data of the figure.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, make } from "./dom.js";
import { readable } from "./token_strip.js";
import { t } from "../strings.js";

const MAX_LINES = 2000;
const [STEP, COLUMN, GAP, SIZE] = [26, 150, 260, 15];
const FONT = { "font-size": SIZE, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function attentionLines(options) {
  const { name, left, right, sets, threshold = 0.05, onPoint = () => {} } = options;
  const height = Math.max(left.length, right.length, 1) * STEP + 8;
  const width = 2 * COLUMN + GAP;
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = draw("svg", { ...size, role: "group", "aria-label": name, class: "attention-lines" });
  const lines = strongest(sets, right.length, threshold);
  const paths = lines.map((line) => pathOf(line, sets[line.set].color ?? LINE_COLORS[line.set % LINE_COLORS.length]));
  const tokens = {
    left: left.map((text, row) => tokenElement(text, row, "left")),
    right: right.map((text, row) => tokenElement(text, row, "right")),
  };
  svg.append(draw("g", {}, ...paths), draw("g", {}, ...tokens.left), draw("g", {}, ...tokens.right));
  svg.redraw = () => attentionLines({ ...options, onPoint: undefined }).svg;
  svg.viewData = { left, right, lines };
  const tableRow = ({ from, to, value, set }) => [sets[set].name ?? set + 1, from + 1, left[from], to + 1, right[to], value];
  const table = { columns: ["", "#", t("row"), "#", t("column"), t("value")], rows: lines.toReversed().map(tableRow) };
  const point = (side, index) => {
    const { foreground, accent } = palette();
    paths.forEach((path, number) => {
      const visible = index === null || (side === "left" ? lines[number].from : lines[number].to) === index;
      path.setAttribute("display", visible ? "inline" : "none");
    });
    for (const [each, texts] of Object.entries(tokens))
      texts.forEach((text, number) => text.setAttribute("fill", each === side && number === index ? accent : foreground));
  };
  listen(svg, tokens, (side, index) => {
    point(side, index);
    onPoint(side, index);
  });
  return { element: make("div", { class: "scroll" }, svg), svg, point, table };
}

/** The strongest lines in ascending order, so that strong lines are drawn on top. */
function strongest(sets, width, threshold) {
  const lines = [];
  sets.forEach(({ values }, set) => values.forEach((value, index) => {
    if (value >= threshold) lines.push({ from: Math.floor(index / width), to: index % width, value, set });
  }));
  return lines.sort((one, other) => one.value - other.value).slice(-MAX_LINES);
}

function pathOf({ from, to, value }, color) {
  const [y1, y2] = [(from + 0.5) * STEP, (to + 0.5) * STEP];
  const middle = COLUMN + GAP / 2;
  const path = `M${COLUMN} ${y1} C${middle} ${y1} ${middle} ${y2} ${COLUMN + GAP} ${y2}`;
  const attributes = { fill: "none", stroke: color, "stroke-width": 1 + 5 * value, "stroke-opacity": 0.15 + 0.85 * value };
  return draw("path", { d: path, ...attributes });
}

function tokenElement(text, row, side) {
  const isLeft = side === "left";
  const anchor = isLeft ? { x: COLUMN - 8, "text-anchor": "end" } : { x: COLUMN + GAP + 8, "text-anchor": "start" };
  const attributes = { tabindex: row === 0 ? 0 : -1, role: "button", "aria-label": `${text} ${row + 1}` };
  const label = [...readable(text)].slice(0, 16).join("");
  return draw("text", { ...anchor, y: (row + 0.5) * STEP + 5, ...FONT, fill: palette().foreground, ...attributes }, label);
}

function listen(svg, tokens, point) {
  for (const [side, texts] of Object.entries(tokens))
    texts.forEach((text, index) => {
      text.addEventListener("pointerenter", () => point(side, index));
      text.addEventListener("focus", () => point(side, index));
      text.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const otherSide = { ArrowLeft: "left", ArrowRight: "right" }[event.key];
        const next = step ? texts[index + step] : otherSide ? tokens[otherSide][Math.min(index, tokens[otherSide].length - 1)] : null;
        if (!step && !otherSide) return;
        event.preventDefault();
        next?.focus();
      });
    });
  svg.addEventListener("pointerleave", () => point(null, null));
  svg.addEventListener("focusout", () => point(null, null));
}
