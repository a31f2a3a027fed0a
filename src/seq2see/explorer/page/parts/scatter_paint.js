/** How a map of points is painted, on a canvas or as SVG: points, names as far as there is room, and those that stand out. */

import { LINE_COLORS } from "./colors.js";
import { readable } from "./strip.js";

const CELL = 90; // pixels: room of a name
const MANY = 2000; // beyond so many, points are small and shine through
const FONT = '15px system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';

/** `visible` are the points in sight, as number, x and y; `marked` those that stand out, the first of them the most. */
export function paintPoints(context, { size, visible, marked, labels, colors, ofPoint }) {
  context.globalAlpha = 1;
  context.fillStyle = colors.palette;
  context.fillRect(0, 0, size.width, size.height);
  context.globalAlpha = marked.length ? 0.35 : visible.length > MANY ? 0.6 : 1;
  const radius = visible.length > MANY ? 1.2 : 2.2;
  for (const [index, x, y] of visible) dot(context, x, y, radius, ofPoint?.[index] ?? LINE_COLORS[0]);
  names(context, { visible, labels, colors });
  context.globalAlpha = 1;
  marked.toReversed().forEach((each) => highlighted(context, each, { labels, colors }));
}

function dot(context, x, y, radius, color) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = color;
  context.fill();
}

/** Names where no other stands: the first of the list, which are the commonest, come first. */
function names(context, { visible, labels, colors }) {
  const taken = new Set();
  context.font = FONT;
  context.fillStyle = colors.ink;
  for (const [index, x, y] of visible) {
    const [column, line] = [Math.floor(x / CELL), Math.floor(y / 20)];
    if ([-1, 0, 1].some((step) => taken.has(`${column + step},${line}`))) continue;
    taken.add(`${column},${line}`);
    context.fillText(readable(labels[index]), x + 5, y + 5);
  }
}

/** A point with its name over everything else. */
function highlighted(context, [index, x, y, first], { labels, colors }) {
  dot(context, x, y, first ? 7 : 5, first ? colors.mark : LINE_COLORS[2]);
  context.font = `bold ${FONT}`;
  context.lineWidth = 4;
  context.strokeStyle = colors.palette;
  context.strokeText(readable(labels[index]), x + 9, y + 5);
  context.fillStyle = colors.ink;
  context.fillText(readable(labels[index]), x + 9, y + 5);
}
