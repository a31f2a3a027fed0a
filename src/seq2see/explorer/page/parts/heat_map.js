/**
 * A matrix as a picture: cells on a canvas, so that a thousand by a thousand is no more work than ten by ten.
 *
 *   const map = heatMap({ name: "attention", rows: ["a", "b"], columns: ["x", "y", "z"], values, most: 1 });
 *   place.append(map.element);
 *   map.show({ values })                         the same cells with other numbers (rows, columns, most too)
 *   map.mark({ row: 1 })                         a frame around a row, a column (`column`) or a cell; {} takes it away
 *   bench.offer({ name: "attention", picture: map.picture, table: map.table })
 *
 * values   row by row, a Float32Array or an array
 * both     true for numbers on both sides of 0 (orange, blue); else from 0 (or `least`) to `most`
 * most     what the strongest colour stands for; by default the largest (absolute) value
 * onPoint  ({row, column, value} or null) as the pointer or the arrow keys move; onPick the same for click and Enter
 * written  a function (value) -> text: numbers are written into cells that have room for them
 * stretch  true lets cells be as wide as there is room, and no higher than that needs: for few columns and many rows
 * frame    a function (row, column) -> "sure", "possible" (dashed) or null: cells to frame, as the true alignment
 *
 * Ctrl and the wheel, or + and -, zoom; 0 shows the whole. `map.canvas.shown = {rows, columns, values}` is what is shown.
 */

import { paper, ramp } from "./colours.js";
import { make } from "./dom.js";
import { matrixTable } from "./downloads.js";
import { figure } from "./figures.js";
import { gutters, imageOf, paintMap } from "./heat_paint.js";
import { readable } from "./strip.js";
import { SvgPaper } from "./svg_paper.js";
import { word } from "../words.js";

const LARGEST_CELL = 40;
const LARGEST_SIDE = 8000; // pixels of a picture to take home
const TALLEST = 640;

export function heatMap(given) {
  const map = new HeatMap(given);
  map.show({});
  return map;
}

