/** Painting of a heat map: the cells from an image with one pixel per cell, and labels where they fit. */

import { textColorOn, divergingColor, sequentialColor } from "./colors.js";
import { make } from "./dom.js";
import { readable } from "./token_strip.js";

const FONT = 'system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';
const SIZE = 15; // of a label, in pixels
const MIN_FONT_SIZE = 12; // legible on a projector
const MIN_LABELED_CELL = 13; // labels of smaller cells would overlap
const MIN_CELL_WITH_TEXT = 24;
const MAX_LABEL_WIDTH = 170;
const NAN_COLOR = 0xff808080; // gray
const BINS = 1 << 14; // bins of a histogram of values
const MAX_MEASURED_LABELS = 300; // of more labels only a sample is measured

/** An image with one pixel per cell; scaled up, it is the whole map. */
export function imageOf({ rows, columns, values, diverging, min, max }, colors) {
  const image = make("canvas", { width: Math.max(columns.length, 1), height: Math.max(rows.length, 1) });
  const context = image.getContext("2d");
  const pixels = context.createImageData(image.width, image.height);
  const pixels32 = new Uint32Array(pixels.data.buffer); // one 32-bit number per pixel, for speed
  const packed = Uint32Array.from(colors, pack);
  const [from, to] = span(values, diverging, min, max);
  const last = colors.length - 1;
  const steps = last / (to - from || 1);
  for (let index = 0; index < values.length; index += 1) {
    const step = Math.round(steps * (values[index] - from));
    pixels32[index] = Number.isNaN(step) ? NAN_COLOR : packed[Math.min(Math.max(step, 0), last)];
  }
  context.putImageData(pixels, 0, 0);
  return image;
}

