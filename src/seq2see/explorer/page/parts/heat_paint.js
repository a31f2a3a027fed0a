/** How a heat map is painted: cells from one small image of a pixel each, labels where there is room for them. */

import { textColorOn, divergingColor, sequentialColor } from "./colors.js";
import { make } from "./dom.js";
import { readable } from "./strip.js";

const FONT = 'system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';
const SIZE = 15; // of a label, in pixels
const SMALLEST = 12; // below that nobody reads from the last row
const LEAST_CELL = 13; // labels of smaller cells would run into each other
const LEAST_WRITTEN = 24; // numbers need larger ones
const WIDEST = 170;
const UNKNOWN = 0xff808080; // gray: no number
const STEPS = 1 << 14; // how finely values are told apart where they are counted
const FEW = 300; // beyond so many labels their widths are guessed from a few

/** One pixel for each cell: drawn large, it is the whole map in one stroke. */
export function imageOf({ rows, columns, values, diverging, min, max }, colors) {
  const image = make("canvas", { width: Math.max(columns.length, 1), height: Math.max(rows.length, 1) });
  const context = image.getContext("2d");
  const pixels = context.createImageData(image.width, image.height);
  const dots = new Uint32Array(pixels.data.buffer); // one number for a pixel: a million cells are painted at once
  const packed = Uint32Array.from(colors, pack);
  const [from, to] = span(values, diverging, min, max);
  const last = colors.length - 1;
  const steps = last / (to - from || 1);
  for (let index = 0; index < values.length; index += 1) {
    const step = Math.round(steps * (values[index] - from));
    dots[index] = Number.isNaN(step) ? UNKNOWN : packed[Math.min(Math.max(step, 0), last)];
  }
  context.putImageData(pixels, 0, 0);
  return image;
}

