/** The view "Positions": the position encodings of a model, and its output for the same tokens in another order. */

import { orderCode, positionTableCode } from "../code/position_code.js";
import { dropdown, button, row, slider, textBox, toggle } from "../parts/controls.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { exampleText } from "../parts/input_form.js";
import { reorderStrip, shuffle } from "../parts/reorder.js";
import { strings } from "./positions_strings.js";

const MAX_POSITIONS = 512;
const MIN_COLOR_MAX = 0.25; // relative distance; smaller maxima do not get the strongest color

export const view = {
  name: "positions",
  strings,
  state: { side: "", length: 64, head: 0, order: "", off: false, position: 0 },
  show: (container, app) => new PositionsView(container, app).open(),
};

class PositionsView {
  constructor(container, app) {
    Object.assign(this, { container, app });
    this.tables = make("section", {});
    this.orders = make("section", {});
    this.redrawTables = coalesced(() => this.drawTables());
    this.reorder = coalesced(() => this.drawOrder());
  }

  async open() {
    const { app } = this;
    this.encodings = await app.fetchJson("positions/encodings", { run: app.run.id });
    const parts = [];
    if (this.encodings.reorderable) {
      const text = textBox(app, "text", { name: app.t("text"), placeholder: exampleText(this.app), redraw: () => this.onNewInput() });
      this.strip = make("div", { class: "strip-window" });
      this.results = make("div", {});
      const hasEncoding = this.encodings.sides.some((side) => side.kind !== "none");
      const buttons = row(
        button(app.t("reverse"), () => this.setOrder(this.initialOrder().reverse())),
        button(app.t("shuffle"), () => this.setOrder(shuffle(this.initialOrder()))),
        button(app.t("reset"), () => this.setOrder(this.initialOrder())),
        hasEncoding ? toggle(app, "off", { name: app.t("off"), redraw: this.reorder }) : null,
      );
      parts.push(make("h2", {}, app.t("another_order")), make("p", { class: "note" }, app.t("order_help")), row(text),
        this.strip, buttons, this.results);
    }
    fill(this.orders, ...parts);
    fill(this.container, this.orders, this.tables);
    if (parts.length) await this.reorder();
    await this.redrawTables();
  }

  get side() {
    return this.encodings.sides.find((each) => each.side === this.app.state.side) ?? this.encodings.sides[0];
  }

  /** The order of the movable tokens in the text. */
  initialOrder() {
    return Array.from({ length: this.original.movable.filter(Boolean).length }, (_, index) => index);
  }

  /** A new text has its own order. */
  onNewInput() {
    this.app.set({ order: "" });
    return this.reorder();
  }

  async setOrder(order) {
    this.app.set({ order: order.every((token, index) => token === index) ? "" : order.join(".") });
    try {
      await this.reorder();
    } catch (error) {
      this.app.showError(error);
    }
  }

  params(order) {
    const { state, run } = this.app;
    return { run: run.id, text: state.text || exampleText(this.app), order, positions: state.off ? "off" : "on" };
  }

  async drawOrder() {
    const { app } = this;
    this.original = await app.fetchJson("positions/predict", this.params([]));
    const count = this.initialOrder().length;
    let order = app.state.order ? app.state.order.split(".").map(Number) : this.initialOrder();
    if (order.length !== count) {
      app.set({ order: "" });
      order = this.initialOrder();
    }
    const tokens = this.original.tokens.filter((_, index) => this.original.movable[index]);
    const focused = this.strip.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    fill(this.strip, reorderStrip({ name: app.t("another_order"), tokens, order, onOrder: (newOrder) => this.setOrder(newOrder) }));
    if (focused !== null) this.strip.querySelector(`[data-index="${focused}"]`)?.focus();
    const isUnchanged = order.every((token, index) => token === index);
    const reordered = isUnchanged ? this.original : await app.fetchJson("positions/predict", this.params(order));
    const distances = isUnchanged ? null : await app.fetchArray("positions/distances", this.params(order));
    const distanceParts = distances ? this.distanceMap(distances) : [make("p", { class: "note" }, app.t("reorder_hint"))];
    if (isUnchanged) app.addDownload({ name: app.t("distances") });
    fill(this.results, this.predictionTable(reordered, isUnchanged), ...distanceParts);
    const results = [["original", this.original], ...(isUnchanged ? [] : [["reordered", reordered]])];
    const rows = results.map(([name, response]) => [app.t(name), response.text, formatCandidates(response)]);
    const table = { columns: ["", app.t("text"), ""], rows };
    app.addDownload({ name: app.t("another_order"), figure: this.results.querySelector("table"), table });
    const python = orderCode(app.run, this.params(order).text, { order: isUnchanged ? [] : order, off: app.state.off });
    app.showCode({ name: app.t("another_order"), python });
  }

  /** The outputs of the model for the original and the new order. */
  predictionTable(reordered, isUnchanged) {
    const { app } = this;
    const line = (name, response) => make("tr", {},
      make("th", {}, app.t(name)), make("td", { "data-prediction": name }, response.text), make("td", {}, formatCandidates(response)));
    return make("table", {}, make("tbody", {}, line("original", this.original), isUnchanged ? null : line("reordered", reordered)));
  }

  distanceMap({ shape: [layerCount], values }) {
    const { app, original } = this;
    const rows = Array.from({ length: layerCount }, (_, index) => (index ? app.t("block", { number: index }) : app.t("embedding")));
    const map = heatMap({ name: app.t("distances"), rows, columns: original.tokens, values, max: Math.max(...values, MIN_COLOR_MAX) });
    map.canvas.dataset.plot = "distances";
    app.addDownload({ name: app.t("distances"), figure: map.figure, table: map.table });
    queueMicrotask(() => map.layOut());
    return [make("h3", {}, app.t("distances")), make("p", { class: "note" }, app.t("distances_help")), map.element];
  }

