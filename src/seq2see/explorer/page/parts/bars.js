/**
 * Numbers with names as bars, the longest of which fills the width.
 *
 *   const chart = bars({ name: "next token", labels: ["我", "你"], values: [0.6, 0.3], most: 1, told: share });
 *   place.append(chart.element);
 *   bench.offer({ name: "next token", picture: chart.svg, table: chart.table });
 *
 * onPick(index) makes the bars buttons that can be pressed (also with Enter; the arrow keys go up and down); `chosen` marks
 * one; `colours` gives each its own. `values` may be below zero: then bars go both ways. `narrow` ones stand beside something.
 * `chart.svg.shown = {labels, values}` is what is shown.
 */

import { LINES, paper } from "./colours.js";
import { draw, make } from "./dom.js";
import { figure } from "./figures.js";
import { readable } from "./strip.js";

const [WIDTH, NARROW, HEIGHT, GAP] = [640, 500, 26, 4];
const FONT = { "font-size": 15, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };

export function bars(given) {
  const { name, labels, values, most = null, told = figure, chosen = -1, colours = null, onPick = null, narrow = false } = given;
  const width = narrow ? NARROW : WIDTH;
  const shownLabels = labels.map(readable);
  const room = Math.min(Math.max(...shownLabels.map(widthOf), 20) + 12, 240);
  const scale = scaleOf(values, most, width - room - 80);
  const high = labels.length * (HEIGHT + GAP);
  const picked = onPick ? "group" : "img";
  const looks = { viewBox: `0 0 ${width} ${Math.max(high, 1)}`, class: narrow ? "bars narrow-bars" : "bars" };
  const svg = draw("svg", { ...looks, role: picked, "aria-label": name });
  labels.forEach((_, index) => {
    const told_ = told(values[index]);
    const parts = barOf({ label: shownLabels[index], value: values[index], told: told_, room, scale, index, colours, chosen });
    svg.append(onPick ? pressable(parts, `${shownLabels[index]} ${told_}`, () => onPick(index), index === chosen) : parts);
  });
  if (onPick) walkable([...svg.children], Math.max(chosen, 0));
  svg.again = () => bars({ ...given, onPick: null }).svg;
  svg.shown = { labels, values: Array.from(values) };
  const table = { columns: [name, ""], rows: labels.map((label, index) => [label, values[index]]) };
  return { element: make("div", { class: "bars-box" }, svg), svg, table };
}

/** Where zero lies, and how many units a pixel is. */
function scaleOf(values, most, width) {
  const least = Math.min(0, ...values);
  const largest = Math.max(most ?? 0, 0, ...values);
  const unit = width / (largest - least || 1);
  return { zero: -least * unit, unit };
}

function barOf({ label, value, told, room, scale, index, colours, chosen }) {
  const { ink, mark, line } = paper();
  const y = index * (HEIGHT + GAP);
  const length = Math.abs(value || 0) * scale.unit;
  const x = room + scale.zero - (value < 0 ? length : 0);
  const group = draw("g", {});
  group.append(
    draw("text", { x: room - 8, y: y + 18, "text-anchor": "end", fill: ink, ...FONT }, label),
    draw("rect", { x: room + scale.zero, y, width: 1, height: HEIGHT + GAP, fill: line }),
    draw("rect", {
      x, y, width: Math.max(length, 1), height: HEIGHT, rx: 2, fill: colours?.[index] ?? LINES[0],
      ...(index === chosen ? { stroke: mark, "stroke-width": 3 } : {}),
    }),
    draw("text", { x: Math.max(x + length, room + scale.zero) + 6, y: y + 18, fill: ink, ...FONT }, told),
  );
  return group;
}

function pressable(group, name, act, pressed) {
  const attributes = { tabindex: -1, role: "button", "aria-label": name, "aria-pressed": String(pressed), class: "pressable" };
  for (const [key, value] of Object.entries(attributes)) group.setAttribute(key, value);
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
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