function pack([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** From which value to which the colors go. */
export function span(values, diverging, min, max) {
  let largest = max;
  if (largest === null || largest === undefined) {
    largest = 0;
    for (const value of values) largest = Math.max(largest, diverging ? Math.abs(value) || 0 : value || 0);
  }
  if (diverging) return largest ? [-largest, largest] : [-1, 1]; // nothing but zeros is paper, not the end of the scale
  return [min, largest];
}

/**
 * What the strongest color may stand for where a few cells are much larger than all others: so that these show, too.
 * Of every long map some rows have hardly anything to share out, and one cell gets all of it.
 */
export function robustMax(values, share = 0.995) {
  let largest = 0;
  for (const value of values) if (value > largest) largest = value;
  if (!largest) return 1;
  const counts = new Uint32Array(STEPS); // a million values are counted far sooner than sorted
  for (const value of values) counts[Math.max(Math.ceil((value / largest) * STEPS) - 1, 0)] += 1;
  let below = 0;
  const step = counts.findIndex((count) => (below += count) > share * values.length);
  return step < 1 ? largest : ((step + 1) / STEPS) * largest;
}

/** The same numbers with rows and columns changed for each other. */
export function transpose(values, rows, columns) {
  const found = new Float32Array(values.length);
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1) found[column * rows + row] = values[row * columns + column];
  return found;
}

/** The room that labels take at the left and above. */
export function labelMargins(rows, columns) {
  const context = make("canvas").getContext("2d");
  context.font = `${SIZE}px ${FONT}`;
  const width = (texts) => {
    const some = texts.length > FEW ? texts.filter((_, index) => index % Math.ceil(texts.length / FEW) === 0) : texts;
    return Math.min(Math.max(...some.map((text) => context.measureText(text).width), 10), WIDEST) + 10;
  };
  return { left: width(rows), top: width(columns) };
}

/** Paint the part of a map that is scrolled into sight; `map` has the cells, the sizes and what is pointed at. */
export function paintMap(context, map) {
  const { labelMargins: room, cell, image, size, scroll, colors } = map;
  context.fillStyle = colors.palette;
  context.fillRect(0, 0, size.width, size.height);
  context.save();
  context.beginPath();
  context.rect(room.left, room.top, size.width - room.left, size.height - room.top);
  context.clip();
  context.imageSmoothingEnabled = cell.width < 1 || cell.height < 1;
  const [left, top] = [room.left - scroll.left, room.top - scroll.top];
  context.drawImage(image, left, top, cell.width * image.width, cell.height * image.height);
  context.strokeStyle = colors.line;
  context.strokeRect(left, top, cell.width * image.width, cell.height * image.height);
  if (map.formatCell && Math.min(cell.width, cell.height) >= LEAST_WRITTEN) cellTexts(context, map, left, top);
  frames(context, map, left, top);
  context.restore();
  labels(context, map);
}

/** The numbers themselves, in cells that have room for them; zeros are left empty. */
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

/** Frames around what is pointed at, marked, or given as true. */
function frames(context, { cell, hovered, marked, colors, rows, columns, frameOf, scroll, size }, left, top) {
  const box = (row, column, width, height, thick) => {
    context.lineWidth = thick;
    context.strokeRect(left + column * cell.width, top + row * cell.height, width * cell.width, height * cell.height);
  };
  context.strokeStyle = colors.mark;
  if (frameOf) {
    const seen = (from, side, extent, count) => [Math.floor(from / side), Math.min(Math.ceil((from + extent) / side), count)];
    const [firstRow, lastRow] = seen(scroll.top, cell.height, size.height, rows.length);
    const [firstColumn, lastColumn] = seen(scroll.left, cell.width, size.width, columns.length);
    for (let row = firstRow; row < lastRow; row += 1)
      for (let column = firstColumn; column < lastColumn; column += 1) {
        const kind = frameOf(row, column);
        context.setLineDash(kind === "possible" ? [4, 3] : []);
        if (kind) box(row, column, 1, 1, 2);
      }
    context.setLineDash([]);
  }
  const { row, column } = marked;
  if (row !== undefined && column !== undefined) box(row, column, 1, 1, 3);
  else if (row !== undefined) box(row, 0, columns.length, 1, 3);
  else if (column !== undefined) box(0, column, 1, rows.length, 3);
  if (!hovered) return;
  context.strokeStyle = colors.soft;
  box(hovered.row, 0, columns.length, 1, 1);
  box(0, hovered.column, 1, rows.length, 1);
  context.strokeStyle = colors.ink;
  box(hovered.row, hovered.column, 1, 1, 2);
}

/** Names of rows and columns: all of them where cells are large enough, else that of what is pointed at. */
function labels(context, map) {
  const { labelMargins: room, cell, rows, columns, size, scroll, hovered, colors } = map;
  context.textBaseline = "middle";
  const each = (names, from, side, extent, place, chosen) => {
    context.font = `${Math.min(SIZE, Math.max(side * 0.9, SMALLEST))}px ${FONT}`;
    const first = Math.max(Math.floor(from / side), 0);
    const last = Math.min(Math.ceil((from + extent) / side), names.length);
    for (let index = first; index < last; index += 1) {
      if (side < LEAST_CELL && index !== chosen) continue;
      context.fillStyle = index === chosen ? colors.mark : colors.ink;
      place(shortened(context, readable(names[index])), (index + 0.5) * side - from);
    }
  };
  context.textAlign = "right";
  const beside = (text, at) => context.fillText(text, room.left - 5, room.top + at);
  each(rows, scroll.top, cell.height, size.height - room.top, beside, hovered?.row);
  context.textAlign = "left";
  const above = (text, at) => upright(context, text, room.left + at, room.top - 5);
  each(columns, scroll.left, cell.width, size.width - room.left, above, hovered?.column);
}

/** Column names stand upright where they are longer than a cell; a Chinese character is never turned. */
function upright(context, text, x, y) {
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
  if (context.measureText(text).width <= WIDEST) return text;
  let kept = [...text];
  while (kept.length > 1 && context.measureText(`${kept.join("")}…`).width > WIDEST) kept = kept.slice(0, -1);
  return `${kept.join("")}…`;
}
