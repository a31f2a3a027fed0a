/**
 * A scatter plot of many labeled points, drawn on a canvas for speed.
 *
 *   const map = scatter({ name: "words", labels: ["我", "你"], points, onPick: (index) => ... });
 *   container.append(map.element);
 *   map.mark([3, 5, 8])                  highlighted points with their labels, the first one in another color
 *   app.addDownload({ name: "words", figure: map.figure, table: map.table });
 *
 * points   x and y of each point in one flat array
 * colors   of each point; by default one color for all
 *
 * Drag to move, the wheel or + and - to zoom, 0 to fit all points, arrow keys for the next point in a direction, Enter to
 * pick. Labels that would overlap are omitted, so that zooming in shows more labels.
 * `map.canvas.viewData = {rows, columns, values}` is the data of the plot.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { paintPoints } from "./scatter_paint.js";
import { readable } from "./token_strip.js";
import { SvgContext } from "./svg_context.js";
import { t } from "../strings.js";

const [HEIGHT, MARGIN, POINTER_RADIUS] = [560, 30, 12]; // pixels

export function scatter(options) {
  return new Scatter(options);
}

class Scatter {
  constructor({ name, labels, points, colors = null, onPick = () => {}, onPoint = () => {} }) {
    Object.assign(this, { name, labels, points, colors, onPick, onPoint, marked: [], hovered: -1, zoom: 1 });
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "scatter", "aria-label": `${name}: ${labels.length}` });
    this.canvas.viewData = { rows: labels, columns: ["x", "y"], values: points };
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    const zooms = [["larger", "+", 1.5], ["smaller", "−", 1 / 1.5], ["fit", "⤢", 0]].map(([key, sign, by]) =>
      make("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key),
                       on: { click: () => this.zoomBy(by) } }, sign));
    this.element = make("div", { class: "scatter-box" }, this.canvas, make("div", { class: "heat-bar" }, this.readout, ...zooms));
    this.table = () => ({ columns: ["", "x", "y"], rows: labels.map((label, index) => [label, points[2 * index], points[2 * index + 1]]) });
    this.figure = () => this.drawing();
    this.measure();
    this.layOut(); // before the observer runs, so that downloads and keys work at once
    this.listen();
  }

  /** Compute the center and the extent of all points. */
  measure() {
    const bounds = [Infinity, -Infinity, Infinity, -Infinity];
    for (let index = 0; index < this.points.length; index += 2) {
      const [x, y] = [this.points[index], this.points[index + 1]];
      bounds[0] = Math.min(bounds[0], x);
      bounds[1] = Math.max(bounds[1], x);
      bounds[2] = Math.min(bounds[2], y);
      bounds[3] = Math.max(bounds[3], y);
    }
    this.center = { x: (bounds[0] + bounds[1]) / 2, y: (bounds[2] + bounds[3]) / 2 };
    this.extent = { x: bounds[1] - bounds[0] || 1, y: bounds[3] - bounds[2] || 1 };
    this.middle = { ...this.center };
  }

  /** Pixels per unit, equal in both directions to preserve distances. */
  get scale() {
    const fit = Math.min((this.width - 2 * MARGIN) / this.extent.x, (HEIGHT - 2 * MARGIN) / this.extent.y);
    return Math.max(fit, 1e-9) * this.zoom;
  }

  screen(index) {
    const [x, y] = [this.points[2 * index], this.points[2 * index + 1]];
    return [this.width / 2 + (x - this.middle.x) * this.scale, HEIGHT / 2 - (y - this.middle.y) * this.scale];
  }

  /** Highlight points, and scroll to the first one. */
  mark(indices) {
    this.marked = indices;
    if (indices.length && !this.isVisible(indices[0]))
      this.middle = { x: this.points[2 * indices[0]], y: this.points[2 * indices[0] + 1] };
    this.paint();
  }

  isVisible(index) {
    const [x, y] = this.screen(index);
    return x >= 0 && x <= this.width && y >= 0 && y <= HEIGHT;
  }

  layOut() {
    this.width = Math.max(this.element.clientWidth, 200);
    const pixelRatio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.ceil(this.width * pixelRatio), height: Math.ceil(HEIGHT * pixelRatio) });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${HEIGHT}px` });
    this.paint();
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const pixelRatio = window.devicePixelRatio || 1;
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    this.paintOn(context, this.hovered >= 0 ? [...this.marked, this.hovered] : this.marked);
  }

  paintOn(context, highlighted) {
    const marked = highlighted.map((index) => [index, ...this.screen(index), index === this.marked[0] || index === this.hovered]);
    paintPoints(context, { size: { width: this.width, height: HEIGHT }, visible: this.visiblePoints(), marked, labels: this.labels,
      colors: palette(), pointColors: this.colors });
  }

  /** The visible part of the plot as SVG. */
  drawing() {
    const drawing = new SvgContext(this.width, HEIGHT);
    this.paintOn(drawing, this.marked);
    return drawing.svg;
  }

  visiblePoints() {
    const visible = [];
    for (let index = 0; index < this.labels.length; index += 1) {
      const [x, y] = this.screen(index);
      if (x >= 0 && x <= this.width && y >= 0 && y <= HEIGHT) visible.push([index, x, y]);
    }
    return visible;
  }

  listen() {
    let drag = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, y: event.offsetY, from: { ...this.middle }, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (clicked) this.pick(this.nearest(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.point(this.nearest(event.offsetX, event.offsetY));
      const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
      drag.moved ||= Math.hypot(dx, dy) > 4;
      this.middle = { x: drag.from.x - dx / this.scale, y: drag.from.y + dy / this.scale };
      this.paint();
    });
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.layOut()).observe(this.element);
  }

  /** Zoom about a fixed point of the screen; 0 fits all points. */
  zoomBy(factor, x = this.width / 2, y = HEIGHT / 2) {
    const [dx, dy] = [x - this.width / 2, y - HEIGHT / 2];
    const before = this.scale;
    this.zoom = factor === 0 ? 1 : Math.min(Math.max(this.zoom * factor, 0.5), 2000);
    const change = 1 / before - 1 / this.scale;
    this.middle = factor === 0 ? { ...this.center } : { x: this.middle.x + dx * change, y: this.middle.y - dy * change };
    this.paint();
  }

  /** The index of the point under the pointer; -1 if there is none. */
  nearest(x, y) {
    const distances = this.visiblePoints().map(([index, left, top]) => [Math.hypot(left - x, top - y), index]);
    const [distance, index] = distances.reduce((best, each) => (each[0] < best[0] ? each : best), [POINTER_RADIUS, -1]);
    return distance < POINTER_RADIUS ? index : -1;
  }

  point(index) {
    if (index === this.hovered) return;
    this.hovered = index;
    this.readout.textContent = index < 0 ? "" : readable(this.labels[index]);
    this.onPoint(index);
    this.paint();
  }

  pick(index) {
    if (index >= 0) this.onPick(index);
  }

  key(event) {
    const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in directions) this.point(this.next(directions[event.key]));
    else if (event.key === "Escape") this.point(-1);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.hovered);
    else if (event.key in { "+": 1, "=": 1, "-": 1, 0: 1 }) this.zoomBy({ "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
    else return;
    event.preventDefault();
  }

  /** The nearest point in a direction, from the hovered point or from the center. */
  next([dx, dy]) {
    const [x, y] = this.hovered < 0 ? [this.width / 2, HEIGHT / 2] : this.screen(this.hovered);
    let [minDistance, nearest] = [Infinity, this.hovered];
    for (const [index, left, top] of this.visiblePoints()) {
      const along = (left - x) * dx + (top - y) * dy;
      const offAxis = Math.abs((left - x) * dy) + Math.abs((top - y) * dx);
      const distance = along + 2 * offAxis;
      const isInDirection = index !== this.hovered && along > 0.5 && offAxis <= 2 * along;
      if (isInDirection && distance < minDistance) [minDistance, nearest] = [distance, index];
    }
    return nearest;
  }
}