  async drawTables() {
    const { app, side, encodings } = this;
    const parts = [make("h2", {}, app.t("position_encoding"))];
    const sides = encodings.sides.map((each) => [each.side, `${app.t(each.side)}: ${app.t(`kind_${each.kind}`)}`]);
    const grid = side.kind.endsWith("grid");
    parts.push(row(sides.length > 1 ? dropdown(app, "side", { name: app.t("side"), options: sides, redraw: this.redrawTables }) : null,
      side.kind === "none" || grid ? null : slider(app, "length", { name: app.t("length"), from: 2,
        format: String, to: Math.min(side.max_positions ?? MAX_POSITIONS, MAX_POSITIONS), redraw: this.redrawTables }),
      side.heads > 1 ? slider(app, "head", { name: app.t("head"), to: side.heads - 1, format: (value) => String(value + 1),
        redraw: this.redrawTables }) : null));
    parts.push(make("p", { class: "note" }, app.t(`about_${side.kind}`)));
    if (side.kind !== "none") parts.push(...(await this.maps(side, grid)));
    else app.showCode({ name: app.t("position_encoding"), python: null });
    const focused = this.tables.contains(document.activeElement) ? document.activeElement.name : "";
    fill(this.tables, ...parts);
    for (const map of this.shownMaps ?? []) map.layOut();
    if (focused) this.tables.querySelector(`[name="${focused}"]`)?.focus();
  }

  /** The table of position encodings, and the similarity of every two positions. */
  async maps(side, grid) {
    const { app } = this;
    const body = { run: app.run.id, side: side.side, length: app.state.length, head: Math.min(app.state.head, side.heads - 1) };
    const table = await app.fetchArray("positions/table", body);
    const similarity = await app.fetchArray("positions/similarity", body);
    const gridWidth = grid ? Math.round(Math.sqrt(similarity.shape[0])) : 0;
    const settings = { ...body, length: gridWidth || similarity.shape[0] };
    app.showCode({ name: app.t("position_encoding"), python: positionTableCode(app.run, settings) });
    const nameOf = (index) => (grid ? `${Math.floor(index / gridWidth) + 1},${(index % gridWidth) + 1}` : String(index));
    const names = Array.from({ length: similarity.shape[0] }, (_, index) => nameOf(index));
    const numbers = (count) => Array.from({ length: count }, (_, index) => String(index + 1));
    const diverging = side.kind !== "rotary";
    const columns = side.kind === "alibi" ? names : numbers(table.shape[1]);
    const tableMap = heatMap({ name: app.t(`table_${side.kind}`), rows: names, columns, values: table.values, diverging,
      stretch: side.kind !== "alibi",
      max: side.kind === "rotary" ? 2 * Math.PI : null });
    tableMap.canvas.dataset.plot = "table";
    app.addDownload({ name: app.t(`table_${side.kind}`), figure: tableMap.figure, table: tableMap.table });
    this.shownMaps = [tableMap];
    const axes = { rotary: "axes_angles", alibi: "axes_alibi" }[side.kind] ?? "axes_table";
    const parts = [make("h3", {}, app.t(`table_${side.kind}`)), make("p", { class: "note" }, app.t(axes)), tableMap.element];
    if (side.kind === "alibi") return parts;
    const similarityMap = heatMap({ name: app.t("similarity"), rows: names, columns: names, values: similarity.values, diverging: true,
      max: 1, onPoint: (cell) => cell && this.showPosition(cell.row) });
    similarityMap.canvas.dataset.plot = "similarity";
    app.addDownload({ name: app.t("similarity"), figure: similarityMap.figure, table: similarityMap.table });
    this.shownMaps.push(similarityMap);
    parts.push(make("h3", {}, app.t("similarity")), make("p", { class: "note" }, app.t("similarity_help")), similarityMap.element);
    return grid ? [...parts, ...this.onGrid(similarity, gridWidth)] : parts;
  }

  /** For images: the similarities of one patch position, on the grid of patches. */
  onGrid(similarity, gridWidth) {
    const { app } = this;
    const rowNames = Array.from({ length: similarity.shape[0] / gridWidth }, (_, index) => String(index + 1));
    const columns = rowNames.slice(0, gridWidth);
    const rowOf = (position) => similarity.values.slice(position * similarity.shape[0], (position + 1) * similarity.shape[0]);
    const title = make("h3", {});
    const map = heatMap({ name: app.t("on_grid"), rows: rowNames, columns, values: rowOf(0), diverging: true, max: 1,
      onPick: ({ row, column }) => this.showPosition(row * gridWidth + column) });
    map.canvas.dataset.plot = "grid";
    this.shownMaps.push(map);
    app.addDownload({ name: app.t("on_grid"), figure: map.figure, table: map.table });
    this.showPosition = (position) => {
      title.textContent = app.t("similarity_to", { position: `${Math.floor(position / gridWidth) + 1},${(position % gridWidth) + 1}` });
      map.show({ values: rowOf(position) });
      map.mark({ row: Math.floor(position / gridWidth), column: position % gridWidth });
      app.set({ position });
    };
    this.showPosition(Math.min(app.state.position, similarity.shape[0] - 1));
    return [title, map.element];
  }

  /** Replaced by `onGrid` for images. */
  showPosition() {}
}

function formatCandidates(response) {
  const format = ({ text, probability }) => `${text.trim() || "▁"} ${formatPercent(probability)}`;
  return response.candidates.map((candidates) => candidates.map(format).join(", ")).join(" | ");
}
