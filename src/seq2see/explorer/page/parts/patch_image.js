/**
 * An image with its grid of patches, and a heat laid over it: to point at patches, with the mouse or the arrow keys.
 *
 *   const image = patchImage({ name: "image", onPoint: (place) => ..., onPick: (place) => ..., onMove: (from, to) => ... });
 *   place.append(image.element);
 *   image.show({ pixels: { shape: [32, 32, 3], values }, grid: [4, 4], heat: [...16 numbers], chosen: 5, covered: [3] });
 *
 * heat     a number for each patch, or null for the bare image; the largest is the brightest
 * onPoint  (place or -1) as the pointer or the keys move; onPick for click and Enter; onMove when a patch is dragged to
 *          another's place, or carried there: Shift and an arrow key swap it with its neighbor
 *
 * `image.figure` draws it as SVG: the heat, the grid and the marks as vectors over the pixels.
 * `image.canvas.viewData = {rows, columns, values, pixels}` is what is shown; without heat the values are zeros.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { formatNumber } from "./figures.js";
import { matrixTable } from "./downloads.js";
import { SvgContext } from "./svg_paper.js";

const SIDE = 448; // pixels of the canvas
const DARKEST = 0.88; // over a patch that counts nothing
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function patchImage(options) {
  return new PatchImage(options);
}

/** Pixels of the server (height, width, channel; 0 to 255) as a small canvas; gray has one channel. */
export function canvasOf({ shape: [height, width, channels], values }) {
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true }); // as often as it is taken home
  const image = context.createImageData(width, height);
  for (let place = 0; place < width * height; place += 1) {
    const pixel = Array.from({ length: 3 }, (_, channel) => values[place * channels + (channels === 1 ? 0 : channel)]);
    image.data.set([...pixel, 255], 4 * place);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

class PatchImage {
  constructor({ name, side = SIDE, onPoint = () => {}, onPick = () => {}, onMove = () => {} }) {
    this.callbacks = { onPoint, onPick, onMove };
    this.name = name;
    this.side = side;
    this.options = { pixels: null, grid: [1, 1], heat: null, chosen: -1, covered: [], lines: true };
    this.hovered = -1;
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "image-canvas", "aria-label": name });
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    this.element = make("div", { class: "image" }, this.canvas, this.readout);
    this.table = () => matrixTable(this.canvas.viewData);
    this.figure = () => {
      const sheet = new SvgContext(this.size.width, this.size.height);
      paintImage(sheet, { ...this.options, image: this.image, size: this.size, hovered: -1 });
      return sheet.svg;
    };
    this.listen();
  }

  /** Show other pixels, another heat, or both. */
  show(changes) {
    Object.assign(this.options, changes);
    const { pixels, grid: [down, across], heat } = this.options;
    if (heat && heat.length !== down * across) throw new Error(`${this.name}: the heat does not fill the patches`);
    if (changes.pixels) this.image = canvasOf(pixels);
    const names = (count) => Array.from({ length: count }, (_, place) => String(place + 1));
    const values = heat ?? new Float32Array(down * across);
    this.canvas.viewData = { rows: names(down), columns: names(across), values, pixels: pixels?.values ?? [] };
    this.canvas.setAttribute("aria-label", `${this.name}: ${down} × ${across}`);
    this.updateReadout();
    this.paint();
  }

  get patches() {
    return this.options.grid[0] * this.options.grid[1];
  }

  paint() {
    const dots = window.devicePixelRatio || 1;
    const [high, wide] = this.options.pixels?.shape ?? [1, 1];
    const width = this.side * Math.min(1, wide / high);
    const height = this.side * Math.min(1, high / wide);
    Object.assign(this.canvas, { width: Math.round(width * dots), height: Math.round(height * dots) });
    Object.assign(this.canvas.style, { width: `${width}px` });
    const context = this.canvas.getContext("2d");
    context.setTransform(dots, 0, 0, dots, 0, 0);
    this.size = { width, height };
    paintImage(context, { ...this.options, image: this.image, size: this.size, hovered: this.hovered });
  }

  /** Where a patch stands on the canvas as it is seen, which a narrow screen may have made smaller. */
  placeAt(event) {
    const [down, across] = this.options.grid;
    const column = Math.floor((event.offsetX / this.canvas.clientWidth) * across);
    const row = Math.floor((event.offsetY / this.canvas.clientHeight) * down);
    return row >= 0 && row < down && column >= 0 && column < across ? row * across + column : -1;
  }

  point(place) {
    if (place === this.hovered) return;
    this.hovered = place;
    this.callbacks.onPoint(place); // whoever hears it may show another heat
    this.updateReadout();
    this.paint();
  }

  /** Say in words what is pointed at. */
  updateReadout() {
    const { grid: [, across], heat } = this.options;
    const location = `${Math.floor(this.hovered / across) + 1},${(this.hovered % across) + 1}`;
    this.readout.textContent = this.hovered < 0 ? "" : heat ? `${location}: ${formatNumber(heat[this.hovered])}` : location;
  }

  listen() {
    let from = -1;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = this.placeAt(event);
      this.canvas.setPointerCapture?.(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => this.point(this.placeAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(-1));
    this.canvas.addEventListener("pointerup", (event) => {
      const to = this.placeAt(event);
      if (from >= 0 && to >= 0) (from === to ? this.callbacks.onPick : this.callbacks.onMove)(from, to);
      from = -1;
    });
    this.canvas.addEventListener("blur", () => this.point(-1));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const [down, across] = this.options.grid;
    if (event.key in STEPS) {
      const [row, column] = this.hovered < 0 ? [0, 0] : [Math.floor(this.hovered / across), this.hovered % across];
      const [lower, right] = this.hovered < 0 ? [0, 0] : STEPS[event.key];
      const to = Math.min(Math.max(row + lower, 0), down - 1) * across + Math.min(Math.max(column + right, 0), across - 1);
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
  const [down, across] = grid;
  const [wide, high] = [size.width / across, size.height / down];
  context.clearRect(0, 0, size.width, size.height);
  context.imageSmoothingEnabled = false;
  if (image) context.drawImage(image, 0, 0, size.width, size.height);
  const box = (place) => [(place % across) * wide, Math.floor(place / across) * high, wide, high];
  if (heat) paintHeat(context, heat, box);
  if (lines && down * across > 1) paintLines(context, size, { wide, high, video: down === 1 });
  covered.forEach((place) => cross(context, box(place)));
  const { ink } = palette();
  if (hovered >= 0) frame(context, box(hovered), ink, 2);
  if (chosen >= 0) frame(context, box(chosen), palette().mark, 5);
}

/** Patches that count little are darkened: the image shows itself where the most was taken from. */
function paintHeat(context, heat, box) {
  const most = heat.reduce((largest, value) => Math.max(largest, value), 0) || 1;
  heat.forEach((value, place) => {
    context.fillStyle = `rgba(8, 12, 24, ${DARKEST * (1 - Math.max(value, 0) / most)})`;
    context.fillRect(...box(place));
  });
}

/** Between patches a thin line; between the frames of a video, which lie in one row, a gap. */
function paintLines(context, size, { wide, high, video }) {
  context.strokeStyle = video ? palette().palette : "rgba(128, 128, 128, 0.75)";
  context.lineWidth = video ? 5 : 1;
  context.beginPath();
  for (let x = wide; x < size.width - 1; x += wide) context.rect(x, 0, 0, size.height);
  for (let y = high; y < size.height - 1; y += high) context.rect(0, y, size.width, 0);
  context.stroke();
}

function cross(context, [left, top, wide, high]) {
  context.strokeStyle = palette().mark;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(left + wide * 0.25, top + high * 0.25);
  context.lineTo(left + wide * 0.75, top + high * 0.75);
  context.moveTo(left + wide * 0.75, top + high * 0.25);
  context.lineTo(left + wide * 0.25, top + high * 0.75);
  context.stroke();
}

function frame(context, [left, top, wide, high], color, thick) {
  context.strokeStyle = color;
  context.lineWidth = thick;
  context.strokeRect(left + thick / 2, top + thick / 2, wide - thick, high - thick);
}
