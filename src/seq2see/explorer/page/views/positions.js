/** Positions: what a model is told of where tokens stand, and what it makes of the same tokens in another order. */

import { orderCode, positionTableCode } from "../code/position_code.js";
import { dropdown, button, row, slider, textBox, toggle } from "../parts/controls.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { exampleText } from "../parts/input_form.js";
import { reorderStrip, shuffle } from "../parts/reorder.js";
import { strings } from "./positions_strings.js";

const MAX_POSITIONS = 512;
const MIN_COLOR_MAX = 0.25; // a share of a vector's length: smaller distances than that are never shown in full color

export const view = {
  name: "positions",
  strings,
  state: { side: "", length: 64, head: 0, order: "", off: false, position: 0 },
  show: (position, app) => new PositionsView(position, app).open(),
};

class PositionsView {
  constructor(position, app) {
    Object.assign(this, { position, app });
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
      this.line = make("div", { class: "strip-window" });
      this.found = make("div", {});
      const untold = this.encodings.sides.some((side) => side.kind !== "none");
      const buttons = row(
        button(app.t("reverse"), () => this.setOrder(this.places().reverse())),
        button(app.t("shuffle"), () => this.setOrder(shuffle(this.places()))),
        button(app.t("back"), () => this.setOrder(this.places())),
        untold ? toggle(app, "off", { name: app.t("off"), redraw: this.reorder }) : null,
      );
      parts.push(make("h2", {}, app.t("another_order")), make("p", { class: "note" }, app.t("order_help")), row(text),
        this.line, buttons, this.found);
    }
    fill(this.orders, ...parts);
    fill(this.position, this.orders, this.tables);
    if (parts.length) await this.reorder();
    await this.redrawTables();
  }

  get side() {
    return this.encodings.sides.find((each) => each.side === this.app.state.side) ?? this.encodings.sides[0];
  }

  places() {
    return Array.from({ length: this.answer.movable.filter(Boolean).length }, (_, position) => position);
  }

  /** Another text: it stands in its own order. */
  onNewInput() {
    this.app.set({ order: "" });
    return this.reorder();
  }

  async setOrder(order) {
    this.app.set({ order: order.every((token, position) => token === position) ? "" : order.join(".") });
    try {
      await this.reorder();
    } catch (error) {
      this.app.showError(error);
    }
  }

  params(order) {
    const { state, run } = this.app;
    return { run: run.id, text: state.text || exampleText(this.app), order, positions: state.off ? "off" : "encodings" };
  }

  async drawOrder() {
    const { app } = this;
    this.answer = await app.fetchJson("positions/predict", this.params([]));
    const count = this.places().length;
    let order = app.state.order ? app.state.order.split(".").map(Number) : this.places();
    if (order.length !== count) {
      app.set({ order: "" });
      order = this.places();
    }
    const tokens = this.answer.tokens.filter((_, position) => this.answer.movable[position]);
    const focused = this.line.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    fill(this.line, reorderStrip({ name: app.t("another_order"), tokens, order, onOrder: (wanted) => this.setOrder(wanted) }));
    if (focused !== null) this.line.querySelector(`[data-index="${focused}"]`)?.focus();
    const same = order.every((token, position) => token === position);
    const turned = same ? this.answer : await app.fetchJson("positions/predict", this.params(order));
    const moved = same ? null : await app.fetchArray("positions/distances", this.params(order));
    const far = moved ? this.distances(moved) : [make("p", { class: "note" }, app.t("unmoved"))];
    if (same) app.addDownload({ name: app.t("distances") });
    fill(this.found, this.answers(turned, same), ...far);
    const said = [["original", this.answer], ...(same ? [] : [["reordered", turned]])];
    const rows = said.map(([name, answer]) => [app.t(name), answer.text, formatCandidates(answer)]);
    const table = { columns: ["", app.t("text"), ""], rows };
    app.addDownload({ name: app.t("another_order"), figure: this.found.querySelector("table"), table });
    const python = orderCode(app.run, this.params(order).text, { order: same ? [] : order, off: app.state.off });
    app.showCode({ name: app.t("another_order"), python });
  }

  /** What the model says to the text as it stands and in its new order. */
  answers(turned, same) {
    const { app } = this;
    const line = (name, answer) => make("tr", {},
      make("th", {}, app.t(name)), make("td", { "data-prediction": name }, answer.text), make("td", {}, formatCandidates(answer)));
    return make("table", {}, make("tbody", {}, line("original", this.answer), same ? null : line("reordered", turned)));
  }

  distances({ shape: [stations], values }) {
    const { app, answer } = this;
    const rows = Array.from({ length: stations }, (_, position) => (position ? app.t("block", { number: position }) : app.t("entering")));
    const map = heatMap({ name: app.t("distances"), rows, columns: answer.tokens, values, max: Math.max(...values, MIN_COLOR_MAX) });
    map.canvas.dataset.shows = "distances";
    app.addDownload({ name: app.t("distances"), figure: map.figure, table: map.table });
    queueMicrotask(() => map.layOut());
    return [make("h3", {}, app.t("distances")), make("p", { class: "note" }, app.t("distances_help")), map.element];
  }

  async drawTables() {
    const { app, side, encodings } = this;
    const parts = [make("h2", {}, app.t("encodings"))];
    const sides = encodings.sides.map((each) => [each.side, `${app.t(each.side)}: ${app.t(`kind_${each.kind}`)}`]);
    const grid = side.kind.endsWith("grid");
    parts.push(row(sides.length > 1 ? dropdown(app, "side", { name: app.t("side"), options: sides, redraw: this.redrawTables }) : null,
      side.kind === "none" || grid ? null : slider(app, "length", { name: app.t("length"), from: 2,
        shown: String, to: Math.min(side.max_positions ?? MAX_POSITIONS, MAX_POSITIONS), redraw: this.redrawTables }),
      side.heads > 1 ? slider(app, "head", { name: app.t("head"), to: side.heads - 1, shown: (value) => String(value + 1),
        redraw: this.redrawTables }) : null));
    parts.push(make("p", { class: "note" }, app.t(`about_${side.kind}`)));
    if (side.kind !== "none") parts.push(...(await this.maps(side, grid)));
    else app.showCode({ name: app.t("encodings"), python: null });
    const focused = this.tables.contains(document.activeElement) ? document.activeElement.name : "";
    fill(this.tables, ...parts);
    for (const map of this.shown ?? []) map.layOut();
    if (focused) this.tables.querySelector(`[name="${focused}"]`)?.focus();
  }

  /** The table itself, and how alike every two places look. */
  async maps(side, grid) {
    const { app } = this;
    const body = { run: app.run.id, side: side.side, length: app.state.length, head: Math.min(app.state.head, side.heads - 1) };
    const table = await app.fetchArray("positions/table", body);
    const near = await app.fetchArray("positions/similarity", body);
    const across = grid ? Math.round(Math.sqrt(near.shape[0])) : 0;
    app.showCode({ name: app.t("encodings"), python: positionTableCode(app.run, { ...body, length: across || near.shape[0] }) });
    const named = (position) => (grid ? `${Math.floor(position / across) + 1},${(position % across) + 1}` : String(position));
    const names = Array.from({ length: near.shape[0] }, (_, position) => named(position));
    const numbers = (count) => Array.from({ length: count }, (_, position) => String(position + 1));
    const diverging = side.kind !== "rotary";
    const columns = side.kind === "alibi" ? names : numbers(table.shape[1]);
    const first = heatMap({ name: app.t(`table_${side.kind}`), rows: names, columns, values: table.values, diverging,
      stretch: side.kind !== "alibi",
      max: side.kind === "rotary" ? 2 * Math.PI : null });
    first.canvas.dataset.shows = "table";
    app.addDownload({ name: app.t(`table_${side.kind}`), figure: first.figure, table: first.table });
    this.shown = [first];
    const axes = { rotary: "axes_angles", alibi: "axes_alibi" }[side.kind] ?? "axes_table";
    const parts = [make("h3", {}, app.t(`table_${side.kind}`)), make("p", { class: "note" }, app.t(axes)), first.element];
    if (side.kind === "alibi") return parts;
    const second = heatMap({ name: app.t("similarity"), rows: names, columns: names, values: near.values, diverging: true, max: 1,
      onPoint: (cell) => cell && this.showPosition(cell.row) });
    second.canvas.dataset.shows = "similarity";
    app.addDownload({ name: app.t("similarity"), figure: second.figure, table: second.table });
    this.shown.push(second);
    parts.push(make("h3", {}, app.t("similarity")), make("p", { class: "note" }, app.t("alike_help")), second.element);
    return grid ? [...parts, ...this.onGrid(near, across)] : parts;
  }

  /** Of an image: one row of what is alike, laid out as the patches lie. */
  onGrid(near, across) {
    const { app } = this;
    const lines = Array.from({ length: near.shape[0] / across }, (_, position) => String(position + 1));
    const columns = lines.slice(0, across);
    const rowOf = (position) => near.values.slice(position * near.shape[0], (position + 1) * near.shape[0]);
    const title = make("h3", {});
    const map = heatMap({ name: app.t("on_grid"), rows: lines, columns, values: rowOf(0), diverging: true, max: 1,
      onPick: ({ row: down, column }) => this.showPosition(down * across + column) });
    map.canvas.dataset.shows = "grid";
    this.shown.push(map);
    app.addDownload({ name: app.t("on_grid"), figure: map.figure, table: map.table });
    this.showPosition = (position) => {
      title.textContent = app.t("alike_to", { position: `${Math.floor(position / across) + 1},${(position % across) + 1}` });
      map.show({ values: rowOf(position) });
      map.mark({ row: Math.floor(position / across), column: position % across });
      app.set({ position });
    };
    this.showPosition(Math.min(app.state.position, near.shape[0] - 1));
    return [title, map.element];
  }

  /** Where there is no grid, a place has nothing more to show. */
  showPosition() {}
}

function formatCandidates(answer) {
  return answer.guesses.map((guess) => guess.map((each) => `${each.text.trim() || "▁"} ${formatPercent(each.probability)}`).join(", ")).join(" | ");
}
