/**
 * A matrix as an image: cells on a canvas, so that a thousand by a thousand is no more work than ten by ten.
 *
 *   const map = heatMap({ name: "attention", rows: ["a", "b"], columns: ["x", "y", "z"], values, most: 1 });
 *   place.append(map.element);
 *   map.show({ values })                         the same cells with other numbers (rows, columns, most too)
 *   map.mark({ row: 1 })                         a frame around a row, a column (`column`) or a cell; {} takes it away
 *   bench.offer({ name: "attention", figure: map.figure, table: map.table })
 *
 * values   row by row, a Float32Array or an array
 * both     true for numbers on both sides of 0 (orange, blue); else from 0 (or `min`) to `max`
 * most     what the strongest color stands for; by default the largest (absolute) value
 * onPoint  ({row, column, value} or null) as the pointer or the arrow keys move; onPick the same for click and Enter
 * written  a function (value) -> text: numbers are written into cells that have room for them
 * stretch  true lets cells be as wide as there is room, and no higher than that needs: for few columns and many rows
 * frame    a function (row, column) -> "sure", "possible" (dashed) or null: cells to frame, as the true alignment
 *
 * Ctrl and the wheel, or + and -, zoom; 0 shows the whole. `map.canvas.viewData = {rows, columns, values}` is what is shown.
 */

import { palette, colormap } from "./colors.js";
import { make } from "./dom.js";
import { matrixTable } from "./downloads.js";
import { formatNumber } from "./figures.js";
import { labelMargins, imageOf, paintMap } from "./heat_paint.js";
import { readable } from "./strip.js";
import { SvgContext } from "./svg_paper.js";
import { t } from "../words.js";

const MAX_CELL = 40;
const MAX_SIDE = 8000; // pixels of an image to take home
const MAX_HEIGHT = 640;

export function heatMap(options) {
  const map = new HeatMap(options);
  map.show({});
  return map;
}

