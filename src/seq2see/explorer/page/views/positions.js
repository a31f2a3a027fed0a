/** Positions: what a model is told of where tokens stand, and what it makes of the same tokens in another order. */

import { orderCode, tableCode } from "../code/places.js";
import { choice, press, row, slider, textBox, toggle } from "../parts/controls.js";
import { fill, latest, make } from "../parts/dom.js";
import { share } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { exampleText } from "../parts/input.js";
import { reorderStrip, shuffled } from "../parts/reorder.js";
import { words } from "./positions_words.js";

const MOST_PLACES = 512;
const CLEARLY = 0.25; // a share of a vector's length: smaller distances than that are never shown in full colour

export const view = {
  name: "positions",
  words,
  state: { side: "", length: 64, head: 0, order: "", off: false, place: 0 },
  show: (place, bench) => new Positions(place, bench).open(),
};

class Positions {
  constructor(place, bench) {
    Object.assign(this, { place, bench });
    this.tables = make("section", {});
    this.orders = make("section", {});
    this.retable = latest(() => this.drawTables());
    this.reorder = latest(() => this.drawOrder());
  }

  async open() {
    const { bench } = this;
    this.told = await bench.ask("positions/told", { run: bench.run.id });
    const parts = [];
    if (this.told.reorders) {
      const text = textBox(bench, "text", { name: bench.word("text"), placeholder: exampleText(this.bench), redraw: () => this.another() });
      this.line = make("div", { class: "strip-window" });
      this.found = make("div", {});
      const untold = this.told.sides.some((side) => side.kind !== "none");
      const buttons = row(
        press(bench.word("reverse"), () => this.put(this.places().reverse())),
        press(bench.word("shuffle"), () => this.put(shuffled(this.places()))),
        press(bench.word("back"), () => this.put(this.places())),
        untold ? toggle(bench, "off", { name: bench.word("off"), redraw: this.reorder }) : null,
      );
      parts.push(make("h2", {}, bench.word("another_order")), make("p", { class: "note" }, bench.word("order_help")), row(text),
        this.line, buttons, this.found);
    }
    fill(this.orders, ...parts);
    fill(this.place, this.orders, this.tables);
    if (parts.length) await this.reorder();
    await this.retable();
  }

  get side() {
    return this.told.sides.find((each) => each.side === this.bench.state.side) ?? this.told.sides[0];
  }

  places() {
    return Array.from({ length: this.answer.movable.filter(Boolean).length }, (_, place) => place);
  }

  /** Another text: it stands in its own order. */
  another() {
    this.bench.set({ order: "" });
    return this.reorder();
  }

  async put(order) {
    this.bench.set({ order: order.every((token, place) => token === place) ? "" : order.join(".") });
    try {
      await this.reorder();
    } catch (error) {
      this.bench.fail(error);
    }
  }

  asked(order) {
    const { state, run } = this.bench;
    return { run: run.id, text: state.text || exampleText(this.bench), order, positions: state.off ? "off" : "told" };
  }

  async drawOrder() {
    const { bench } = this;
    this.answer = await bench.ask("positions/answers", this.asked([]));
    const count = this.places().length;
    let order = bench.state.order ? bench.state.order.split(".").map(Number) : this.places();
    if (order.length !== count) {
      bench.set({ order: "" });
      order = this.places();
    }
    const tokens = this.answer.tokens.filter((_, place) => this.answer.movable[place]);
    const focused = this.line.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    fill(this.line, reorderStrip({ name: bench.word("another_order"), tokens, order, onOrder: (wanted) => this.put(wanted) }));
    if (focused !== null) this.line.querySelector(`[data-index="${focused}"]`)?.focus();
    const same = order.every((token, place) => token === place);
    const turned = same ? this.answer : await bench.ask("positions/answers", this.asked(order));
    const moved = same ? null : await bench.numbers("positions/distances", this.asked(order));
    const far = moved ? this.distances(moved) : [make("p", { class: "note" }, bench.word("unmoved"))];
    if (same) bench.offer({ name: bench.word("distances") });
    fill(this.found, this.answers(turned, same), ...far);
    const said = [["as_it_is", this.answer], ...(same ? [] : [["reordered", turned]])];
    const rows = said.map(([name, answer]) => [bench.word(name), answer.text, likely(answer)]);
    const table = { columns: ["", bench.word("text"), ""], rows };
    bench.offer({ name: bench.word("another_order"), picture: this.found.querySelector("table"), table });
    const python = orderCode(bench.run, this.asked(order).text, { order: same ? [] : order, off: bench.state.off });
    bench.code({ name: bench.word("another_order"), python });
  }

  /** What the model says to the text as it stands and in its new order. */
  answers(turned, same) {
    const { bench } = this;
    const line = (name, answer) => make("tr", {},
      make("th", {}, bench.word(name)), make("td", { "data-said": name }, answer.text), make("td", {}, likely(answer)));
    return make("table", {}, make("tbody", {}, line("as_it_is", this.answer), same ? null : line("reordered", turned)));
  }

  distances({ shape: [stations], values }) {
    const { bench, answer } = this;
    const rows = Array.from({ length: stations }, (_, place) => (place ? bench.word("block", { number: place }) : bench.word("entering")));
    const map = heatMap({ name: bench.word("distances"), rows, columns: answer.tokens, values, most: Math.max(...values, CLEARLY) });
    map.canvas.dataset.shows = "distances";
    bench.offer({ name: bench.word("distances"), picture: map.picture, table: map.table });
    queueMicrotask(() => map.layOut());
    return [make("h3", {}, bench.word("distances")), make("p", { class: "note" }, bench.word("distances_help")), map.element];
  }

