/**
 * A line chart, as SVG.
 *
 *   const chart = lineChart({ name: "loss", lines: [{ name: "pocket", x: [1, 2], y: [3, 2], color, dashed, faint }] });
 *   container.append(chart.element, legend(lines));
 *   app.addDownload({ name: "loss", figure: chart.svg, table: chart.table });
 *
 * xName    the label of the x axis; `log` makes the y axis logarithmic (only if all values are positive)
 * from     a value that the y axis includes (0 for speeds)
 * onPick   called with the x of a click
 *
 * A line of many points is downsampled to the resolution of the screen, keeping the minimum and maximum of every chunk.
 * Pointing at the chart, or the arrow keys, shows the values at a step. `chart.svg.viewData = {lines}` has all points.
 */

import { LINE_COLORS, palette } from "./colors.js";
import { draw, fill, make } from "./dom.js";
import { formatNumber, formatTick } from "./number_format.js";
import { t } from "../strings.js";

const [WIDTH, HEIGHT] = [560, 300];
const EDGE = { left: 90, right: 14, top: 12, bottom: 42 };
const FONT = { "font-size": 15, "font-family": "system-ui, 'Noto Sans CJK SC', sans-serif" };
const HALF_DIGIT = 4.8; // half of the width of a digit of this font, at most
const MAX_POINTS = 1000;

export function lineChart(options) {
  const { name, lines, xName = "", log = false, from = null, onPick = null } = options;
  const scales = scalesOf(lines, log, from);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name, tabindex: 0, class: "chart" });
  const upright = { y1: EDGE.top, y2: HEIGHT - EDGE.bottom, stroke: palette().muted, "stroke-dasharray": "3 3" };
  const cursor = draw("line", { ...upright, display: "none" });
  svg.append(...axes(scales, xName), ...lines.map((line, index) => pathOf(line, index, scales)), cursor);
  svg.redraw = () => lineChart(options).svg;
  svg.viewData = { lines: lines.map(({ name: each, x, y }) => ({ name: each, x, y })) };
  const readout = make("output", { class: "chart-readout", "aria-live": "polite" });
  listen(svg, { lines, scales, cursor, readout, onPick });
  const table = () => ({
    columns: ["", xName || "x", t("value")],
    rows: lines.filter((line) => !line.faint).flatMap((line) => line.x.map((x, index) => [line.name, x, line.y[index]])),
  });
  return { element: make("figure", { class: "chart-box" }, make("figcaption", {}, name), svg, readout), svg, table };
}

/** The legend of some lines, in their order; dashed lines have a dashed swatch. */
export function legend(lines) {
  return make("p", { class: "legend" }, ...lines.map(({ name, color, dashed }, index) =>
    make("span", {}, swatch(color ?? LINE_COLORS[index % LINE_COLORS.length], dashed), name)));
}

export function swatch(color, dashed = false) {
  return make("span", { class: `swatch${dashed ? " dashed" : ""}`, style: { "--color": color } });
}

