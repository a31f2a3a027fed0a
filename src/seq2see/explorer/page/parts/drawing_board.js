/**
 * A small board to draw on, pixel by pixel as a model sees them, with the mouse or the keyboard, or from a few shapes.
 *
 *   const board = drawingBoard({ side: 32, channels: 3, words: bench.word, onDrawn: (base64) => ... });
 *   place.append(board.element);
 *   board.take(pixels)            go on from an image that is shown already
 *
 * `onChange` is called with all bytes in base64 (`asBase64`), row by row, when a stroke or a shape is finished.
 * The arrow keys move the brush, Space paints.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { canvasOf } from "./image.js";

const DISPLAY_SIZE = 320; // pixels on the screen
const PEN_COLORS = ["#000000", "#d62728", "#1f77b4", "#2ca02c", "#ffcc00", "#ffffff"];
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
export const SHAPES = ["circle", "square", "triangle", "cross", "ring", "nothing"];

/** Bytes as text, in the way that the server reads them. */
export function asBase64(values) {
  let text = "";
  for (const value of values) text += String.fromCharCode(value);
  return btoa(text);
}

/** The same back: what `asBase64` made. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function drawingBoard(options) {
  return new Board(options);
}

class Board {
  constructor({ image_size, channels, strings, onChange }) {
    Object.assign(this, { image_size, channels, onChange, pen-color: PEN_COLORS[1], brush: Math.max(1, Math.round(image_size / 12)) });
    this.at = { x: image_size / 2, y: image_size / 2 };
    this.image = make("canvas", { width: image_size, height: image_size });
    this.canvas = make("canvas", { width: DISPLAY_SIZE, height: DISPLAY_SIZE, tabindex: "0", role: "img", class: "drawing-canvas",
      "aria-label": strings("board") });
    const pen-colors = make("div", { class: "pen-colors", role: "group", "aria-label": strings("pen-color") },
      ...PEN_COLORS.map((pen-color) => this.inkButton(pen-color, strings)));
    const shapes = SHAPES.map((shape) => make("button", { type: "button", "data-shape": shape,
      on: { click: () => this.stamp(shape) } }, strings(`shape_${shape}`)));
    this.element = make("div", { class: "drawing" }, this.canvas, make("div", {}, pen-colors, make("div", { class: "controls" },
      ...shapes), make("p", { class: "note" }, strings("board_help"))));
    this.fillWith("#ffffff");
    this.listen();
  }

  /** Go on from pixels (height, width, channel) that are there already. */
  load(pixels) {
    this.image.getContext("2d").drawImage(canvasOf(pixels), 0, 0, this.image_size, this.image_size);
    this.paint();
  }

  /** All bytes, as many for a pixel as the model has channels; gray is the brightness (ITU-R BT.601). */
  bytes() {
    const { data } = this.image.getContext("2d").getImageData(0, 0, this.image_size, this.image_size);
    const found = new Uint8Array(this.image_size * this.image_size * this.channels);
    for (let place = 0; place < this.image_size * this.image_size; place += 1) {
      const [red, green, blue] = data.slice(4 * place, 4 * place + 3);
      if (this.channels === 1) found[place] = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
      else found.set([red, green, blue], 3 * place);
    }
    return found;
  }

  inkButton(pen-color, strings) {
    const choose = (event) => {
      this.pen-color = pen-color;
      for (const each of event.target.parentElement.children) each.setAttribute("aria-pressed", String(each === event.target));
    };
    const place = PEN_COLORS.indexOf(pen-color) + 1;
    const properties = { type: "button", class: "pen-color", style: { background: pen-color }, "aria-pressed": String(pen-color === this.pen-color) };
    return make("button", { ...properties, "aria-label": strings("ink_number", { number: place }), on: { click: choose } });
  }

  fillWith(color) {
    const context = this.image.getContext("2d");
    context.fillStyle = color;
    context.fillRect(0, 0, this.image_size, this.image_size);
    this.paint();
  }

  /** One of a few shapes on white, about as large as half of the image. */
  stamp(shape) {
    this.fillWith("#ffffff");
    const context = this.image.getContext("2d");
    const [middle, reach] = [this.image_size / 2, this.image_size * 0.3];
    context.fillStyle = context.strokeStyle = this.pen-color === "#ffffff" ? "#000000" : this.pen-color;
    context.lineWidth = reach / 2;
    const path = new Path2D();
    if (shape === "circle" || shape === "ring") path.arc(middle, middle, shape === "ring" ? reach * 0.75 : reach, 0, 2 * Math.PI);
    if (shape === "square") path.rect(middle - reach, middle - reach, 2 * reach, 2 * reach);
    if (shape === "triangle") path.addPath(corners([[0, -1], [1, 0.8], [-1, 0.8]], middle, reach));
    if (shape === "cross") {
      path.rect(middle - reach, middle - reach / 4, 2 * reach, reach / 2);
      path.rect(middle - reach / 4, middle - reach, reach / 2, 2 * reach);
    }
    if (shape === "ring") context.stroke(path);
    else context.fill(path);
    this.finish();
  }

  paintAt(x, y) {
    const context = this.image.getContext("2d");
    context.fillStyle = this.pen-color;
    const from = (at) => Math.round(at - this.brush / 2);
    context.fillRect(from(x), from(y), this.brush, this.brush);
    this.at = { x, y };
    this.paint();
  }

  finish() {
    this.paint();
    this.onChange(asBase64(this.bytes()));
  }

  paint() {
    const context = this.canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, 0, 0, DISPLAY_SIZE, DISPLAY_SIZE);
    const dot = DISPLAY_SIZE / this.image_size;
    context.strokeStyle = palette().mark;
    context.strokeRect((this.at.x - this.brush / 2) * dot, (this.at.y - this.brush / 2) * dot, this.brush * dot, this.brush * dot);
  }

  listen() {
    let down = false;
    const location = (event) => [(event.offsetX / this.canvas.clientWidth) * this.image_size,
      (event.offsetY / this.canvas.clientHeight) * this.image_size];
    this.canvas.addEventListener("pointerdown", (event) => {
      down = true;
      this.canvas.setPointerCapture(event.pointerId);
      this.paintAt(...location(event));
    });
    this.canvas.addEventListener("pointermove", (event) => down && this.paintAt(...location(event)));
    this.canvas.addEventListener("pointerup", () => {
      if (down) this.finish();
      down = false;
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key in STEPS) {
        const [right, lower] = STEPS[event.key];
        const inside = (value) => Math.min(Math.max(value, 0), this.image_size);
        this.at = { x: inside(this.at.x + right * this.brush), y: inside(this.at.y + lower * this.brush) };
        this.paint();
      } else if (event.key === " ") {
        this.paintAt(this.at.x, this.at.y);
        this.finish();
      } else return;
      event.preventDefault();
    });
  }
}

function corners(points, middle, reach) {
  const path = new Path2D();
  for (const [x, y] of points) path.lineTo(middle + reach * x, middle + reach * y);
  path.closePath();
  return path;
}
