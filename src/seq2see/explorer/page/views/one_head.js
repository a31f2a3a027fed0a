/** Attention of one head as arithmetic: every number on the way, computed here, and open to be changed. */

import { oneHeadCode } from "../code/inside.js";
import { choice, press, row, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure } from "../parts/figures.js";
import { changesOf, changesText, edited, mixed, rowOf, scaleOf, stepsOf, termsOf, weightsOf } from "../parts/head_math.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputBoxes } from "../parts/input.js";
import { readable, tokenStrip } from "../parts/strip.js";
import { paired, titleOf } from "./attention_words.js";
import { words } from "./one_head_words.js";
import { rowMeasures } from "./one_token.js";

const MOST_KEYS = 30; // keys listed as numbers
const ARRAYS = {
  queries: "query", keys: "key", values: "value", allowed: "allowed", lean: "lean", vector: "vector", weights: "attention",
};
const PARTS = { queries: "q", keys: "k", values: "v" };

export const view = {
  name: "one-head",
  words,
  state: { layer: -1, head: 0, query: 0, key: -1, scaled: true, masked: true, edits: "", cell: "" },
  show: (place, bench) => new OneHead(place, bench).open(),
};

class OneHead {
  constructor(place, bench) {
    Object.assign(this, { place, bench, maps: {} });
    for (const name of ["chosen", "notes", "strip", "matrices", "change", "steps", "spelled", "output", "all"])
      this[name] = make("div", { class: `hand-${name}` });
    for (const field of Object.keys(PARTS)) this.matrices.append((this[`${field}Box`] = make("div", { class: `hand-${field}` })));
    const turn = turns();
    this.redraw = turn(() => this.draw());
    this.reload = turn(() => this.load());
    this.recompute = turn(() => this.own && this.compute());
  }

  async open() {
    const { bench } = this;
    this.input = inputBoxes(bench, { examples: await examplesOf(bench), redraw: () => this.another() });
    this.toggles = row(
      toggle(bench, "scaled", { name: bench.word("scaled"), redraw: this.recompute }),
      toggle(bench, "masked", { name: bench.word("masked"), redraw: this.recompute }),
    );
    const halves = make("div", { class: "attention-page" }, make("div", {}, this.spelled, this.output), this.all);
    fill(this.place, this.input.element, this.chosen, this.strip, this.toggles, this.notes, this.steps, halves, this.change, this.matrices);
    await this.redraw();
  }

  /** Another text: numbers that were changed belong to the old one. */
  another() {
    this.bench.set({ edits: "", cell: "" });
    return this.redraw();
  }

  async draw() {
    const { bench } = this;
    const asked = this.input.asked();
    this.about = await bench.ask("attention/layers", asked);
    this.asked = asked;
    this.layers = paired(this.about.layers).map((layer) => ({ ...layer, title: titleOf(layer, bench.word) }));
    if (!this.layers.length) return fill(this.place, this.input.element, make("p", {}, bench.word("no_attention")));
    await this.load();
  }

  get layer() {
    const { layer } = this.bench.state;
    return layer >= 0 && layer < this.layers.length ? layer : this.layers.length - 1;
  }

  /** The parts of the chosen head, one after another. */
  async load() {
    const { bench, layer } = this;
    const about = this.layers[layer];
    const head = Math.min(Math.max(bench.state.head, 0), about.heads - 1);
    const part = (name) => bench.numbers("attention/part", { ...this.asked, layer, head, part: name });
    this.own = { formula: about.formula, size: about.size };
    for (const [field, name] of Object.entries(ARRAYS)) this.own[field] = await part(name);
    this.names = { queries: this.about.tokens[about.rows], keys: this.about.tokens[about.columns] };
    this.names.values = this.names.keys;
    this.toggles.firstChild.hidden = scaleOf(this.own) === 1; // where nothing is divided, nothing can be left out
    this.choose(head);
    this.compute();
  }

  choose(head) {
    const { bench } = this;
    const again = () => {
      bench.set({ edits: "", cell: "" });
      return this.reload();
    };
    const numbered = (count, name) => Array.from({ length: count }, (_, place) => [place, name(place)]);
    const layers = numbered(this.layers.length, (place) => this.layers[place].title);
    const heads = numbered(this.layers[this.layer].heads, (place) => bench.word("head_number", { number: place + 1 }));
    const now = { ...bench, state: { ...bench.state, layer: this.layer, head } };
    fill(this.chosen, row(
      choice(now, "layer", { name: bench.word("layer"), options: layers, redraw: again }),
      choice(now, "head", { name: bench.word("head"), options: heads, redraw: again }),
    ));
    this.tokens = tokenStrip({
      name: bench.word("query"), tokens: this.names.queries, chosen: this.query,
      onPick: (query) => this.set({ query }),
    });
    fill(this.strip, make("h3", {}, bench.word("query")), this.tokens);
  }