class HeatMap {
  constructor(given) {
    this.given = { both: false, least: 0, most: null, stretch: false, frame: null, onPoint: () => {}, onPick: () => {}, ...given };
    this.zoom = 1;
    this.pointed = null;
    this.marked = {};
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "heat-canvas" });
    this.room = make("div", { class: "heat-room" }, this.canvas);
    this.window = make("div", { class: "heat-window" }, this.room);
    this.told = make("output", { class: "heat-told", "aria-live": "polite" });
    const buttons = [["larger", "+", 1.5], ["smaller", "−", 1 / 1.5], ["whole", "⤢", 0]];
    const zooms = buttons.map(([name, sign, by]) =>
      make("button", { type: "button", class: "quiet", "aria-label": word(name), title: word(name),
                       on: { click: () => this.zoomBy(by) } }, sign));
    this.element = make("div", { class: "heat" }, this.window, make("div", { class: "heat-bar" }, ...zooms, this.told));
    this.listen();
    this.table = () => matrixTable(this.canvas.shown);
    this.picture = () => this.wholeDrawing();
  }

  /** Show other numbers. */
  show(changes) {
    Object.assign(this.given, changes);
    const { rows, columns, values, name } = this.given;
    if (values.length !== rows.length * columns.length) throw new Error(`${name}: the values do not fill the cells`);
    this.canvas.shown = { rows, columns, values };
    this.canvas.setAttribute("aria-label", `${name}: ${rows.length} × ${columns.length}`);
    this.image = imageOf(this.given, ramp(this.given.both));
    this.gutters = gutters(rows.map(readable), columns.map(readable));
    if (this.pointed && (this.pointed.row >= rows.length || this.pointed.column >= columns.length)) this.pointed = null;
    this.layOut();
  }

  mark(marked) {
    this.marked = marked;
    this.paint();
  }

  /** The size of a cell: so that the whole fits, times what the user zoomed. */
  layOut() {
    const { rows, columns, stretch } = this.given;
    const width = Math.max((this.element.clientWidth || 600) - this.gutters.left - 2, 40);
    const room = { width: width / columns.length, height: Math.max(TALLEST - this.gutters.top, 80) / rows.length };
    const least = Math.min(room.width, room.height);
    this.cell = { width: this.zoomed(stretch ? room.width : least), height: this.zoomed(stretch ? room.height : least) };
    const whole = this.extent(this.cell);
    this.seen = { width: Math.min(whole.width, width + this.gutters.left), height: Math.min(whole.height, TALLEST) };
    Object.assign(this.room.style, { width: `${whole.width}px`, height: `${whole.height}px` });
    Object.assign(this.window.style, { maxHeight: `${this.seen.height + 16}px` });
    const dots = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.ceil(this.seen.width * dots), height: Math.ceil(this.seen.height * dots) });
    Object.assign(this.canvas.style, { width: `${this.seen.width}px`, height: `${this.seen.height}px` });
    this.paint();
  }

  /** Never larger than a cell needs to be, unless that is what fits. */
  zoomed(fitting) {
    const usual = Math.min(fitting, LARGEST_CELL);
    return Math.min(usual * this.zoom, Math.max(LARGEST_CELL, usual));
  }

  /** The sides of a map whose cells have this size, with its labels. */
  extent({ width, height }) {
    const { rows, columns } = this.given;
    return { width: this.gutters.left + width * columns.length, height: this.gutters.top + height * rows.length };
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    const scroll = { left: this.window.scrollLeft, top: this.window.scrollTop };
    paintMap(context, { ...this, ...this.given, size: this.seen, scroll, colours: paper() });
  }

  /** Everything, also what is scrolled away, as SVG, whose labels are texts. */
  wholeDrawing() {
    const whole = this.whole();
    const sheet = new SvgPaper(Math.ceil(whole.size.width), Math.ceil(whole.size.height));
    paintMap(sheet, whole);
    return sheet.svg;
  }

  /** What is painted of a map that nobody scrolls or points at. */
  whole() {
    const { rows, columns } = this.given;
    const side = (now, count) => Math.min(Math.max(now, 16), LARGEST_SIDE / Math.max(count, 1));
    const cell = { width: side(this.cell.width, columns.length), height: side(this.cell.height, rows.length) };
    const scroll = { left: 0, top: 0 };
    const image = imageOf(this.given, ramp(this.given.both)); // on another paper it has other colours
    return { ...this, ...this.given, image, cell, size: this.extent(cell), scroll, pointed: null, colours: paper() };
  }

  listen() {
    this.window.addEventListener("scroll", () => this.paint());
    this.canvas.addEventListener("pointermove", (event) => this.point(this.cellAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => this.pick(this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.window.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8);
    }, { passive: false });
    new ResizeObserver(() => this.element.clientWidth !== this.wasWide && this.layOutAnew()).observe(this.element);
  }

  layOutAnew() {
    this.wasWide = this.element.clientWidth;
    this.layOut();
  }

  cellAt(event) {
    const column = Math.floor((event.offsetX + this.window.scrollLeft - this.gutters.left) / this.cell.width);
    const row = Math.floor((event.offsetY + this.window.scrollTop - this.gutters.top) / this.cell.height);
    const { rows, columns } = this.given;
    const inside = event.offsetX >= this.gutters.left && event.offsetY >= this.gutters.top;
    return inside && row < rows.length && column < columns.length ? { row, column } : null;
  }

  /** Say which cell is meant, in words and to the view. */
  point(cell) {
    if (cell?.row === this.pointed?.row && cell?.column === this.pointed?.column) return;
    this.pointed = cell;
    const { rows, columns, values, onPoint } = this.given;
    const value = cell && values[cell.row * columns.length + cell.column];
    this.told.textContent = cell ? `${readable(rows[cell.row])} → ${readable(columns[cell.column])}: ${figure(value)}` : "";
    this.paint();
    onPoint(cell && { ...cell, value });
  }

  pick(cell) {
    if (cell) this.given.onPick({ ...cell, value: this.given.values[cell.row * this.given.columns.length + cell.column] });
  }

  zoomBy(factor) {
    this.zoom = factor === 0 ? 1 : Math.min(Math.max(this.zoom * factor, 1), 1000);
    this.layOut();
    if (this.pointed) this.bringIntoSight();
  }

  key(event) {
    const { rows, columns } = this.given;
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key in steps) {
      const { row, column } = this.pointed ?? { row: 0, column: 0 };
      const [down, right] = this.pointed ? steps[event.key] : [0, 0];
      this.point({
        row: Math.min(Math.max(row + down, 0), rows.length - 1),
        column: Math.min(Math.max(column + right, 0), columns.length - 1),
      });
      this.bringIntoSight();
    } else if (event.key === "Escape") this.point(null);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.pointed);
    else if (event.key in { "+": 1, "=": 1, "-": 1, 0: 1 }) this.zoomBy({ "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
    else return;
    event.preventDefault();
  }

  bringIntoSight() {
    const { row, column } = this.pointed;
    const sight = (at, side, from, length) => (at < from ? at : at + side > from + length ? at + side - length : from);
    const { width, height } = this.cell;
    this.window.scrollLeft = sight(column * width, width, this.window.scrollLeft, this.seen.width - this.gutters.left);
    this.window.scrollTop = sight(row * height, height, this.window.scrollTop, this.seen.height - this.gutters.top);
    this.paint();
  }
}