  async drawTables() {
    const { bench, side, told } = this;
    const parts = [make("h2", {}, bench.word("told"))];
    const sides = told.sides.map((each) => [each.side, `${bench.word(each.side)}: ${bench.word(`kind_${each.kind}`)}`]);
    const grid = side.kind.endsWith("grid");
    parts.push(row(sides.length > 1 ? choice(bench, "side", { name: bench.word("side"), options: sides, redraw: this.retable }) : null,
      side.kind === "none" || grid ? null : slider(bench, "length", { name: bench.word("length"), from: 2,
        shown: String, to: Math.min(side.longest ?? MOST_PLACES, MOST_PLACES), redraw: this.retable }),
      side.heads > 1 ? slider(bench, "head", { name: bench.word("head"), to: side.heads - 1, shown: (value) => String(value + 1),
        redraw: this.retable }) : null));
    parts.push(make("p", { class: "note" }, bench.word(`about_${side.kind}`)));
    if (side.kind !== "none") parts.push(...(await this.maps(side, grid)));
    else bench.code({ name: bench.word("told"), python: null });
    const focused = this.tables.contains(document.activeElement) ? document.activeElement.name : "";
    fill(this.tables, ...parts);
    for (const map of this.shown ?? []) map.layOut();
    if (focused) this.tables.querySelector(`[name="${focused}"]`)?.focus();
  }

  /** The table itself, and how alike every two places look. */
  async maps(side, grid) {
    const { bench } = this;
    const body = { run: bench.run.id, side: side.side, length: bench.state.length, head: Math.min(bench.state.head, side.heads - 1) };
    const table = await bench.numbers("positions/table", body);
    const near = await bench.numbers("positions/similar", body);
    const across = grid ? Math.round(Math.sqrt(near.shape[0])) : 0;
    bench.code({ name: bench.word("told"), python: tableCode(bench.run, { ...body, length: across || near.shape[0] }) });
    const named = (place) => (grid ? `${Math.floor(place / across) + 1},${(place % across) + 1}` : String(place));
    const names = Array.from({ length: near.shape[0] }, (_, place) => named(place));
    const numbers = (count) => Array.from({ length: count }, (_, place) => String(place + 1));
    const both = side.kind !== "rotary";
    const columns = side.kind === "alibi" ? names : numbers(table.shape[1]);
    const first = heatMap({ name: bench.word(`table_${side.kind}`), rows: names, columns, values: table.values, both,
      stretch: side.kind !== "alibi",
      most: side.kind === "rotary" ? 2 * Math.PI : null });
    first.canvas.dataset.shows = "table";
    bench.offer({ name: bench.word(`table_${side.kind}`), picture: first.picture, table: first.table });
    this.shown = [first];
    const axes = { rotary: "axes_angles", alibi: "axes_alibi" }[side.kind] ?? "axes_table";
    const parts = [make("h3", {}, bench.word(`table_${side.kind}`)), make("p", { class: "note" }, bench.word(axes)), first.element];
    if (side.kind === "alibi") return parts;
    const second = heatMap({ name: bench.word("alike"), rows: names, columns: names, values: near.values, both: true, most: 1,
      onPoint: (cell) => cell && this.ofPlace(cell.row) });
    second.canvas.dataset.shows = "alike";
    bench.offer({ name: bench.word("alike"), picture: second.picture, table: second.table });
    this.shown.push(second);
    parts.push(make("h3", {}, bench.word("alike")), make("p", { class: "note" }, bench.word("alike_help")), second.element);
    return grid ? [...parts, ...this.onGrid(near, across)] : parts;
  }

  /** Of a picture: one row of what is alike, laid out as the patches lie. */
  onGrid(near, across) {
    const { bench } = this;
    const lines = Array.from({ length: near.shape[0] / across }, (_, place) => String(place + 1));
    const columns = lines.slice(0, across);
    const rowOf = (place) => near.values.slice(place * near.shape[0], (place + 1) * near.shape[0]);
    const title = make("h3", {});
    const map = heatMap({ name: bench.word("on_grid"), rows: lines, columns, values: rowOf(0), both: true, most: 1,
      onPick: ({ row: down, column }) => this.ofPlace(down * across + column) });
    map.canvas.dataset.shows = "grid";
    this.shown.push(map);
    bench.offer({ name: bench.word("on_grid"), picture: map.picture, table: map.table });
    this.ofPlace = (place) => {
      title.textContent = bench.word("alike_to", { place: `${Math.floor(place / across) + 1},${(place % across) + 1}` });
      map.show({ values: rowOf(place) });
      map.mark({ row: Math.floor(place / across), column: place % across });
      bench.set({ place });
    };
    this.ofPlace(Math.min(bench.state.place, near.shape[0] - 1));
    return [title, map.element];
  }

  /** Where there is no grid, a place has nothing more to show. */
  ofPlace() {}
}

function likely(answer) {
  return answer.guesses.map((guess) => guess.map((each) => `${each.text.trim() || "▁"} ${share(each.probability)}`).join(", ")).join(" | ");
}