  get query() {
    return Math.min(Math.max(this.bench.state.query, 0), this.own.queries.shape[0] - 1);
  }

  get switches() {
    const { scaled, masked } = this.bench.state;
    return { scaled, masked };
  }

  /** Everything that follows from the numbers, anew; nothing is asked for. */
  compute() {
    const { bench, query, own } = this;
    this.head = edited(own, bench.state.edits);
    this.now = stepsOf(this.head, query, this.switches);
    this.was = Array.from(rowOf(own.weights, query));
    this.tokens.choose(query);
    this.listed = this.strongest();
    this.showMatrices();
    this.showChange();
    this.showSteps();
    this.showSpelled();
    this.showOutput();
    this.showAll();
    this.tell();
    bench.code({ name: bench.word("title"), python: oneHeadCode(this, changesOf(own, bench.state.edits)) });
  }

  heat(name, place, given) {
    this.maps[name] ??= heatMap({ both: true, ...given });
    this.maps[name].show(given);
    if (place && this.maps[name].element.parentElement !== place) fill(place, make("h3", {}, given.name), this.maps[name].element);
    return this.maps[name];
  }

  /** The keys that are shown as numbers: all, or of very many those with the largest shares. */
  strongest() {
    const { weights } = this.now;
    const byShare = weights.map((_, key) => key).sort((one, other) => weights[other] - weights[one]);
    return byShare.slice(0, MOST_KEYS).sort((one, other) => one - other);
  }

  /** Q, K and V as cells to choose from; of very many rows those that count here. */
  showMatrices() {
    const { bench, query } = this;
    const near = this.names.queries.map((_, place) => place).filter((place) => Math.abs(place - query) < MOST_KEYS / 2);
    for (const [field, part] of Object.entries(PARTS)) {
      const { shape: [, size], values } = this.head[field];
      const lines = field === "queries" ? near : this.listed;
      const onPick = ({ row: line, column }) => this.pick(`${part}.${this.lines[field][line]}.${column}`);
      const cells = lines.flatMap((line) => Array.from(values.subarray(line * size, (line + 1) * size)));
      const rows = lines.map((line) => this.names[field][line]);
      const given = { name: bench.word(field), rows, columns: numbersTo(size), values: cells, onPick };
      this.lines = { ...this.lines, [field]: lines };
      const map = this.heat(field, this[`${field}Box`], given);
      map.mark(field === "values" ? {} : { row: lines.indexOf(field === "queries" ? query : this.key) });
      bench.offer({ name: given.name, picture: map.picture, table: map.table });
    }
  }

  pick(cell) {
    this.bench.set({ cell });
    this.showChange();
    this.change.querySelector("input")?.select(); // ready to be typed over
  }

  /** Choose or change something that nobody need be asked about. */
  set(changes) {
    this.bench.set(changes);
    this.compute();
  }

  /** The number of the chosen cell, to be typed over. */
  showChange() {
    const { bench } = this;
    const changes = changesOf(this.own, bench.state.edits);
    const [found] = changesOf(this.own, `${bench.state.cell}=0`);
    if (!found) return fill(this.change, make("p", { class: "note" }, bench.word("change")));
    const { part, row: line, column } = found;
    const field = Object.keys(PARTS).find((each) => PARTS[each] === part);
    const others = changes.filter((each) => each.part !== part || each.row !== line || each.column !== column);
    const input = make("input", { type: "number", step: "any", name: "cell", id: "control-cell" });
    input.value = Number(this.head[field].values[line * this.head[field].shape[1] + column].toPrecision(6));
    input.addEventListener("change", () =>
      input.value !== "" && this.set({ edits: changesText([...others, { ...found, value: Number(input.value) }]) }));
    const name = bench.word("number", { part, token: readable(this.names[field][line]), place: column + 1 });
    const undo = (edits) => {
      this.set({ edits });
      this.change.querySelector("input").focus(); // the button that was pressed may be gone
    };
    fill(this.change, row(
      make("label", { class: "control", for: input.id }, make("span", { class: "name" }, name), input),
      changes.length > others.length ? press(bench.word("undo"), () => undo(changesText(others))) : null,
      changes.length ? press(bench.word("undo_all", { count: changes.length }), () => undo("")) : null,
    ));
  }

  get key() {
    const { key } = this.bench.state;
    const { weights } = this.now;
    return key >= 0 && key < weights.length ? key : Math.max(weights.indexOf(Math.max(...weights)), 0);
  }

