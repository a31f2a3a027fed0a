/** The view "Single head": the attention of one head step by step, with editable queries, keys and values. */

import { singleHeadCode } from "../code/trace_code.js";
import { dropdown, button, row, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import {
  attentionMatrix, attentionSteps, dotProductTerms, formatEdits, parseEdits, rowOf, scoreScale, weightedSum, withEdits,
} from "../parts/head_math.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { readable, tokenStrip } from "../parts/token_strip.js";
import { markPaired, titleOf } from "./attention_strings.js";
import { strings } from "./single_head_strings.js";
import { entropyAndDistance } from "./token_detail.js";

const MAX_KEYS = 30; // keys in the table
const ARRAYS = {
  queries: "query", keys: "key", values: "value", attention_mask: "attention_mask", bias: "attention_bias",
  score_vector: "score_vector", weights: "attention",
};
const PARTS = { queries: "q", keys: "k", values: "v" };

export const view = {
  name: "single-head",
  strings,
  state: { layer: -1, head: 0, query: 0, key: -1, scaled: true, masked: true, edits: "", cell: "" },
  show: (container, app) => new SingleHeadView(container, app).open(),
};

class SingleHeadView {
  constructor(container, app) {
    Object.assign(this, { container, app, maps: {} });
    for (const name of ["selection", "notes", "strip", "matrices", "edit", "steps", "terms", "output", "all"])
      this[name] = make("div", { class: `single-head-${name}` });
    for (const field of Object.keys(PARTS)) this.matrices.append((this[`${field}Box`] = make("div", { class: `single-head-${field}` })));
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
    const columns = make("div", { class: "attention-page" }, make("div", {}, this.terms, this.output), this.all);
    fill(this.container, this.input.element, this.selection, this.strip, this.toggles, this.notes, this.steps, columns,
      this.edit, this.matrices);
    await this.redraw();
  }

  /** A new input: the edits belong to the old one. */
  onNewInput() {
    this.app.set({ edits: "", cell: "" });
    return this.redraw();
  }

  async draw() {
    const { app } = this;
    const params = this.input.params();
    this.info = await app.fetchJson("attention/layers", params);
    this.params = params;
    this.layers = markPaired(this.info.layers).map((layer) => ({ ...layer, title: titleOf(layer, app.t) }));
    if (!this.layers.length) return fill(this.container, this.input.element, make("p", {}, app.t("no_attention")));
    await this.load();
  }

  get layer() {
    const { layer } = this.app.state;
    return layer >= 0 && layer < this.layers.length ? layer : this.layers.length - 1;
  }

  /** Load the arrays of the selected head. */
  async load() {
    const { app, layer } = this;
    const info = this.layers[layer];
    const head = Math.min(Math.max(app.state.head, 0), info.heads - 1);
    const part = (name) => app.fetchArray("attention/part", { ...this.params, layer, head, part: name });
    this.original = { score_function: info.score_function, head_dim: info.head_dim };
    for (const [field, name] of Object.entries(ARRAYS)) this.original[field] = await part(name);
    this.names = { queries: this.info.tokens[info.rows], keys: this.info.tokens[info.columns] };
    this.names.values = this.names.keys;
    this.toggles.firstChild.hidden = scoreScale(this.original) === 1; // only scaled dot-product attention has a scale
    this.choose(head);
    this.compute();
  }

  choose(head) {
    const { app } = this;
    const onSelect = () => {
      app.set({ edits: "", cell: "" });
      return this.reload();
    };
    const options = (count, name) => Array.from({ length: count }, (_, index) => [index, name(index)]);
    const layers = options(this.layers.length, (index) => this.layers[index].title);
    const heads = options(this.layers[this.layer].heads, (index) => app.t("head_number", { number: index + 1 }));
    const boundApp = { ...app, state: { ...app.state, layer: this.layer, head } };
    fill(this.selection, row(
      dropdown(boundApp, "layer", { name: app.t("layer"), options: layers, redraw: onSelect }),
      dropdown(boundApp, "head", { name: app.t("head"), options: heads, redraw: onSelect }),
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

  get options() {
    const { scaled, masked } = this.app.state;
    return { scaled, masked };
  }

  /** Compute and draw everything from the loaded arrays, without a request. */
  compute() {
    const { app, query, original } = this;
    this.head = withEdits(original, app.state.edits);
    this.current = attentionSteps(this.head, query, this.options);
    this.modelWeights = Array.from(rowOf(original.weights, query));
    this.tokens.choose(query);
    this.listed = this.topKeys();
    this.showMatrices();
    this.showEdit();
    this.showSteps();
    this.showTerms();
    this.showOutput();
    this.showAll();
    this.showNotes();
    app.showCode({ name: app.t("title"), python: singleHeadCode(this, parseEdits(original, app.state.edits)) });
  }

  showMap(name, index, options) {
    this.maps[name] ??= heatMap({ diverging: true, ...options });
    this.maps[name].show(options);
    if (index && this.maps[name].element.parentElement !== index) fill(index, make("h3", {}, options.name), this.maps[name].element);
    return this.maps[name];
  }

  /** The keys of the table: all, or the `MAX_KEYS` with the largest weights. */
  topKeys() {
    const { weights } = this.current;
    const byWeight = weights.map((_, key) => key).sort((one, other) => weights[other] - weights[one]);
    return byWeight.slice(0, MAX_KEYS).sort((one, other) => one - other);
  }

  /** Q, K and V as editable matrices; of long inputs only the rows around the query, and those of the listed keys. */
  showMatrices() {
    const { app, query } = this;
    const nearby = this.names.queries.map((_, index) => index).filter((index) => Math.abs(index - query) < MAX_KEYS / 2);
    for (const [field, part] of Object.entries(PARTS)) {
      const { shape: [, head_dim], values } = this.head[field];
      const lines = field === "queries" ? nearby : this.listed;
      const onPick = ({ row: rowIndex, column }) => this.pick(`${part}.${this.rowIndices[field][rowIndex]}.${column}`);
      const cells = lines.flatMap((rowIndex) => Array.from(values.subarray(rowIndex * head_dim, (rowIndex + 1) * head_dim)));
      const rows = lines.map((rowIndex) => this.names[field][rowIndex]);
      const options = { name: app.t(field), rows, columns: numberLabels(head_dim), values: cells, onPick };
      this.rowIndices = { ...this.rowIndices, [field]: lines };
      const map = this.showMap(field, this[`${field}Box`], options);
      map.mark(field === "values" ? {} : { row: lines.indexOf(field === "queries" ? query : this.key) });
      app.addDownload({ name: options.name, figure: map.figure, table: map.table });
    }
  }

  pick(cell) {
    this.app.set({ cell });
    this.showEdit();
    this.edit.querySelector("input")?.select(); // ready for typing
  }

  /** Change the state, and compute without a request. */
  set(changes) {
    this.app.set(changes);
    this.compute();
  }

  /** Show the input for the number of the selected cell. */
  showEdit() {
    const { app } = this;
    const edits = parseEdits(this.original, app.state.edits);
    const [edit] = parseEdits(this.original, `${app.state.cell}=0`);
    if (!edit) return fill(this.edit, make("p", { class: "note" }, app.t("edit_help")));
    const { part, row: rowIndex, column } = edit;
    const field = Object.keys(PARTS).find((each) => PARTS[each] === part);
    const otherEdits = edits.filter((each) => each.part !== part || each.row !== rowIndex || each.column !== column);
    const input = make("input", { type: "number", step: "any", name: "cell", id: "control-cell" });
    input.value = Number(this.head[field].values[rowIndex * this.head[field].shape[1] + column].toPrecision(6));
    input.addEventListener("change", () =>
      input.value !== "" && this.set({ edits: formatEdits([...otherEdits, { ...edit, value: Number(input.value) }]) }));
    const name = app.t("number", { part, token: readable(this.names[field][rowIndex]), position: column + 1 });
    const undo = (edits) => {
      this.set({ edits });
      this.edit.querySelector("input").focus(); // the clicked button may be gone
    };
    fill(this.edit, row(
      make("label", { class: "control", for: input.id }, make("span", { class: "name" }, name), input),
      edits.length > otherEdits.length ? button(app.t("undo"), () => undo(formatEdits(otherEdits))) : null,
      edits.length ? button(app.t("undo_all", { count: edits.length }), () => undo("")) : null,
    ));
  }

  get key() {
    const { key } = this.app.state;
    const { weights } = this.current;
    return key >= 0 && key < weights.length ? key : Math.max(weights.indexOf(Math.max(...weights)), 0);
  }

  /** Show the table: a row for each key, a column for each step. */
  showSteps() {
    const { app, current, modelWeights, original: { head_dim } } = this;
    const count = current.weights.length;
    const maxScore = Math.max(...current.biased.filter((_, key) => current.attention_mask[key]), -Infinity);
    const columns = [
      [app.t(this.original.score_function === "additive" ? "additive_score" : "score"), (key) => formatNumber(current.products[key], 4)],
      scoreScale(this.original) === 1 ? null : [app.t("scaled_score", { head_dim }), (key) => formatNumber(current.scaled[key], 4)],
      current.bias ? [app.t("bias"), (key) => formatNumber(current.biased[key], 4)] : null,
      [app.t("after_mask"), (key) => app.t(current.attention_mask[key] ? "allowed" : "masked_out")],
      [app.t("exponential"), (key) => formatNumber(current.attention_mask[key] ? Math.exp(current.biased[key] - maxScore) : 0, 4)],
      [app.t("weight"), (key) => formatNumber(current.weights[key], 4)],
      [app.t("model_weight"), (key) => formatNumber(modelWeights[key], 4)],
    ].filter(Boolean);
    const tableRow = (key) => make("tr", { class: key === this.key ? "chosen" : null },
      make("th", {}, button(readable(this.names.keys[key]) || "∅", () => this.set({ key })), make("small", { class: "note" }, key + 1)),
      ...columns.map(([, cell]) => make("td", { class: "number" }, cell(key))));
    const heading = make("tr", {}, make("th", {}, app.t("key")), ...columns.map(([name]) => make("th", { class: "number" }, name)));
    const table = make("table", { class: "single-head-table" }, heading, ...this.listed.map(tableRow));
    const { products, scaled, biased, attention_mask, weights } = current;
    table.viewData = { keys: this.listed, products, scaled, weights, model: modelWeights };
    const note = count > MAX_KEYS ? make("p", { class: "note" }, app.t("top_keys", { count, shown: MAX_KEYS })) : null;
    const title = app.t("steps", { token: readable(this.names.queries[this.query]) });
    fill(this.steps, make("h2", {}, title), make("div", { class: "scroll" }, table), note);
    const rows = weights.map((weight, key) =>
      [this.names.keys[key], products[key], scaled[key], biased[key], String(attention_mask[key]), weight, modelWeights[key]]);
    const headings = ["key", "score", "scaled_score", "bias", "after_mask", "weight", "model_weight"];
    const columnNames = headings.map((name) => app.t(name, { head_dim }));
    app.addDownload({ key: "steps", name: title, figure: table, table: { columns: columnNames, rows } });
  }

  /** Show the terms of one dot product. */
  showTerms() {
    const { app, head, query, key } = this;
    const terms = dotProductTerms(head, query, key);
    const sum = terms.reduce((one, other) => one + other, 0);
    const rows = this.original.score_function === "additive" ? ["W q", "U k", "v × tanh"] : ["q", "k", "q × k"];
    const values = [...rowOf(head.queries, query), ...rowOf(head.keys, key), ...terms];
    const name = app.t("terms", { token: readable(this.names.queries[query]), key: readable(this.names.keys[key]) });
    const map = this.showMap("terms", null, { name, rows, columns: numberLabels(terms.length), values });
    fill(this.terms, make("h2", {}, name), map.element, make("p", { class: "note" }, app.t("sum", { value: formatNumber(sum, 5) })));
    app.addDownload({ key: "terms", name, figure: map.figure, table: map.table });
  }

  showOutput() {
    const { app, current, original, modelWeights } = this;
    const values = [...current.output, ...weightedSum(original.values, modelWeights)];
    const [rows, columns] = [["computed", "model"].map((name) => app.t(name)), numberLabels(current.output.length)];
    const options = { name: app.t("output"), rows, columns, values };
    const map = this.showMap("output", this.output, options);
    app.addDownload({ name: options.name, figure: map.figure, table: map.table });
  }

  /** Show the weights of all queries; they are computed again only if the arrays change. */
  showAll() {
    const { original } = this;
    const dataKey = JSON.stringify([this.app.state.edits, this.options]);
    if (this.cached?.original === original && this.cached.key === dataKey) return this.maps.all.mark({ row: this.query });
    const weights = attentionMatrix(this.head, this.options);
    this.cached = { original, key: dataKey };
    this.difference = weights.reduce((max, value, index) => Math.max(max, Math.abs(value - original.weights.values[index])), 0);
    const options = { name: this.app.t("all_rows"), rows: this.names.queries, columns: this.names.keys, values: weights, diverging: false };
    const map = this.showMap("all", this.all, options);
    map.mark({ row: this.query });
    return this.app.addDownload({ name: options.name, figure: map.figure, table: map.table });
  }

  showNotes() {
    const { app, original } = this;
    const { scaled, masked, edits } = app.state;
    const isUnchanged = scaled && masked && !parseEdits(original, edits).length;
    const bits = (weights) => formatNumber(entropyAndDistance(weights, 0).bits, 3);
    const texts = [
      app.t(isUnchanged ? "equal" : "differs", { value: formatNumber(this.difference) }),
      app.t("entropy", { current: bits(this.current.weights), model: bits(this.modelWeights) }),
      original.score_function === "scaled-dot" ? null : app.t(original.score_function),
    ];
    fill(this.notes, ...texts.filter(Boolean).map((text) => make("p", { class: "note" }, text)));
    this.notes.dataset.difference = String(this.difference);
  }
}

function numberLabels(count) {
  return Array.from({ length: count }, (_, index) => String(index + 1));
}
