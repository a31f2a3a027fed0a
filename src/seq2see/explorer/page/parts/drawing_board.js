/**
 * A small board for drawing an image at the resolution of the model, with the mouse or the keyboard, or from a few shapes.
 *
 *   const board = drawingBoard({ imageSize: 32, channels: 3, t: app.t, onChange: (base64) => ... });
 *   container.append(board.element);
 *   board.load(pixels)            continue from an existing image
 *
 * `onChange` is called with all bytes in base64 (`asBase64`), row by row, when a stroke or a shape is finished.
 * The arrow keys move the brush, Space paints.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { canvasOf } from "./patch_image.js";

const DISPLAY_SIZE = 320; // pixels on the screen
const PEN_COLORS = ["#000000", "#d62728", "#1f77b4", "#2ca02c", "#ffcc00", "#ffffff"];
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
export const SHAPES = ["circle", "square", "triangle", "cross", "ring", "nothing"];

/** Bytes in base64, as the server expects them. */
export function asBase64(values) {
  let text = "";
  for (const value of values) text += String.fromCharCode(value);
  return btoa(text);
}

/** The inverse of `asBase64`. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function drawingBoard(options) {
  return new Board(options);
}

class Board {
  constructor({ imageSize, channels, t, onChange }) {
    Object.assign(this, { imageSize, channels, onChange, penColor: PEN_COLORS[1], brush: Math.max(1, Math.round(imageSize / 12)) });
    this.at = { x: imageSize / 2, y: imageSize / 2 };
    this.image = make("canvas", { width: imageSize, height: imageSize });
    this.canvas = make("canvas", { width: DISPLAY_SIZE, height: DISPLAY_SIZE, tabindex: "0", role: "img", class: "drawing-canvas",
      "aria-label": t("board") });
    const penColors = make("div", { class: "pen-colors", role: "group", "aria-label": t("pen_color") },
      ...PEN_COLORS.map((color) => this.penButton(color, t)));
    const shapes = SHAPES.map((shape) => make("button", { type: "button", "data-shape": shape,
      on: { click: () => this.stamp(shape) } }, t(`shape_${shape}`)));
    this.element = make("div", { class: "drawing" }, this.canvas, make("div", {}, penColors, make("div", { class: "controls" },
      ...shapes), make("p", { class: "note" }, t("board_help"))));
    this.fillWith("#ffffff");
    this.listen();
  }

  /** Copy pixels (height, width, channel) to the board. */
  load(pixels) {
    this.image.getContext("2d").drawImage(canvasOf(pixels), 0, 0, this.imageSize, this.imageSize);
    this.paint();
  }

  /** All bytes, one per pixel and channel of the model; gray is the luma of ITU-R BT.601. */
  bytes() {
    const { data } = this.image.getContext("2d").getImageData(0, 0, this.imageSize, this.imageSize);
    const bytes = new Uint8Array(this.imageSize * this.imageSize * this.channels);
    for (let index = 0; index < this.imageSize * this.imageSize; index += 1) {
      const [red, green, blue] = data.slice(4 * index, 4 * index + 3);
      if (this.channels === 1) bytes[index] = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
      else bytes.set([red, green, blue], 3 * index);
    }
    return bytes;
  }

  penButton(color, t) {
    const select = (event) => {
      this.penColor = color;
      for (const each of event.target.parentElement.children) each.setAttribute("aria-pressed", String(each === event.target));
    };
    const index = PEN_COLORS.indexOf(color) + 1;
    const pressed = String(color === this.penColor);
    const properties = { type: "button", class: "pen-color", style: { background: color }, "aria-pressed": pressed };
    return make("button", { ...properties, "aria-label": t("pen_number", { number: index }), on: { click: select } });
  }

  fillWith(color) {
    const context = this.image.getContext("2d");
    context.fillStyle = color;
    context.fillRect(0, 0, this.imageSize, this.imageSize);
    this.paint();
  }

  /** Draw a shape on white, about half as large as the image. */
  stamp(shape) {
    this.fillWith("#ffffff");
    const context = this.image.getContext("2d");
    const [center, radius] = [this.imageSize / 2, this.imageSize * 0.3];
    context.fillStyle = context.strokeStyle = this.penColor === "#ffffff" ? "#000000" : this.penColor;
    context.lineWidth = radius / 2;
    const path = new Path2D();
    if (shape === "circle" || shape === "ring") path.arc(center, center, shape === "ring" ? radius * 0.75 : radius, 0, 2 * Math.PI);
    if (shape === "square") path.rect(center - radius, center - radius, 2 * radius, 2 * radius);
    if (shape === "triangle") path.addPath(corners([[0, -1], [1, 0.8], [-1, 0.8]], center, radius));
    if (shape === "cross") {
      path.rect(center - radius, center - radius / 4, 2 * radius, radius / 2);
      path.rect(center - radius / 4, center - radius, radius / 2, 2 * radius);
    }
    if (shape === "ring") context.stroke(path);
    else context.fill(path);
    this.finish();
  }

  paintAt(x, y) {
    const context = this.image.getContext("2d");
    context.fillStyle = this.penColor;
    const corner = (at) => Math.round(at - this.brush / 2);
    context.fillRect(corner(x), corner(y), this.brush, this.brush);
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
    const scale = DISPLAY_SIZE / this.imageSize;
    context.strokeStyle = palette().accent;
    context.strokeRect((this.at.x - this.brush / 2) * scale, (this.at.y - this.brush / 2) * scale, this.brush * scale, this.brush * scale);
  }

  listen() {
    let isDown = false;
    const position = (event) => [(event.offsetX / this.canvas.clientWidth) * this.imageSize,
      (event.offsetY / this.canvas.clientHeight) * this.imageSize];
    this.canvas.addEventListener("pointerdown", (event) => {
      isDown = true;
      this.canvas.setPointerCapture(event.pointerId);
      this.paintAt(...position(event));
    });
    this.canvas.addEventListener("pointermove", (event) => isDown && this.paintAt(...position(event)));
    this.canvas.addEventListener("pointerup", () => {
      if (isDown) this.finish();
      isDown = false;
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key in STEPS) {
        const [dx, dy] = STEPS[event.key];
        const clamp = (value) => Math.min(Math.max(value, 0), this.imageSize);
        this.at = { x: clamp(this.at.x + dx * this.brush), y: clamp(this.at.y + dy * this.brush) };
        this.paint();
      } else if (event.key === " ") {
        this.paintAt(this.at.x, this.at.y);
        this.finish();
      } else return;
      event.preventDefault();
    });
  }
}

function corners(points, center, radius) {
  const path = new Path2D();
  for (const [x, y] of points) path.lineTo(center + radius * x, center + radius * y);
  path.closePath();
  return path;
}