  /** The table: a line for each key, a column for each step. */
  showSteps() {
    const { bench, now, was } = this;
    const count = now.weights.length;
    const largest = Math.max(...now.leaned.filter((_, key) => now.allowed[key]), -Infinity);
    const columns = [
      [bench.word(this.own.formula === "additive" ? "sum_additive" : "product"), (key) => figure(now.products[key], 4)],
      scaleOf(this.own) === 1 ? null : [bench.word("divided", { size: this.own.size }), (key) => figure(now.scaled[key], 4)],
      now.lean ? [bench.word("positions"), (key) => figure(now.leaned[key], 4)] : null,
      [bench.word("after_mask"), (key) => bench.word(now.allowed[key] ? "allowed" : "forbidden")],
      [bench.word("exponential"), (key) => figure(now.allowed[key] ? Math.exp(now.leaned[key] - largest) : 0, 4)],
      [bench.word("share"), (key) => figure(now.weights[key], 4)],
      [bench.word("model_share"), (key) => figure(was[key], 4)],
    ].filter(Boolean);
    const line = (key) => make("tr", { class: key === this.key ? "chosen" : null },
      make("th", {}, press(readable(this.names.keys[key]) || "∅", () => this.set({ key })), make("small", { class: "note" }, key + 1)),
      ...columns.map(([, cell]) => make("td", { class: "number" }, cell(key))));
    const heading = make("tr", {}, make("th", {}, bench.word("key")), ...columns.map(([name]) => make("th", { class: "number" }, name)));
    const table = make("table", { class: "hand-table" }, heading, ...this.listed.map(line));
    table.shown = { keys: this.listed, products: now.products, scaled: now.scaled, weights: now.weights, model: was };
    const note = count > MOST_KEYS ? make("p", { class: "note" }, bench.word("only_strongest", { count, shown: MOST_KEYS })) : null;
    const title = bench.word("steps", { token: readable(this.names.queries[this.query]) });
    fill(this.steps, make("h2", {}, title), make("div", { class: "scroll" }, table), note);
    const { products, scaled, leaned, allowed, weights } = now;
    const rows = weights.map((share, key) =>
      [this.names.keys[key], products[key], scaled[key], leaned[key], String(allowed[key]), share, was[key]]);
    const headings = ["key", "product", "divided", "positions", "after_mask", "share", "model_share"];
    const named = headings.map((name) => bench.word(name, { size: this.own.size }));
    bench.offer({ key: "steps", name: title, picture: table, table: { columns: named, rows } });
  }

  /** One product, number by number. */
  showSpelled() {
    const { bench, head, query, key } = this;
    const terms = termsOf(head, query, key);
    const sum = terms.reduce((one, other) => one + other, 0);
    const rows = this.own.formula === "additive" ? ["W q", "U k", "v × tanh"] : ["q", "k", "q × k"];
    const values = [...rowOf(head.queries, query), ...rowOf(head.keys, key), ...terms];
    const name = bench.word("spelled", { token: readable(this.names.queries[query]), key: readable(this.names.keys[key]) });
    const map = this.heat("spelled", null, { name, rows, columns: numbersTo(terms.length), values });
    fill(this.spelled, make("h2", {}, name), map.element, make("p", { class: "note" }, bench.word("together", { value: figure(sum, 5) })));
    bench.offer({ key: "spelled", name, picture: map.picture, table: map.table });
  }

  showOutput() {
    const { bench, now, own, was } = this;
    const values = [...now.output, ...mixed(own.values, was)];
    const [rows, columns] = [["by_hand", "in_model"].map((name) => bench.word(name)), numbersTo(now.output.length)];
    const given = { name: bench.word("output"), rows, columns, values };
    const map = this.heat("output", this.output, given);
    bench.offer({ name: given.name, picture: map.picture, table: map.table });
  }

  /** All rows; another query leaves them as they are, and of a long text they are a million numbers. */
  showAll() {
    const { own } = this;
    const of = JSON.stringify([this.bench.state.edits, this.switches]);
    if (this.whole?.own === own && this.whole.of === of) return this.maps.all.mark({ row: this.query });
    const weights = weightsOf(this.head, this.switches);
    this.whole = { own, of };
    this.difference = weights.reduce((most, value, place) => Math.max(most, Math.abs(value - own.weights.values[place])), 0);
    const given = { name: this.bench.word("all_rows"), rows: this.names.queries, columns: this.names.keys, values: weights, both: false };
    const map = this.heat("all", this.all, given);
    map.mark({ row: this.query });
    return this.bench.offer({ name: given.name, picture: map.picture, table: map.table });
  }

  tell() {
    const { bench, own } = this;
    const { scaled, masked, edits } = bench.state;
    const isOwn = scaled && masked && !changesOf(own, edits).length;
    const bits = (weights) => figure(rowMeasures(weights, 0).bits, 3);
    const texts = [
      bench.word(isOwn ? "equal" : "differs", { value: figure(this.difference) }),
      bench.word("spread", { now: bits(this.now.weights), was: bits(this.was) }),
      own.formula === "scaled-dot" ? null : bench.word(own.formula),
    ];
    fill(this.notes, ...texts.filter(Boolean).map((text) => make("p", { class: "note" }, text)));
    this.notes.dataset.difference = String(this.difference);
  }
}

function numbersTo(count) {
  return Array.from({ length: count }, (_, place) => String(place + 1));
}
