/**
 * A horizontal bar chart; the longest bar fills the width.
 *
 *   const chart = bars({ name: "next token", labels: ["我", "你"], values: [0.6, 0.3], max: 1, format: formatPercent });
 *   container.append(chart.element);
 *   app.addDownload({ name: "next token", figure: chart.svg, table: chart.table });
 *
 * onPick(index) turns the bars into buttons (also with Enter; the arrow keys move up and down); `chosen` highlights one bar;
 * `colors` has one color per bar. `values` may be negative. `narrow` charts fit into a column of a two-column layout.
 * `chart.svg.viewData = {labels, values}` is the data of the chart.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, make } from "./dom.js";
import { formatNumber } from "./number_format.js";
import { readable } from "./token_strip.js";

const [WIDTH, NARROW, HEIGHT, GAP] = [640, 500, 26, 4];
const FONT = { "font-size": 15, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function bars(options) {
  const { name, labels, values, max = null, format = formatNumber, chosen = -1, colors = null, onPick = null, narrow = false } = options;
  const width = narrow ? NARROW : WIDTH;
  const readableLabels = labels.map(readable);
  const margin = Math.min(Math.max(...readableLabels.map(widthOf), 20) + 12, 240);
  const scale = scaleOf(values, max, width - margin - 80);
  const height = labels.length * (HEIGHT + GAP);
  const role = onPick ? "group" : "img";
  const attributes = { viewBox: `0 0 ${width} ${Math.max(height, 1)}`, class: narrow ? "bars narrow-bars" : "bars" };
  const svg = draw("svg", { ...attributes, role, "aria-label": name });
  labels.forEach((_, index) => {
    const valueText = format(values[index]);
    const parts = barOf({ label: readableLabels[index], value: values[index], valueText, margin, scale, index, colors, chosen });
    svg.append(onPick ? clickable(parts, `${readableLabels[index]} ${valueText}`, () => onPick(index), index === chosen) : parts);
  });
  if (onPick) focusable([...svg.children], Math.max(chosen, 0));
  svg.redraw = () => bars({ ...options, onPick: null }).svg;
  svg.viewData = { labels, values: Array.from(values) };
  const table = { columns: [name, ""], rows: labels.map((label, index) => [label, values[index]]) };
  return { element: make("div", { class: "bars-box" }, svg), svg, table };
}

/** The position of zero, and the pixels per unit. */
function scaleOf(values, max, width) {
  const min = Math.min(0, ...values);
  const largest = Math.max(max ?? 0, 0, ...values);
  const unit = width / (largest - min || 1);
  return { zero: -min * unit, unit };
}

function barOf({ label, value, valueText, margin, scale, index, colors, chosen }) {
  const { foreground, accent, border } = palette();
  const y = index * (HEIGHT + GAP);
  const length = Math.abs(value || 0) * scale.unit;
  const x = margin + scale.zero - (value < 0 ? length : 0);
  const group = draw("g", {});
  group.append(
    draw("text", { x: margin - 8, y: y + 18, "text-anchor": "end", fill: foreground, ...FONT }, label),
    draw("rect", { x: margin + scale.zero, y, width: 1, height: HEIGHT + GAP, fill: border }),
    draw("rect", {
      x, y, width: Math.max(length, 1), height: HEIGHT, rx: 2, fill: colors?.[index] ?? LINE_COLORS[0],
      ...(index === chosen ? { stroke: accent, "stroke-width": 3 } : {}),
    }),
    draw("text", { x: Math.max(x + length, margin + scale.zero) + 6, y: y + 18, fill: foreground, ...FONT }, valueText),
  );
  return group;
}

function clickable(group, name, onClick, pressed) {
  const attributes = { tabindex: -1, role: "button", "aria-label": name, "aria-pressed": String(pressed), class: "clickable" };
  for (const [key, value] of Object.entries(attributes)) group.setAttribute(key, value);
  group.addEventListener("click", onClick);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onClick();
  });
  return group;
}

/** A roving tab index: the Tab key reaches one item, the arrow keys the others. */
function focusable(items, initial) {
  items[initial]?.setAttribute("tabindex", 0);
  items.forEach((item, index) => {
    item.addEventListener("focus", () => items.forEach((each) => each.setAttribute("tabindex", each === item ? 0 : -1)));
    item.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      items[index + step]?.focus();
    });
  });
}

let measureContext;
function widthOf(text) {
  measureContext ??= make("canvas").getContext("2d");
  measureContext.font = `${FONT["font-size"]}px ${FONT["font-family"]}`;
  return measureContext.measureText(text).width;
}