function pack([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The range of values that the colormap covers. */
export function span(values, diverging, min, max) {
  let largest = max;
  if (largest === null || largest === undefined) {
    largest = 0;
    for (const value of values) largest = Math.max(largest, diverging ? Math.abs(value) || 0 : value || 0);
  }
  if (diverging) return largest ? [-largest, largest] : [-1, 1]; // a matrix of zeros has the middle color
  return [min, largest];
}

/**
 * A quantile of the positive values as the maximum of the colormap, so that a few outliers do not hide all other cells
 * (in seaborn: `robust=True`). In attention maps of long texts, some rows put nearly all of their weight on one cell.
 */
export function robustMax(values, fraction = 0.995) {
  let largest = 0;
  for (const value of values) if (value > largest) largest = value;
  if (!largest) return 1;
  const counts = new Uint32Array(BINS); // counting is much faster than sorting
  for (const value of values) counts[Math.max(Math.ceil((value / largest) * BINS) - 1, 0)] += 1;
  let below = 0;
  const step = counts.findIndex((count) => (below += count) > fraction * values.length);
  return step < 1 ? largest : ((step + 1) / BINS) * largest;
}

/** The transposed matrix. */
export function transpose(values, rows, columns) {
  const transposed = new Float32Array(values.length);
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1) transposed[column * rows + row] = values[row * columns + column];
  return transposed;
}

/** The width of the row labels and the height of the column labels. */
export function labelMargins(rows, columns) {
  const context = make("canvas").getContext("2d");
  context.font = `${SIZE}px ${FONT}`;
  const width = (texts) => {
    const step = Math.ceil(texts.length / MAX_MEASURED_LABELS) || 1;
    const sample = texts.filter((_, index) => index % step === 0);
    return Math.min(Math.max(...sample.map((text) => context.measureText(text).width), 10), MAX_LABEL_WIDTH) + 10;
  };
  return { left: width(rows), top: width(columns) };
}

/** Paint the visible part of a map; `map` has the values, the sizes, the scroll position and the hovered cell. */
export function paintMap(context, map) {
  const { labelMargins: margins, cell, image, size, scroll, colors } = map;
  context.fillStyle = colors.background;
  context.fillRect(0, 0, size.width, size.height);
  context.save();
  context.beginPath();
  context.rect(margins.left, margins.top, size.width - margins.left, size.height - margins.top);
  context.clip();
  context.imageSmoothingEnabled = cell.width < 1 || cell.height < 1;
  const [left, top] = [margins.left - scroll.left, margins.top - scroll.top];
  context.drawImage(image, left, top, cell.width * image.width, cell.height * image.height);
  context.strokeStyle = colors.border;
  context.strokeRect(left, top, cell.width * image.width, cell.height * image.height);
  if (map.formatCell && Math.min(cell.width, cell.height) >= MIN_CELL_WITH_TEXT) cellTexts(context, map, left, top);
  frames(context, map, left, top);
  context.restore();
  labels(context, map);
}

/** The values as text in the cells; zeros are omitted. */
function cellTexts(context, { cell, rows, columns, values, diverging, min, max, formatCell }, left, top) {
  const [from, to] = span(values, diverging, min, max);
  context.font = `${SIZE}px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  values.forEach((value, index) => {
    if (!value) return;
    const part = (value - from) / (to - from || 1);
    context.fillStyle = textColorOn(diverging ? divergingColor(2 * part - 1) : sequentialColor(part));
    const [row, column] = [Math.floor(index / columns.length), index % columns.length];
    const [x, y] = [left + (column + 0.5) * cell.width, top + (row + 0.5) * cell.height];
    if (row < rows.length) context.fillText(formatCell(value), x, y, cell.width);
  });
}

/** Frames around the hovered cell, the highlighted cells, and the cells selected by `frameOf`. */
function frames(context, { cell, hovered, highlighted, colors, rows, columns, frameOf, scroll, size }, left, top) {
  const box = (row, column, width, height, lineWidth) => {
    context.lineWidth = lineWidth;
    context.strokeRect(left + column * cell.width, top + row * cell.height, width * cell.width, height * cell.height);
  };
  context.strokeStyle = colors.accent;
  if (frameOf) {
    const visibleRange = (from, side, extent, count) => [Math.floor(from / side), Math.min(Math.ceil((from + extent) / side), count)];
    const [firstRow, lastRow] = visibleRange(scroll.top, cell.height, size.height, rows.length);
    const [firstColumn, lastColumn] = visibleRange(scroll.left, cell.width, size.width, columns.length);
    for (let row = firstRow; row < lastRow; row += 1)
      for (let column = firstColumn; column < lastColumn; column += 1) {
        const kind = frameOf(row, column);
        context.setLineDash(kind === "possible" ? [4, 3] : []);
        if (kind) box(row, column, 1, 1, 2);
      }
    context.setLineDash([]);
  }
  const { row, column } = highlighted;
  if (row !== undefined && column !== undefined) box(row, column, 1, 1, 3);
  else if (row !== undefined) box(row, 0, columns.length, 1, 3);
  else if (column !== undefined) box(0, column, 1, rows.length, 3);
  if (!hovered) return;
  context.strokeStyle = colors.muted;
  box(hovered.row, 0, columns.length, 1, 1);
  box(0, hovered.column, 1, rows.length, 1);
  context.strokeStyle = colors.foreground;
  box(hovered.row, hovered.column, 1, 1, 2);
}

/** Labels of rows and columns: all if the cells are large enough, else only those of the hovered cell. */
function labels(context, map) {
  const { labelMargins: margins, cell, rows, columns, size, scroll, hovered, colors } = map;
  context.textBaseline = "middle";
  const drawLabels = (names, from, side, extent, draw, hoveredIndex) => {
    context.font = `${Math.min(SIZE, Math.max(side * 0.9, MIN_FONT_SIZE))}px ${FONT}`;
    const first = Math.max(Math.floor(from / side), 0);
    const last = Math.min(Math.ceil((from + extent) / side), names.length);
    for (let index = first; index < last; index += 1) {
      if (side < MIN_LABELED_CELL && index !== hoveredIndex) continue;
      context.fillStyle = index === hoveredIndex ? colors.accent : colors.foreground;
      draw(shortened(context, readable(names[index])), (index + 0.5) * side - from);
    }
  };
  context.textAlign = "right";
  const drawRowLabel = (text, at) => context.fillText(text, margins.left - 5, margins.top + at);
  drawLabels(rows, scroll.top, cell.height, size.height - margins.top, drawRowLabel, hovered?.row);
  context.textAlign = "left";
  const drawColumnLabel = (text, at) => drawRotated(context, text, margins.left + at, margins.top - 5);
  drawLabels(columns, scroll.left, cell.width, size.width - margins.left, drawColumnLabel, hovered?.column);
}

/** Column labels are rotated, except single characters. */
function drawRotated(context, text, x, y) {
  context.save();
  context.translate(x, y);
  if ([...text].length > 1) {
    context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0);
  } else {
    context.textAlign = "center";
    context.fillText(text, 0, -8);
  }
  context.restore();
}

function shortened(context, text) {
  if (context.measureText(text).width <= MAX_LABEL_WIDTH) return text;
  let characters = [...text];
  const isTooWide = () => context.measureText(`${characters.join("")}…`).width > MAX_LABEL_WIDTH;
  while (characters.length > 1 && isTooWide()) characters = characters.slice(0, -1);
  return `${characters.join("")}…`;
}