/** Ticks at round numbers: 1, 2 or 5 times a power of ten apart. */
export function ticks(min, max, target = 5) {
  const rough = (max - min) / target || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const first = Math.ceil(min / step - 1e-9);
  const count = Math.floor(max / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function scalesOf(lines, log, from) {
  const xs = extent(lines.flatMap(({ x }) => [x[0], x.at(-1)]));
  const ys = extent(lines.filter(({ faint }) => !faint).flatMap(({ y }) => extent(y)));
  if (from !== null) ys[0] = Math.min(ys[0], from);
  const isLog = log && ys[0] > 0;
  const transform = isLog ? Math.log10 : (value) => value;
  const [low, high] = padded(transform(ys[0]), transform(ys[1]), from !== null && !isLog ? 0 : 0.05);
  const x = (value) => EDGE.left + ((value - xs[0]) / (xs[1] - xs[0] || 1)) * (WIDTH - EDGE.left - EDGE.right);
  const y = (value) => HEIGHT - EDGE.bottom - ((transform(value) - low) / (high - low || 1)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const back = (pixel) => xs[0] + ((pixel - EDGE.left) / (WIDTH - EDGE.left - EDGE.right)) * (xs[1] - xs[0]);
  const yTicks = isLog ? logTicks(low, high) : ticks(low, high);
  const counts = lines.every((line) => line.x.every(Number.isInteger)); // steps and positions are integers, and so are their ticks
  const xTicks = ticks(xs[0], xs[1]).filter((value) => !counts || Number.isInteger(value));
  return { x, y, back, xTicks, yTicks, log: isLog };
}

function logTicks(low, high) {
  const powers = ticks(Math.floor(low), Math.ceil(high), 50).filter(Number.isInteger);
  const all = powers.flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
  const clamp = all.filter((value) => value >= 10 ** low && value <= 10 ** high);
  return clamp.length > 1 ? clamp : ticks(10 ** low, 10 ** high);
}

function extent(values) {
  let [min, max] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return min <= max ? [min, max] : [0, 1];
}

function padded(low, high, fraction) {
  const margin = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - (fraction ? margin : 0), high + margin];
}

function axes({ x, y, xTicks, yTicks }, xName) {
  const { muted, border } = palette();
  const right = WIDTH - EDGE.right;
  const bottom = HEIGHT - EDGE.bottom;
  const gridLines = yTicks.flatMap((value) => [
    draw("line", { x1: EDGE.left, x2: right, y1: y(value), y2: y(value), stroke: border }),
    draw("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end", fill: muted, ...FONT }, formatTick(value)),
  ]);
  const centered = { "text-anchor": "middle", fill: muted, ...FONT };
  const clamp = (value) => Math.min(x(value), WIDTH - HALF_DIGIT * formatTick(value).length); // so that the last label is not cut off
  const tickLabels = xTicks.map((value) => draw("text", { x: clamp(value), y: bottom + 18, ...centered }, formatTick(value)));
  const axisLabel = draw("text", { x: (EDGE.left + right) / 2, y: HEIGHT - 5, ...centered }, xName);
  return [...gridLines, ...tickLabels, axisLabel];
}

function pathOf(line, index, { x, y }) {
  const points = downsample(line).map(([step, value]) => [x(step), y(value)]);
  const clamp = (top) => Math.min(Math.max(top, EDGE.top - 4), HEIGHT - EDGE.bottom + 4);
  const clipped = ([left, top]) => `${left.toFixed(1)} ${clamp(top).toFixed(1)}`;
  const color = line.color ?? LINE_COLORS[index % LINE_COLORS.length];
  const attributes = { stroke: color, "stroke-width": line.faint ? 1 : 2.5, "stroke-opacity": line.faint ? 0.35 : 1 };
  const dashes = line.dashed ? { "stroke-dasharray": "7 4" } : {};
  if (points.length === 1) return draw("circle", { cx: points[0][0], cy: points[0][1], r: 4, fill: color });
  return draw("path", { d: points.length ? `M${points.map(clipped).join("L")}` : "", fill: "none", ...attributes, ...dashes });
}

/** At most `MAX_POINTS` points of a line, with the minimum and maximum of each chunk. */
function downsample({ x, y }) {
  const points = x.map((step, index) => [step, y[index]]).filter(([, value]) => Number.isFinite(value));
  if (points.length <= MAX_POINTS) return points;
  const chunkSize = Math.ceil((2 * points.length) / MAX_POINTS);
  const sampled = [];
  for (let start = 0; start < points.length; start += chunkSize) {
    const part = points.slice(start, start + chunkSize);
    const min = part.reduce((one, other) => (other[1] < one[1] ? other : one));
    const max = part.reduce((one, other) => (other[1] > one[1] ? other : one));
    sampled.push(...[...new Set([min, max])].sort((one, other) => one[0] - other[0]));
  }
  return sampled;
}

/** Show the values at the step under the pointer, or at the step chosen by the arrow keys. */
function listen(svg, { lines, scales, cursor, readout, onPick }) {
  const bold = lines.filter((line) => !line.faint && line.x.length);
  let current = null;
  const showValues = (target) => {
    const steps = bold.map((line) => line.x[nearest(line.x, target)]);
    if (!steps.length) return;
    current = steps.reduce((one, other) => (Math.abs(other - target) < Math.abs(one - target) ? other : one));
    const attributes = { x1: scales.x(current), x2: scales.x(current), display: "inline" };
    for (const [key, value] of Object.entries(attributes)) cursor.setAttribute(key, value);
    const values = bold.map((line) => `${line.name} ${formatNumber(line.y[nearest(line.x, current)])}`);
    fill(readout, `${formatNumber(current)}: ${values.join(" · ")}`);
  };
  const clear = () => {
    current = null;
    cursor.setAttribute("display", "none");
    fill(readout);
  };
  const stepAt = (event) => scales.back(((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * WIDTH);
  svg.addEventListener("pointermove", (event) => showValues(stepAt(event)));
  svg.addEventListener("click", () => current !== null && onPick?.(current));
  svg.addEventListener("pointerleave", () => cursor.setAttribute("display", "none"));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Enter" && current !== null) onPick?.(current);
    if (event.key === "Escape") clear();
    if (!step || !bold.length) return;
    event.preventDefault();
    const { x } = bold[0];
    showValues(x[Math.min(Math.max(current === null ? 0 : nearest(x, current) + step, 0), x.length - 1)]);
  });
}

function nearest(steps, target) {
  let [low, high] = [0, steps.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= target) low = middle;
    else high = middle;
  }
  return Math.abs(steps[high] - target) < Math.abs(steps[low] - target) ? high : low;
}
