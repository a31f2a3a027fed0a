/**
 * An image with its grid of patches and an overlaid heat map; patches are selected with the mouse or the arrow keys.
 *
 *   const image = patchImage({ name: "image", onPoint: (index) => ..., onPick: (index) => ..., onMove: (from, to) => ... });
 *   container.append(image.element);
 *   image.show({ pixels: { shape: [32, 32, 3], values }, grid: [4, 4], heat: [...16 numbers], chosen: 5, covered: [3] });
 *
 * heat     a number for each patch, or null for the image only; the patch with the largest value is the brightest
 * onPoint  (index or -1) as the pointer or the keys move; onPick for click and Enter; onMove when a patch is dragged to
 *          the position of another one; Shift and an arrow key swap it with its neighbor
 *
 * `image.figure` draws an SVG: the heat, the grid and the marks as vectors over the pixels.
 * `image.canvas.viewData = {rows, columns, values, pixels}` is the data of the image; without heat the values are zeros.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { formatNumber } from "./number_format.js";
import { matrixTable } from "./downloads.js";
import { SvgContext } from "./svg_context.js";

const DISPLAY_SIZE = 448; // pixels of the canvas
const MAX_OPACITY = 0.88; // of the shade over a patch with heat 0
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function patchImage(options) {
  return new PatchImage(options);
}

/** Pixels of the server (height, width, channel; 0 to 255) as a small canvas; a gray image has one channel. */
export function canvasOf({ shape: [height, width, channels], values }) {
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true }); // by downloads
  const image = context.createImageData(width, height);
  for (let index = 0; index < width * height; index += 1) {
    const pixel = Array.from({ length: 3 }, (_, channel) => values[index * channels + (channels === 1 ? 0 : channel)]);
    image.data.set([...pixel, 255], 4 * index);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

class PatchImage {
  constructor({ name, displaySize = DISPLAY_SIZE, onPoint = () => {}, onPick = () => {}, onMove = () => {} }) {
    this.callbacks = { onPoint, onPick, onMove };
    this.name = name;
    this.displaySize = displaySize;
    this.options = { pixels: null, grid: [1, 1], heat: null, chosen: -1, covered: [], lines: true };
    this.hovered = -1;
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "image-canvas", "aria-label": name });
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    this.element = make("div", { class: "image" }, this.canvas, this.readout);
    this.table = () => matrixTable(this.canvas.viewData);
    this.figure = () => {
      const drawing = new SvgContext(this.size.width, this.size.height);
      paintImage(drawing, { ...this.options, image: this.image, size: this.size, hovered: -1 });
      return drawing.svg;
    };
    this.listen();
  }

  /** Change options, such as pixels and heat, and paint. */
  show(changes) {
    Object.assign(this.options, changes);
    const { pixels, grid: [rows, columns], heat } = this.options;
    if (heat && heat.length !== rows * columns) throw new Error(`${this.name}: the heat does not fill the patches`);
    if (changes.pixels) this.image = canvasOf(pixels);
    const names = (count) => Array.from({ length: count }, (_, index) => String(index + 1));
    const values = heat ?? new Float32Array(rows * columns);
    this.canvas.viewData = { rows: names(rows), columns: names(columns), values, pixels: pixels?.values ?? [] };
    this.canvas.setAttribute("aria-label", `${this.name}: ${rows} × ${columns}`);
    this.updateReadout();
    this.paint();
  }

  get patches() {
    return this.options.grid[0] * this.options.grid[1];
  }

  paint() {
    const pixelRatio = window.devicePixelRatio || 1;
    const [rows, columns] = this.options.pixels?.shape ?? [1, 1];
    const width = this.displaySize * Math.min(1, columns / rows);
    const height = this.displaySize * Math.min(1, rows / columns);
    Object.assign(this.canvas, { width: Math.round(width * pixelRatio), height: Math.round(height * pixelRatio) });
    Object.assign(this.canvas.style, { width: `${width}px` });
    const context = this.canvas.getContext("2d");
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    this.size = { width, height };
    paintImage(context, { ...this.options, image: this.image, size: this.size, hovered: this.hovered });
  }

  /** The index of the patch at an event; the displayed size of the canvas may be smaller on a narrow screen. */
  indexAt(event) {
    const [rows, columns] = this.options.grid;
    const column = Math.floor((event.offsetX / this.canvas.clientWidth) * columns);
    const row = Math.floor((event.offsetY / this.canvas.clientHeight) * rows);
    return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1;
  }

  point(index) {
    if (index === this.hovered) return;
    this.hovered = index;
    this.callbacks.onPoint(index); // the callback may change the heat
    this.updateReadout();
    this.paint();
  }

  /** Show row, column and value of the hovered patch. */
  updateReadout() {
    const { grid: [, columns], heat } = this.options;
    const position = `${Math.floor(this.hovered / columns) + 1},${(this.hovered % columns) + 1}`;
    this.readout.textContent = this.hovered < 0 ? "" : heat ? `${position}: ${formatNumber(heat[this.hovered])}` : position;
  }

  listen() {
    let from = -1;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = this.indexAt(event);
      this.canvas.setPointerCapture?.(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(this.indexAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("pointerup", (event) => {
      const to = this.indexAt(event);
      if (from >= 0 && to >= 0) (from === to ? this.callbacks.onPick : this.callbacks.onMove)(from, to);
      from = -1;
    });
    this.canvas.addEventListener("blur", () => this.point(-1));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [rows, columns] = this.options.grid;
    if (event.key in STEPS) {
      const [row, column] = this.hovered < 0 ? [0, 0] : [Math.floor(this.hovered / columns), this.hovered % columns];
      const [dy, dx] = this.hovered < 0 ? [0, 0] : STEPS[event.key];
      const to = Math.min(Math.max(row + dy, 0), rows - 1) * columns + Math.min(Math.max(column + dx, 0), columns - 1);
      const from = this.hovered;
      this.point(to);
      if (event.shiftKey && from >= 0 && from !== to) this.callbacks.onMove(from, to);
    } else if (event.key === "Escape") this.point(-1);
    else if ((event.key === "Enter" || event.key === " ") && this.hovered >= 0) this.callbacks.onPick(this.hovered);
    else return;
    event.preventDefault();
  }
}

function paintImage(context, { image, size, grid, heat, chosen, covered, lines, hovered }) {
  const [rows, columns] = grid;
  const [width, height] = [size.width / columns, size.height / rows];
  context.clearRect(0, 0, size.width, size.height);
  context.imageSmoothingEnabled = false;
  if (image) context.drawImage(image, 0, 0, size.width, size.height);
  const box = (index) => [(index % columns) * width, Math.floor(index / columns) * height, width, height];
  if (heat) paintHeat(context, heat, box);
  if (lines && rows * columns > 1) paintLines(context, size, { width, height, video: rows === 1 });
  covered.forEach((index) => cross(context, box(index)));
  const { foreground } = palette();
  if (hovered >= 0) frame(context, box(hovered), foreground, 2);
  if (chosen >= 0) frame(context, box(chosen), palette().accent, 5);
}

/** Darken patches with small values. */
function paintHeat(context, heat, box) {
  const max = heat.reduce((largest, value) => Math.max(largest, value), 0) || 1;
  heat.forEach((value, index) => {
    context.fillStyle = `rgba(8, 12, 24, ${MAX_OPACITY * (1 - Math.max(value, 0) / max)})`;
    context.fillRect(...box(index));
  });
}

/** Thin lines between patches; gaps between the frames of a video, which form one row. */
function paintLines(context, size, { width, height, video }) {
  context.strokeStyle = video ? palette().background : "rgba(128, 128, 128, 0.75)";
  context.lineWidth = video ? 5 : 1;
  context.beginPath();
  for (let x = width; x < size.width - 1; x += width) context.rect(x, 0, 0, size.height);
  for (let y = height; y < size.height - 1; y += height) context.rect(0, y, size.width, 0);
  context.stroke();
}

function cross(context, [left, top, width, height]) {
  context.strokeStyle = palette().accent;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(left + width * 0.25, top + height * 0.25);
  context.lineTo(left + width * 0.75, top + height * 0.75);
  context.moveTo(left + width * 0.75, top + height * 0.25);
  context.lineTo(left + width * 0.25, top + height * 0.75);
  context.stroke();
}

function frame(context, [left, top, width, height], color, lineWidth) {
  context.strokeStyle = color;
  context.lineWidth = lineWidth;
  context.strokeRect(left + lineWidth / 2, top + lineWidth / 2, width - lineWidth, height - lineWidth);
}
