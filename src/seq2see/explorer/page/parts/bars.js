/**
 * Numbers with names as bars, the longest of which fills the width.
 *
 *   const chart = bars({ name: "next token", labels: ["我", "你"], values: [0.6, 0.3], most: 1, told: share });
 *   place.append(chart.element);
 *   bench.offer({ name: "next token", figure: chart.svg, table: chart.table });
 *
 * onPick(index) makes the bars buttons that can be pressed (also with Enter; the arrow keys go up and down); `chosen` marks
 * one; `colors` gives each its own. `values` may be below zero: then bars go both ways. `narrow` ones stand beside something.
 * `chart.svg.viewData = {labels, values}` is what is shown.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, make } from "./dom.js";
import { formatNumber } from "./figures.js";
import { readable } from "./strip.js";

const [WIDTH, NARROW, HEIGHT, GAP] = [640, 500, 26, 4];
const FONT = { "font-size": 15, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function bars(options) {
  const { name, labels, values, max = null, format = formatNumber, chosen = -1, colors = null, onPick = null, narrow = false } = options;
  const width = narrow ? NARROW : WIDTH;
  const shownLabels = labels.map(readable);
  const room = Math.min(Math.max(...shownLabels.map(widthOf), 20) + 12, 240);
  const scale = scaleOf(values, max, width - room - 80);
  const high = labels.length * (HEIGHT + GAP);
  const picked = onPick ? "group" : "img";
  const attributes = { viewBox: `0 0 ${width} ${Math.max(high, 1)}`, class: narrow ? "bars narrow-bars" : "bars" };
  const svg = draw("svg", { ...attributes, role: picked, "aria-label": name });
  labels.forEach((_, index) => {
    const valueText = format(values[index]);
    const parts = barOf({ label: shownLabels[index], value: values[index], format: valueText, room, scale, index, colors, chosen });
    svg.append(onPick ? clickable(parts, `${shownLabels[index]} ${valueText}`, () => onPick(index), index === chosen) : parts);
  });
  if (onPick) walkable([...svg.children], Math.max(chosen, 0));
  svg.redraw = () => bars({ ...options, onPick: null }).svg;
  svg.viewData = { labels, values: Array.from(values) };
  const table = { columns: [name, ""], rows: labels.map((label, index) => [label, values[index]]) };
  return { element: make("div", { class: "bars-box" }, svg), svg, table };
}

/** Where zero lies, and how many units a pixel is. */
function scaleOf(values, max, width) {
  const min = Math.min(0, ...values);
  const largest = Math.max(max ?? 0, 0, ...values);
  const unit = width / (largest - min || 1);
  return { zero: -min * unit, unit };
}

function barOf({ label, value, format, room, scale, index, colors, chosen }) {
  const { ink, mark, line } = palette();
  const y = index * (HEIGHT + GAP);
  const length = Math.abs(value || 0) * scale.unit;
  const x = room + scale.zero - (value < 0 ? length : 0);
  const group = draw("g", {});
  group.append(
    draw("text", { x: room - 8, y: y + 18, "text-anchor": "end", fill: ink, ...FONT }, label),
    draw("rect", { x: room + scale.zero, y, width: 1, height: HEIGHT + GAP, fill: line }),
    draw("rect", {
      x, y, width: Math.max(length, 1), height: HEIGHT, rx: 2, fill: colors?.[index] ?? LINE_COLORS[0],
      ...(index === chosen ? { stroke: mark, "stroke-width": 3 } : {}),
    }),
    draw("text", { x: Math.max(x + length, room + scale.zero) + 6, y: y + 18, fill: ink, ...FONT }, format),
  );
  return group;
}

function clickable(group, name, action, pressed) {
  const attributes = { tabindex: -1, role: "button", "aria-label": name, "aria-pressed": String(pressed), class: "clickable" };
  for (const [key, value] of Object.entries(attributes)) group.setAttribute(key, value);
  group.addEventListener("click", action);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action();
  });
  return group;
}

/** One stop for the Tab key, from which the arrow keys go on. */
function walkable(items, first) {
  items[first]?.setAttribute("tabindex", 0);
  items.forEach((item, place) => {
    item.addEventListener("focus", () => items.forEach((each) => each.setAttribute("tabindex", each === item ? 0 : -1)));
    item.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      items[place + step]?.focus();
    });
  });
}

let measured;
function widthOf(text) {
  measured ??= make("canvas").getContext("2d");
  measured.font = `${FONT["font-size"]}px ${FONT["font-family"]}`;
  return measured.measureText(text).width;
}
