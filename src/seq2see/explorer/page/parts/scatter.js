/**
 * Many named points on a plane: drawn on a canvas, so that ten thousand are no more work than ten.
 *
 *   const map = scatter({ name: "words", labels: ["我", "你"], places, onPick: (index) => ... });
 *   place.append(map.element);
 *   map.mark([3, 5, 8])                  points that stand out, with their names; the first of them the most
 *   bench.offer({ name: "words", figure: map.figure, table: map.table });
 *
 * places   x and y of each point, one after another
 * colors  of each point; by default all alike
 *
 * Drag to move, the wheel or + and - to zoom, 0 for the whole, arrow keys to walk to the next point in a direction,
 * Enter to pick. Names are written as far as there is room for them, so that zooming in reveals more of them.
 * `map.canvas.viewData = {rows, columns, values}` is what is shown.
 */

import { palette } from "./colors.js";
import { make } from "./dom.js";
import { paintPoints } from "./scatter_paint.js";
import { readable } from "./strip.js";
import { SvgContext } from "./svg_paper.js";
import { t } from "../words.js";

const [HIGH, EDGE, NEAR] = [560, 30, 12]; // pixels: height, margin, reach of the pointer

export function scatter(options) {
  return new Scatter(options);
}

class Scatter {
  constructor({ name, labels, places, colors = null, onPick = () => {}, onPoint = () => {} }) {
    Object.assign(this, { name, labels, places, colors, onPick, onPoint, marked: [], hovered: -1, zoom: 1 });
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "scatter", "aria-label": `${name}: ${labels.length}` });
    this.canvas.viewData = { rows: labels, columns: ["x", "y"], values: places };
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    const zooms = [["larger", "+", 1.5], ["smaller", "−", 1 / 1.5], ["fit", "⤢", 0]].map(([key, sign, by]) =>
      make("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key),
                       on: { click: () => this.zoomBy(by) } }, sign));
    this.element = make("div", { class: "scatter-box" }, this.canvas, make("div", { class: "heat-bar" }, this.readout, ...zooms));
    this.table = () => ({ columns: ["", "x", "y"], rows: labels.map((label, index) => [label, places[2 * index], places[2 * index + 1]]) });
    this.figure = () => this.drawing();
    this.measure();
    this.layOut(); // who is quick may take it home, or press a key, before it has its place
    this.listen();
  }

  /** Where the points lie: the middle of all, and how far they reach. */
  measure() {
    const reach = [Infinity, -Infinity, Infinity, -Infinity];
    for (let index = 0; index < this.places.length; index += 2) {
      const [x, y] = [this.places[index], this.places[index + 1]];
      reach[0] = Math.min(reach[0], x);
      reach[1] = Math.max(reach[1], x);
      reach[2] = Math.min(reach[2], y);
      reach[3] = Math.max(reach[3], y);
    }
    this.center = { x: (reach[0] + reach[1]) / 2, y: (reach[2] + reach[3]) / 2 };
    this.extent = { x: reach[1] - reach[0] || 1, y: reach[3] - reach[2] || 1 };
    this.middle = { ...this.center };
  }

  /** Pixels for a unit: the same in both directions, or distances would lie. */
  get scale() {
    const fit = Math.min((this.wide - 2 * EDGE) / this.extent.x, (HIGH - 2 * EDGE) / this.extent.y);
    return Math.max(fit, 1e-9) * this.zoom;
  }

  screen(index) {
    const [x, y] = [this.places[2 * index], this.places[2 * index + 1]];
    return [this.wide / 2 + (x - this.middle.x) * this.scale, HIGH / 2 - (y - this.middle.y) * this.scale];
  }

  /** Let points stand out, and bring the first of them into sight. */
  mark(indices) {
    this.marked = indices;
    if (indices.length && !this.isVisible(indices[0]))
      this.middle = { x: this.places[2 * indices[0]], y: this.places[2 * indices[0] + 1] };
    this.paint();
  }

  isVisible(index) {
    const [x, y] = this.screen(index);
    return x >= 0 && x <= this.wide && y >= 0 && y <= HIGH;
  }

  layOut() {
    this.wide = Math.max(this.element.clientWidth, 200);
    const dots = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.ceil(this.wide * dots), height: Math.ceil(HIGH * dots) });
    Object.assign(this.canvas.style, { width: `${this.wide}px`, height: `${HIGH}px` });
    this.paint();
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    this.paintOn(context, this.hovered >= 0 ? [...this.marked, this.hovered] : this.marked);
  }

  paintOn(context, highlighted) {
    const marked = highlighted.map((index) => [index, ...this.screen(index), index === this.marked[0] || index === this.hovered]);
    paintPoints(context, { size: { width: this.wide, height: HIGH }, visible: this.visiblePoints(), marked, labels: this.labels,
      colors: palette(), ofPoint: this.colors });
  }

  /** The same as SVG: as far as it is zoomed now. */
  drawing() {
    const sheet = new SvgContext(this.wide, HIGH);
    this.paintOn(sheet, this.marked);
    return sheet.svg;
  }

  visiblePoints() {
    const found = [];
    for (let index = 0; index < this.labels.length; index += 1) {
      const [x, y] = this.screen(index);
      if (x >= 0 && x <= this.wide && y >= 0 && y <= HIGH) found.push([index, x, y]);
    }
    return found;
  }

  listen() {
    let held = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.offsetX, y: event.offsetY, from: { ...this.middle }, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = held && !held.moved;
      held = null;
      if (clicked) this.pick(this.nearest(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return this.point(this.nearest(event.offsetX, event.offsetY));
      const [right, down] = [event.offsetX - held.x, event.offsetY - held.y];
      held.moved ||= Math.hypot(right, down) > 4;
      this.middle = { x: held.from.x - right / this.scale, y: held.from.y + down / this.scale };
      this.paint();
    });
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.element.clientWidth !== this.wide && this.layOut()).observe(this.element);
  }

  /** Zoom about a point of the screen, which stays where it is; 0 shows the whole. */
  zoomBy(factor, x = this.wide / 2, y = HIGH / 2) {
    const [right, down] = [x - this.wide / 2, y - HIGH / 2];
    const before = this.scale;
    this.zoom = factor === 0 ? 1 : Math.min(Math.max(this.zoom * factor, 0.5), 2000);
    const change = 1 / before - 1 / this.scale;
    this.middle = factor === 0 ? { ...this.center } : { x: this.middle.x + right * change, y: this.middle.y - down * change };
    this.paint();
  }

  /** The point under the pointer; -1 if there is none. */
  nearest(x, y) {
    const near = this.visiblePoints().map(([index, left, top]) => [Math.hypot(left - x, top - y), index]);
    const [distance, index] = near.reduce((best, each) => (each[0] < best[0] ? each : best), [NEAR, -1]);
    return distance < NEAR ? index : -1;
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
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in ways) this.point(this.next(ways[event.key]));
    else if (event.key === "Escape") this.point(-1);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.hovered);
    else if (event.key in { "+": 1, "=": 1, "-": 1, 0: 1 }) this.zoomBy({ "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
    else return;
    event.preventDefault();
  }

  /** The nearest point that lies in a direction, from the one that is pointed at or from the middle. */
  next([right, down]) {
    const [x, y] = this.hovered < 0 ? [this.wide / 2, HIGH / 2] : this.screen(this.hovered);
    let [best, found] = [Infinity, this.hovered];
    for (const [index, left, top] of this.visiblePoints()) {
      const ahead = (left - x) * right + (top - y) * down;
      const aside = Math.abs((left - x) * down) + Math.abs((top - y) * right);
      const distance = ahead + 2 * aside;
      if (index !== this.hovered && ahead > 0.5 && aside <= 2 * ahead && distance < best) [best, found] = [distance, index];
    }
    return found;
  }
}
