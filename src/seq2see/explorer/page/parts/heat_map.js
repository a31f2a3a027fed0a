/**
 * A heat map of a matrix: drawn on a canvas from an image with one pixel per cell, so that large matrices are fast.
 *
 *   const map = heatMap({ name: "attention", rows: ["a", "b"], columns: ["x", "y", "z"], values, max: 1 });
 *   container.append(map.element);
 *   map.show({ values })                         other values (also rows, columns, max)
 *   map.mark({ row: 1 })                         a frame around a row, a column (`column`) or a cell; {} removes it
 *   app.addDownload({ name: "attention", figure: map.figure, table: map.table })
 *
 * values      row by row, a Float32Array or an array
 * diverging   true for a diverging colormap around 0 (orange, blue); else the colors go from 0 (or `min`) to `max`
 * max         the value of the strongest color; by default the largest (absolute) value
 * onPoint     ({row, column, value} or null) as the pointer or the arrow keys move; onPick for click and Enter
 * formatCell  a function (value) -> text: writes the values into cells that are large enough
 * stretch     true: cell width and height are independent and fill the area, for few columns and many rows
 * frameOf     a function (row, column) -> "sure", "possible" (dashed) or null: cells to frame, such as the gold alignment
 *
 * Ctrl and the wheel, or + and -, zoom; 0 fits the whole matrix. `map.canvas.viewData = {rows, columns, values}` is the data.
 */

import { palette, colormap } from "./colors.js";
import { make } from "./dom.js";
import { matrixTable } from "./downloads.js";
import { formatNumber } from "./number_format.js";
import { labelMargins, imageOf, paintMap } from "./heat_paint.js";
import { readable } from "./token_strip.js";
import { SvgContext } from "./svg_context.js";
import { t } from "../strings.js";

const MAX_CELL = 40;
const MAX_SIDE = 8000; // pixels of a download
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
    this.scrollArea = make("div", { class: "heat-scroll-area" }, this.canvas);
    this.window = make("div", { class: "heat-window" }, this.scrollArea);
    this.readout = make("output", { class: "heat-readout", "aria-live": "polite" });
    const zooms = [["larger", "+", 1.5], ["smaller", "−", 1 / 1.5], ["fit", "⤢", 0]];
    const buttons = zooms.map(([name, symbol, factor]) =>
      make("button", { type: "button", class: "quiet", "aria-label": t(name), title: t(name),
                       on: { click: () => this.zoomBy(factor) } }, symbol));
    this.element = make("div", { class: "heat" }, this.window, make("div", { class: "heat-bar" }, ...buttons, this.readout));
    this.listen();
    this.table = () => matrixTable(this.canvas.viewData);
    this.figure = () => this.drawing();
  }

  /** Change options, and draw the map. */
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

  /** Compute the size of a cell, so that the map fits, times the zoom; then paint. */
  layOut() {
    const { rows, columns, stretch } = this.options;
    const width = Math.max((this.element.clientWidth || 600) - this.labelMargins.left - 2, 40);
    const available = { width: width / columns.length, height: Math.max(MAX_HEIGHT - this.labelMargins.top, 80) / rows.length };
    const min = Math.min(available.width, available.height);
    this.cell = { width: this.zoomed(stretch ? available.width : min), height: this.zoomed(stretch ? available.height : min) };
    const fit = this.extent(this.cell);
    this.visible = { width: Math.min(fit.width, width + this.labelMargins.left), height: Math.min(fit.height, MAX_HEIGHT) };
    Object.assign(this.scrollArea.style, { width: `${fit.width}px`, height: `${fit.height}px` });
    Object.assign(this.window.style, { maxHeight: `${this.visible.height + 16}px` });
    const pixelRatio = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.ceil(this.visible.width * pixelRatio), height: Math.ceil(this.visible.height * pixelRatio) });
    Object.assign(this.canvas.style, { width: `${this.visible.width}px`, height: `${this.visible.height}px` });
    this.paint();
  }

  /** The zoomed size of a cell, limited to `MAX_CELL` or the fitting size. */
  zoomed(fitting) {
    const normal = Math.min(fitting, MAX_CELL);
    return Math.min(normal * this.zoom, Math.max(MAX_CELL, normal));
  }

  /** Width and height of a map with cells of this size, with its labels. */
  extent({ width, height }) {
    const { rows, columns } = this.options;
    return { width: this.labelMargins.left + width * columns.length, height: this.labelMargins.top + height * rows.length };
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const pixelRatio = window.devicePixelRatio || 1;
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    const scroll = { left: this.window.scrollLeft, top: this.window.scrollTop };
    paintMap(context, { ...this, ...this.options, size: this.visible, scroll, colors: palette() });
  }

  /** The whole map as SVG, independent of the scroll position; labels are text elements. */
  drawing() {
    const fit = this.fit();
    const drawing = new SvgContext(Math.ceil(fit.size.width), Math.ceil(fit.size.height));
    paintMap(drawing, fit);
    return drawing.svg;
  }

  /** The arguments of `paintMap` for a map without scroll position and hovered cell. */
  fit() {
    const { rows, columns } = this.options;
    const cellSize = (size, count) => Math.min(Math.max(size, 16), MAX_SIDE / Math.max(count, 1));
    const cell = { width: cellSize(this.cell.width, columns.length), height: cellSize(this.cell.height, rows.length) };
    const scroll = { left: 0, top: 0 };
    const image = imageOf(this.options, colormap(this.options.diverging)); // the colors depend on the theme
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

  /** Show the hovered cell below the map, and call `onPoint`. */
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
      const [dy, dx] = this.hovered ? steps[event.key] : [0, 0];
      this.point({
        row: Math.min(Math.max(row + dy, 0), rows.length - 1),
        column: Math.min(Math.max(column + dx, 0), columns.length - 1),
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
    const scrolled = (start, size, from, length) =>
      start < from ? start : start + size > from + length ? start + size - length : from;
    const { width, height } = this.cell;
    this.window.scrollLeft = scrolled(column * width, width, this.window.scrollLeft, this.visible.width - this.labelMargins.left);
    this.window.scrollTop = scrolled(row * height, height, this.window.scrollTop, this.visible.height - this.labelMargins.top);
    this.paint();
  }
}
