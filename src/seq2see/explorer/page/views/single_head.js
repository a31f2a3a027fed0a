/** Attention of one head as arithmetic: every number on the way, computed here, and open to be changed. */

import { singleHeadCode } from "../code/trace_code.js";
import { dropdown, button, row, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { parseEdits, formatEdits, withEdits, weightedSum, rowOf, scoreScale, attentionSteps, dotProductTerms, attentionMatrix } from "../parts/head_math.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { readable, tokenStrip } from "../parts/token_strip.js";
import { markPaired, titleOf } from "./attention_strings.js";
import { strings } from "./single_head_strings.js";
import { entropyAndDistance } from "./token_detail.js";

const MOST_KEYS = 30; // keys listed as numbers
const ARRAYS = {
  queries: "query", keys: "key", values: "value", attention_mask: "attention_mask", bias: "bias", score_vector: "score_vector", weights: "attention",
};
const PARTS = { queries: "q", keys: "k", values: "v" };

export const view = {
  name: "single-head",
  strings,
  state: { layer: -1, head: 0, query: 0, key: -1, scaled: true, masked: true, edits: "", cell: "" },
  show: (place, app) => new SingleHeadView(place, app).open(),
};

class SingleHeadView {
  constructor(place, app) {
    Object.assign(this, { place, app, maps: {} });
    for (const name of ["chosen", "notes", "strip", "matrices", "change", "steps", "dot_product_terms", "output", "all"])
      this[name] = make("div", { class: `hand-${name}` });
    for (const field of Object.keys(PARTS)) this.matrices.append((this[`${field}Box`] = make("div", { class: `hand-${field}` })));
    const serial = serialQueue();
    this.redraw = serial(() => this.draw());
    this.reload = serial(() => this.load());
    this.recompute = serial(() => this.original && this.compute());
  }

  async open() {
    const { app } = this;
    this.input = inputForm(app, { examples: await examplesOf(app), redraw: () => this.onNewInput() });
    this.toggles = row(
      toggle(app, "scaled", { name: app.t("scaled"), redraw: this.recompute }),
      toggle(app, "masked", { name: app.t("masked"), redraw: this.recompute }),
    );
    const halves = make("div", { class: "attention-page" }, make("div", {}, this.dot_product_terms, this.output), this.all);
    fill(this.place, this.input.element, this.chosen, this.strip, this.toggles, this.notes, this.steps, halves, this.change, this.matrices);
    await this.redraw();
  }

  /** Another text: numbers that were changed belong to the old one. */
  onNewInput() {
    this.app.set({ edits: "", cell: "" });
    return this.redraw();
  }

  async draw() {
    const { app } = this;
    const params = this.input.params();
    this.about = await app.fetchJson("attention/layers", params);
    this.params = params;
    this.layers = markPaired(this.about.layers).map((layer) => ({ ...layer, title: titleOf(layer, app.t) }));
    if (!this.layers.length) return fill(this.place, this.input.element, make("p", {}, app.t("no_attention")));
    await this.load();
  }

  get layer() {
    const { layer } = this.app.state;
    return layer >= 0 && layer < this.layers.length ? layer : this.layers.length - 1;
  }

  /** The parts of the chosen head, one after another. */
  async load() {
    const { app, layer } = this;
    const about = this.layers[layer];
    const head = Math.min(Math.max(app.state.head, 0), about.heads - 1);
    const part = (name) => app.fetchArray("attention/part", { ...this.params, layer, head, part: name });
    this.original = { score_function: about.score_function, head_dim: about.head_dim };
    for (const [field, name] of Object.entries(ARRAYS)) this.original[field] = await part(name);
    this.names = { queries: this.about.tokens[about.rows], keys: this.about.tokens[about.columns] };
    this.names.values = this.names.keys;
    this.toggles.firstChild.hidden = scoreScale(this.original) === 1; // where nothing is divided, nothing can be left out
    this.choose(head);
    this.compute();
  }

  choose(head) {
    const { app } = this;
    const again = () => {
      app.set({ edits: "", cell: "" });
      return this.reload();
    };
    const numbered = (count, name) => Array.from({ length: count }, (_, place) => [place, name(place)]);
    const layers = numbered(this.layers.length, (place) => this.layers[place].title);
    const heads = numbered(this.layers[this.layer].heads, (place) => app.t("head_number", { number: place + 1 }));
    const current = { ...app, state: { ...app.state, layer: this.layer, head } };
    fill(this.chosen, row(
      dropdown(current, "layer", { name: app.t("layer"), options: layers, redraw: again }),
      dropdown(current, "head", { name: app.t("head"), options: heads, redraw: again }),
    ));
    this.tokens = tokenStrip({
      name: app.t("query"), tokens: this.names.queries, chosen: this.query,
      onPick: (query) => this.set({ query }),
    });
    fill(this.strip, make("h3", {}, app.t("query")), this.tokens);
  }

  get query() {
    return Math.min(Math.max(this.app.state.query, 0), this.original.queries.shape[0] - 1);
  }

  get switches() {
    const { scaled, masked } = this.app.state;
    return { scaled, masked };
  }

  /** Everything that follows from the numbers, anew; nothing is asked for. */
  compute() {
    const { app, query, original } = this;
    this.head = withEdits(original, app.state.edits);
    this.current = attentionSteps(this.head, query, this.switches);
    this.modelWeights = Array.from(rowOf(original.weights, query));
    this.tokens.choose(query);
    this.listed = this.strongest();
    this.showMatrices();
    this.showChange();
    this.showSteps();
    this.showTerms();
    this.showOutput();
    this.showAll();
    this.showNotes();
    app.showCode({ name: app.t("title"), python: singleHeadCode(this, parseEdits(original, app.state.edits)) });
  }

  showMap(name, place, given) {
    this.maps[name] ??= heatMap({ diverging: true, ...given });
    this.maps[name].show(given);
    if (place && this.maps[name].element.parentElement !== place) fill(place, make("h3", {}, given.name), this.maps[name].element);
    return this.maps[name];
  }

  /** The keys that are shown as numbers: all, or of very many those with the largest shares. */
  strongest() {
    const { weights } = this.current;
    const byShare = weights.map((_, key) => key).sort((one, other) => weights[other] - weights[one]);
    return byShare.slice(0, MOST_KEYS).sort((one, other) => one - other);
  }

  /** Q, K and V as cells to choose from; of very many rows those that count here. */
  showMatrices() {
    const { app, query } = this;
    const near = this.names.queries.map((_, place) => place).filter((place) => Math.abs(place - query) < MOST_KEYS / 2);
    for (const [field, part] of Object.entries(PARTS)) {
      const { shape: [, head_dim], values } = this.head[field];
      const lines = field === "queries" ? near : this.listed;
      const onPick = ({ row: line, column }) => this.pick(`${part}.${this.lines[field][line]}.${column}`);
      const cells = lines.flatMap((line) => Array.from(values.subarray(line * head_dim, (line + 1) * head_dim)));
      const rows = lines.map((line) => this.names[field][line]);
      const given = { name: app.t(field), rows, columns: numberLabels(head_dim), values: cells, onPick };
      this.lines = { ...this.lines, [field]: lines };
      const map = this.showMap(field, this[`${field}Box`], given);
      map.mark(field === "values" ? {} : { row: lines.indexOf(field === "queries" ? query : this.key) });
      app.addDownload({ name: given.name, figure: map.figure, table: map.table });
    }
  }

  pick(cell) {
    this.app.set({ cell });
    this.showChange();
    this.change.querySelector("input")?.select(); // ready to be typed over
  }

  /** Choose or change something that nobody need be asked about. */
  set(changes) {
    this.app.set(changes);
    this.compute();
  }

  /** The number of the chosen cell, to be typed over. */
  showChange() {
    const { app } = this;
    const changes = parseEdits(this.original, app.state.edits);
    const [found] = parseEdits(this.original, `${app.state.cell}=0`);
    if (!found) return fill(this.change, make("p", { class: "note" }, app.t("change")));
    const { part, row: line, column } = found;
    const field = Object.keys(PARTS).find((each) => PARTS[each] === part);
    const others = changes.filter((each) => each.part !== part || each.row !== line || each.column !== column);
    const input = make("input", { type: "number", step: "any", name: "cell", id: "control-cell" });
    input.value = Number(this.head[field].values[line * this.head[field].shape[1] + column].toPrecision(6));
    input.addEventListener("change", () =>
      input.value !== "" && this.set({ edits: formatEdits([...others, { ...found, value: Number(input.value) }]) }));
    const name = app.t("number", { part, token: readable(this.names[field][line]), place: column + 1 });
    const undo = (edits) => {
      this.set({ edits });
      this.change.querySelector("input").focus(); // the button that was pressed may be gone
    };
    fill(this.change, row(
      make("label", { class: "control", for: input.id }, make("span", { class: "name" }, name), input),
      changes.length > others.length ? button(app.t("undo"), () => undo(formatEdits(others))) : null,
      changes.length ? button(app.t("undo_all", { count: changes.length }), () => undo("")) : null,
    ));
  }

  get key() {
    const { key } = this.app.state;
    const { weights } = this.current;
    return key >= 0 && key < weights.length ? key : Math.max(weights.indexOf(Math.max(...weights)), 0);
  }

  /** The table: a line for each key, a column for each step. */
  showSteps() {
    const { app, current, modelWeights } = this;
    const count = current.weights.length;
    const largest = Math.max(...current.biased.filter((_, key) => current.attention_mask[key]), -Infinity);
    const columns = [
      [app.t(this.original.score_function === "additive" ? "sum_additive" : "product"), (key) => formatNumber(current.products[key], 4)],
      scoreScale(this.original) === 1 ? null : [app.t("divided", { head_dim: this.original.head_dim }), (key) => formatNumber(current.scaled[key], 4)],
      current.bias ? [app.t("positions"), (key) => formatNumber(current.biased[key], 4)] : null,
      [app.t("after_mask"), (key) => app.t(current.attention_mask[key] ? "attention_mask" : "forbidden")],
      [app.t("exponential"), (key) => formatNumber(current.attention_mask[key] ? Math.exp(current.biased[key] - largest) : 0, 4)],
      [app.t("formatPercent"), (key) => formatNumber(current.weights[key], 4)],
      [app.t("model_share"), (key) => formatNumber(modelWeights[key], 4)],
    ].filter(Boolean);
    const line = (key) => make("tr", { class: key === this.key ? "chosen" : null },
      make("th", {}, button(readable(this.names.keys[key]) || "∅", () => this.set({ key })), make("small", { class: "note" }, key + 1)),
      ...columns.map(([, cell]) => make("td", { class: "number" }, cell(key))));
    const heading = make("tr", {}, make("th", {}, app.t("key")), ...columns.map(([name]) => make("th", { class: "number" }, name)));
    const table = make("table", { class: "hand-table" }, heading, ...this.listed.map(line));
    table.viewData = { keys: this.listed, products: current.products, scaled: current.scaled, weights: current.weights, model: modelWeights };
    const note = count > MOST_KEYS ? make("p", { class: "note" }, app.t("only_strongest", { count, viewData: MOST_KEYS })) : null;
    const title = app.t("steps", { token: readable(this.names.queries[this.query]) });
    fill(this.steps, make("h2", {}, title), make("div", { class: "scroll" }, table), note);
    const { products, scaled, biased, attention_mask, weights } = current;
    const rows = weights.map((formatPercent, key) =>
      [this.names.keys[key], products[key], scaled[key], biased[key], String(attention_mask[key]), formatPercent, modelWeights[key]]);
    const headings = ["key", "product", "divided", "positions", "after_mask", "formatPercent", "model_share"];
    const named = headings.map((name) => app.t(name, { head_dim: this.original.head_dim }));
    app.addDownload({ key: "steps", name: title, figure: table, table: { columns: named, rows } });
  }

  /** One product, number by number. */
  showTerms() {
    const { app, head, query, key } = this;
    const terms = dotProductTerms(head, query, key);
    const sum = terms.reduce((one, other) => one + other, 0);
    const rows = this.original.score_function === "additive" ? ["W q", "U k", "v × tanh"] : ["q", "k", "q × k"];
    const values = [...rowOf(head.queries, query), ...rowOf(head.keys, key), ...terms];
    const name = app.t("dot_product_terms", { token: readable(this.names.queries[query]), key: readable(this.names.keys[key]) });
    const map = this.showMap("dot_product_terms", null, { name, rows, columns: numberLabels(terms.length), values });
    fill(this.dot_product_terms, make("h2", {}, name), map.element, make("p", { class: "note" }, app.t("sum", { value: formatNumber(sum, 5) })));
    app.addDownload({ key: "dot_product_terms", name, figure: map.figure, table: map.table });
  }

  showOutput() {
    const { app, current, original, modelWeights } = this;
    const values = [...current.output, ...weightedSum(original.values, modelWeights)];
    const [rows, columns] = [["computed", "model"].map((name) => app.t(name)), numberLabels(current.output.length)];
    const given = { name: app.t("output"), rows, columns, values };
    const map = this.showMap("output", this.output, given);
    app.addDownload({ name: given.name, figure: map.figure, table: map.table });
  }

  /** All rows; another query leaves them as they are, and of a long text they are a million numbers. */
  showAll() {
    const { original } = this;
    const of = JSON.stringify([this.app.state.edits, this.switches]);
    if (this.whole?.original === original && this.whole.of === of) return this.maps.all.mark({ row: this.query });
    const weights = attentionMatrix(this.head, this.switches);
    this.whole = { original, of };
    this.difference = weights.reduce((max, value, place) => Math.max(max, Math.abs(value - original.weights.values[place])), 0);
    const given = { name: this.app.t("all_rows"), rows: this.names.queries, columns: this.names.keys, values: weights, diverging: false };
    const map = this.showMap("all", this.all, given);
    map.mark({ row: this.query });
    return this.app.addDownload({ name: given.name, figure: map.figure, table: map.table });
  }

  showNotes() {
    const { app, original } = this;
    const { scaled, masked, edits } = app.state;
    const isOwn = scaled && masked && !parseEdits(original, edits).length;
    const bits = (weights) => formatNumber(entropyAndDistance(weights, 0).bits, 3);
    const texts = [
      app.t(isOwn ? "equal" : "differs", { value: formatNumber(this.difference) }),
      app.t("spread", { current: bits(this.current.weights), modelWeights: bits(this.modelWeights) }),
      original.score_function === "scaled-dot" ? null : app.t(original.score_function),
    ];
    fill(this.notes, ...texts.filter(Boolean).map((text) => make("p", { class: "note" }, text)));
    this.notes.dataset.difference = String(this.difference);
  }
}

function numberLabels(count) {
  return Array.from({ length: count }, (_, place) => String(place + 1));
}