class HeatMap {
  constructor(options) {
    this.options = { diverging: false, min: 0, max: null, stretch: false, frameOf: null, onPoint: () => {}, onPick: () => {}, ...options };
    this.zoom = 1;
    this.hovered = null;
    this.highlighted = {};
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "heat-canvas" });
    this.room = make("div", { class: "heat-scroll-area" }, this.canvas);
    this.window = make("div", { class: "heat-window" }, this.room);
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    const buttons = [["larger", "+", 1.5], ["smaller", "−", 1 / 1.5], ["fit", "⤢", 0]];
    const zooms = buttons.map(([name, sign, by]) =>
      make("button", { type: "button", class: "quiet", "aria-label": t(name), title: t(name),
                       on: { click: () => this.zoomBy(by) } }, sign));
    this.element = make("div", { class: "heat" }, this.window, make("div", { class: "heat-bar" }, ...zooms, this.readout));
    this.listen();
    this.table = () => matrixTable(this.canvas.viewData);
    this.figure = () => this.wholeDrawing();
  }

  /** Show other numbers. */
  show(changes) {
    Object.assign(this.options, changes);
    const { rows, columns, values, name } = this.options;
    if (values.length !== rows.length * columns.length) throw new Error(`${name}: the values do not fill the cells`);
    this.canvas.viewData = { rows, columns, values };
    this.canvas.setAttribute("aria-label", `${name}: ${rows.length} × ${columns.length}`);
    this.image = imageOf(this.options, colormap(this.options.diverging));
    this.labelMargins = labelMargins(rows.map(readable), columns.map(readable));
    if (this.hovered && (this.hovered.row >= rows.length || this.hovered.column >= columns.length)) this.hovered = null;
    this.layOut();
  }

  mark(highlighted) {
    this.highlighted = highlighted;
    this.paint();
  }

  /** The size of a cell: so that the whole fits, times what the user zoomed. */
  layOut() {
    const { rows, columns, stretch } = this.options;
    const width = Math.max((this.element.clientWidth || 600) - this.labelMargins.left - 2, 40);
    const room = { width: width / columns.length, height: Math.max(MAX_HEIGHT - this.labelMargins.top, 80) / rows.length };
    const min = Math.min(room.width, room.height);
    this.cell = { width: this.zoomed(stretch ? room.width : min), height: this.zoomed(stretch ? room.height : min) };
    const fit = this.extent(this.cell);
    this.visible = { width: Math.min(fit.width, width + this.labelMargins.left), height: Math.min(fit.height, MAX_HEIGHT) };
    Object.assign(this.room.style, { width: `${fit.width}px`, height: `${fit.height}px` });
    Object.assign(this.window.style, { maxHeight: `${this.visible.height + 16}px` });
    const dots = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.ceil(this.visible.width * dots), height: Math.ceil(this.visible.height * dots) });
    Object.assign(this.canvas.style, { width: `${this.visible.width}px`, height: `${this.visible.height}px` });
    this.paint();
  }

  /** Never larger than a cell needs to be, unless that is what fits. */
  zoomed(fitting) {
    const usual = Math.min(fitting, MAX_CELL);
    return Math.min(usual * this.zoom, Math.max(MAX_CELL, usual));
  }

  /** The sides of a map whose cells have this size, with its labels. */
  extent({ width, height }) {
    const { rows, columns } = this.options;
    return { width: this.labelMargins.left + width * columns.length, height: this.labelMargins.top + height * rows.length };
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const dots = window.devicePixelRatio || 1;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    const scroll = { left: this.window.scrollLeft, top: this.window.scrollTop };
    paintMap(context, { ...this, ...this.options, size: this.visible, scroll, colors: palette() });
  }

  /** Everything, also what is scrolled away, as SVG, whose labels are texts. */
  wholeDrawing() {
    const fit = this.fit();
    const sheet = new SvgContext(Math.ceil(fit.size.width), Math.ceil(fit.size.height));
    paintMap(sheet, fit);
    return sheet.svg;
  }

  /** What is painted of a map that nobody scrolls or points at. */
  fit() {
    const { rows, columns } = this.options;
    const side = (now, count) => Math.min(Math.max(now, 16), MAX_SIDE / Math.max(count, 1));
    const cell = { width: side(this.cell.width, columns.length), height: side(this.cell.height, rows.length) };
    const scroll = { left: 0, top: 0 };
    const image = imageOf(this.options, colormap(this.options.diverging)); // on another paper it has other colors
    return { ...this, ...this.options, image, cell, size: this.extent(cell), scroll, hovered: null, colors: palette() };
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
    new ResizeObserver(() => this.element.clientWidth !== this.lastWidth && this.relayout()).observe(this.element);
  }

  relayout() {
    this.lastWidth = this.element.clientWidth;
    this.layOut();
  }

  cellAt(event) {
    const column = Math.floor((event.offsetX + this.window.scrollLeft - this.labelMargins.left) / this.cell.width);
    const row = Math.floor((event.offsetY + this.window.scrollTop - this.labelMargins.top) / this.cell.height);
    const { rows, columns } = this.options;
    const inside = event.offsetX >= this.labelMargins.left && event.offsetY >= this.labelMargins.top;
    return inside && row < rows.length && column < columns.length ? { row, column } : null;
  }

  /** Say which cell is meant, in words and to the view. */
  point(cell) {
    if (cell?.row === this.hovered?.row && cell?.column === this.hovered?.column) return;
    this.hovered = cell;
    const { rows, columns, values, onPoint } = this.options;
    const value = cell && values[cell.row * columns.length + cell.column];
    this.readout.textContent = cell ? `${readable(rows[cell.row])} → ${readable(columns[cell.column])}: ${formatNumber(value)}` : "";
    this.paint();
    onPoint(cell && { ...cell, value });
  }

  pick(cell) {
    if (cell) this.options.onPick({ ...cell, value: this.options.values[cell.row * this.options.columns.length + cell.column] });
  }

  zoomBy(factor) {
    this.zoom = factor === 0 ? 1 : Math.min(Math.max(this.zoom * factor, 1), 1000);
    this.layOut();
    if (this.hovered) this.scrollIntoView();
  }

  key(event) {
    const { rows, columns } = this.options;
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key in steps) {
      const { row, column } = this.hovered ?? { row: 0, column: 0 };
      const [down, right] = this.hovered ? steps[event.key] : [0, 0];
      this.point({
        row: Math.min(Math.max(row + down, 0), rows.length - 1),
        column: Math.min(Math.max(column + right, 0), columns.length - 1),
      });
      this.scrollIntoView();
    } else if (event.key === "Escape") this.point(null);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.hovered);
    else if (event.key in { "+": 1, "=": 1, "-": 1, 0: 1 }) this.zoomBy({ "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key]);
    else return;
    event.preventDefault();
  }

  scrollIntoView() {
    const { row, column } = this.hovered;
    const sight = (at, side, from, length) => (at < from ? at : at + side > from + length ? at + side - length : from);
    const { width, height } = this.cell;
    this.window.scrollLeft = sight(column * width, width, this.window.scrollLeft, this.visible.width - this.labelMargins.left);
    this.window.scrollTop = sight(row * height, height, this.window.scrollTop, this.visible.height - this.labelMargins.top);
    this.paint();
  }
}
