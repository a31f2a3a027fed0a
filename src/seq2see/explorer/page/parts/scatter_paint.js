/** Painting of a scatter plot, on a canvas or as SVG: points, labels that do not overlap, and highlighted points. */

import { LINE_COLORS } from "./colors.js";
import { readable } from "./token_strip.js";

const LABEL_WIDTH = 90; // pixels
const MANY = 2000; // more points than this are small and translucent
const FONT = '15px system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';

/** `visible` are the visible points as `[index, x, y]`; `marked` are the highlighted ones as `[index, x, y, isFirst]`. */
export function paintPoints(context, { size, visible, marked, labels, colors, pointColors }) {
  context.globalAlpha = 1;
  context.fillStyle = colors.background;
  context.fillRect(0, 0, size.width, size.height);
  context.globalAlpha = marked.length ? 0.35 : visible.length > MANY ? 0.6 : 1;
  const radius = visible.length > MANY ? 1.2 : 2.2;
  for (const [index, x, y] of visible) dot(context, x, y, radius, pointColors?.[index] ?? LINE_COLORS[0]);
  drawLabels(context, { visible, labels, colors });
  context.globalAlpha = 1;
  marked.toReversed().forEach((each) => drawHighlighted(context, each, { labels, colors }));
}

function dot(context, x, y, radius, color) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = color;
  context.fill();
}

/** Labels that do not overlap; the first points, which are the most frequent words, have priority. */
function drawLabels(context, { visible, labels, colors }) {
  const occupied = new Set();
  context.font = FONT;
  context.fillStyle = colors.foreground;
  for (const [index, x, y] of visible) {
    const [column, line] = [Math.floor(x / LABEL_WIDTH), Math.floor(y / 20)];
    if ([-1, 0, 1].some((step) => occupied.has(`${column + step},${line}`))) continue;
    occupied.add(`${column},${line}`);
    context.fillText(readable(labels[index]), x + 5, y + 5);
  }
}

/** A highlighted point with its label, on top of all others. */
function drawHighlighted(context, [index, x, y, isFirst], { labels, colors }) {
  dot(context, x, y, isFirst ? 7 : 5, isFirst ? colors.accent : LINE_COLORS[2]);
  context.font = `bold ${FONT}`;
  context.lineWidth = 4;
  context.strokeStyle = colors.background;
  context.strokeText(readable(labels[index]), x + 9, y + 5);
  context.fillStyle = colors.foreground;
  context.fillText(readable(labels[index]), x + 9, y + 5);
}
