/** The view "Attention": thumbnails of all heads, the weights of one head, and the weights of one query in all heads. */

import { alignmentCode, attentionCode, measuresCode } from "../code/trace_code.js";
import { LINE_COLORS } from "../parts/colors.js";
import { dropdown, row, slider, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { robustMax, transpose } from "../parts/heat_paint.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { attentionLines } from "../parts/attention_lines.js";
import { thumbnails } from "../parts/thumbnails.js";
import { markPaired, titleOf, strings } from "./attention_strings.js";
import { TokenDetail, selectedQuery, topKeys } from "./token_detail.js";

const MANY = 40; // tokens; larger maps may need zooming to show their labels
const MAX_TOKENS_ALL_HEADS = 100; // for more tokens only one head is drawn as lines

export const view = {
  name: "attention",
  strings,
  state: {
    layer: -1, head: 0, heads: "one", display: "matrix", hide_special: false, transposed: false, absolute: false, threshold: 0.05,
    query: -1,
  },
  show: (container, app) => new AttentionView(container, app).open(),
};

class AttentionView {
  constructor(container, app) {
    Object.assign(this, { container, app, matrices: new Map(), drawCount: 0, map: null, lines: null });
    for (const name of ["grid", "figure", "notes", "detail", "similarity"]) this[name] = make("div", { class: `attention-${name}` });
    const serial = serialQueue();
    this.redraw = serial(() => this.draw());
    this.repaint = serial(() => this.paint());
    this.redrawRow = serial(() => this.drawRow());
  }

  async open() {
    const { app } = this;
    const onNewInput = async () => {
      const drawCount = (this.drawCount += 1); // stops an older `fillGrid`
      await this.redraw();
      await this.fillGrid(drawCount); // slow, and therefore not in the queue of the other actions
    };
    this.input = inputForm(app, { examples: await examplesOf(app), redraw: onNewInput });
    const options = (names) => names.map((name) => [name, app.t(name)]);
    const { repaint } = this;
    this.controls = row(
      dropdown(app, "heads", { name: app.t("heads"), options: options(["one", "mean", "max", "all"]), redraw: () => this.heads() }),
      dropdown(app, "display", { name: app.t("display"), options: options(["matrix", "lines"]), redraw: repaint }),
      slider(app, "threshold", { name: app.t("threshold"), to: 0.5, step: 0.01, redraw: repaint }),
      toggle(app, "hide_special", { name: app.t("hide_special"), redraw: repaint }),
      toggle(app, "transposed", { name: app.t("transposed"), redraw: repaint }),
      toggle(app, "absolute", { name: app.t("absolute"), redraw: repaint }),
    );
    const columns = [make("div", {}, this.figure, this.notes), make("div", {}, this.detail, this.similarity)];
    const page = make("div", { class: "attention-page" }, ...columns);
    fill(this.container, this.input.element, make("h2", {}, app.t("grid")), this.grid, this.controls, page);
    await onNewInput();
  }

  /** Load the layers for a new input, and draw everything. */
  async draw() {
    const { app } = this;
    const params = this.input.params();
    this.info = await app.fetchJson("attention/layers", params);
    this.params = params;
    this.measured = null;
    this.matrices.clear();
    this.layers = markPaired(this.info.layers).map((layer) => ({ ...layer, title: titleOf(layer, app.t) }));
    if (!this.layers.length) return fill(this.container, this.input.element, make("p", {}, app.t("no_attention")));
    this.thumbnails = thumbnails({
      name: app.t("grid"), layers: this.layers, onPick: (layer, head) => this.pick(layer, head),
      headName: (head) => app.t("head_number", { number: head + 1 }),
    });
    fill(this.grid, this.thumbnails.element);
    await this.paint();
    app.showCode({ name: app.t("table"), python: measuresCode(app.run, params, this.info.grid) });
    app.showCode({ name: app.t("alignment_error"), python: this.info.gold ? alignmentCode(app.run, params) : null });
  }

  /** The selected layer and head: of the link, else the last cross-attention, else the last layer. */
  get selection() {
    const { state } = this.app;
    const lastCross = this.layers.findLastIndex((each) => each.is_cross_attention);
    const fallback = lastCross >= 0 ? lastCross : this.layers.length - 1;
    const layer = state.layer >= 0 && state.layer < this.layers.length ? state.layer : fallback;
    return { layer, head: Math.min(Math.max(state.head, 0), this.layers[layer].heads - 1) };
  }

  pick(layer, head) {
    const heads = this.app.state.heads === "all" ? "all" : "one";
    this.app.set({ layer, head, heads });
    this.controls.children[0].set(heads);
    this.repaint().catch(this.app.showError);
  }

  /** The fusion of heads has changed; all heads at once can only be shown as lines. */
  async heads() {
    if (this.app.state.heads === "all") {
      this.app.set({ display: "lines" });
      this.controls.children[1].set("lines");
    }
    await this.repaint();
  }

  /** Load and draw the thumbnails, layer by layer. */
  async fillGrid(drawCount) {
    const { app, thumbnails: grid, layers, params } = this;
    const measured = [];
    for (let layer = 0; layer < layers.length && drawCount === this.drawCount; layer += 1) {
      const values = await app.fetchArray("attention/thumbnails", { ...params, layer });
      const measures = await app.fetchJson("attention/measures", { ...params, layer });
      measured[layer] = measures;
      grid.show(layer, values, measures.entropy.map((_, head) => this.headNote(measures, head)));
    }
    if (drawCount !== this.drawCount) return;
    this.measured = measured;
    this.drawSimilarity();
    const columns = ["layer", "head", "entropy", "distance", "alignment_error"].map((name) => app.t(name));
    const rows = measured.flatMap((measures, layer) => measures.entropy.map((bits, head) =>
      [this.layers[layer].title, head + 1, bits, measures.distance?.[head] ?? "", measures.alignment_error?.[head] ?? ""]));
    app.addDownload({ name: app.t("table"), figure: grid.element, table: { columns, rows } });
  }

  headName(fused, head) {
    return fused === "one" ? this.app.t("head_number", { number: head + 1 }) : this.app.t(fused);
  }

  headNote(measures, head) {
    const { t } = this.app;
    const notes = [t("note_bits", { value: formatNumber(measures.entropy[head], 2) })];
    if (measures.alignment_error) notes.push(t("note_error", { value: formatNumber(measures.alignment_error[head], 2) }));
    else if (measures.distance) notes.push(t("note_distance", { value: formatNumber(measures.distance[head], 2) }));
    return notes.join(" · ");
  }

  /** The weights of one head, cached. */
  async matrix(layer, head, heads) {
    const key = heads === "one" ? `${layer} ${head}` : `${layer} ${heads}`;
    const params = { ...this.params, layer, head: heads === "one" ? head : 0, heads };
    if (!this.matrices.has(key)) this.matrices.set(key, await this.app.fetchArray("attention/head", params));
    return this.matrices.get(key);
  }

  /** Draw the selected head. */
  async paint() {
    const { app } = this;
    const { state } = app;
    const { layer, head } = this.selection;
    const isSmall = Math.max(...this.layers[layer].map_shape) <= MAX_TOKENS_ALL_HEADS;
    const allHeads = state.heads === "all" && state.display === "lines" && isSmall;
    const heads = allHeads ? Array.from({ length: this.layers[layer].heads }, (_, each) => each) : [head];
    const results = [];
    const fused = allHeads || state.heads === "all" ? "one" : state.heads;
    for (const each of heads) results.push((await this.matrix(layer, each, fused)).values);
    this.thumbnails.choose(layer, fused === "one" && !allHeads ? head : -1);
    this.visible = { ...this.visibleTokens(layer), all: allHeads };
    const sets = results.map((values, index) => {
      const number = allHeads ? index : head;
      return { values: this.crop(values), color: LINE_COLORS[number % LINE_COLORS.length], name: this.headName(fused, number) };
    });
    this.controls.children[2].hidden = state.display !== "lines";
    for (const index of [4, 5]) this.controls.children[index].hidden = state.display === "lines";
    if (state.display === "lines") this.paintLines(sets);
    else this.paintMatrix(sets[0].values);
    this.drawNotes();
    await this.drawRow();
    this.drawSimilarity();
  }

  /** The visible rows and columns: their indices and their tokens. */
  visibleTokens(layer) {
    const { tokens, special } = this.info;
    const { rows, columns } = this.layers[layer];
    const isHidden = (side, index) => this.app.state.hide_special && special[side]?.[index];
    const shownIndices = (side) => tokens[side].map((_, index) => index).filter((index) => !isHidden(side, index));
    const [queryIndices, keyIndices] = [shownIndices(rows), shownIndices(columns)];
    const names = (side, indices) => indices.map((index) => tokens[side][index]);
    const labels = { rows: names(rows, queryIndices), columns: names(columns, keyIndices) };
    return { layer, queryIndices, keyIndices, width: tokens[columns].length, ...labels };
  }

  crop(values) {
    const { queryIndices, keyIndices, width } = this.visible;
    if (keyIndices.length === width && queryIndices.length * width === values.length) return values;
    return Float32Array.from(queryIndices.flatMap((row) => keyIndices.map((column) => values[row * width + column])));
  }

  paintMatrix(values) {
    const { app, visible } = this;
    const transposed = app.state.transposed;
    const options = {
      name: `${app.t("title")}, ${this.layers[visible.layer].title}`,
      rows: transposed ? visible.columns : visible.rows,
      columns: transposed ? visible.rows : visible.columns,
      values: transposed ? transpose(values, visible.rows.length, visible.columns.length) : values,
      max: (this.max = this.colorMax(values)),
      frameOf: this.linkFrame(transposed),
    };
    if (!this.map) {
      const point = (cell) => cell && this.point(app.state.transposed ? cell.column : cell.row);
      this.map = heatMap({ ...options, onPoint: point, onPick: point });
    }
    if (this.map.element.parentElement !== this.figure) fill(this.figure, this.map.element);
    this.map.show(options);
    app.addDownload({ name: app.t("title"), figure: this.map.figure, table: this.map.table });
  }

  /** The value of the strongest color. */
  colorMax(values) {
    if (this.app.state.absolute) return 1;
    const { rows, columns } = this.visible;
    return Math.max(rows.length, columns.length) > MANY ? robustMax(values) : values.reduce((one, other) => Math.max(one, other), 0);
  }

  /** The function `frameOf` for the gold alignment; its links are between words, so all tokens of two words are framed. */
  linkFrame(transposed) {
    const { gold } = this.info;
    const { rows, columns } = this.layers[this.visible.layer];
    if (!gold || rows !== "labels" || columns !== "source") return null;
    const pairs = (links) => links.map(([source, target]) => `${source} ${target}`);
    const [sure, possible] = [new Set(pairs(gold.links)), new Set(pairs(gold.possible))];
    const { queryIndices, keyIndices } = this.visible;
    return (row, column) => {
      const [target, source] = transposed ? [queryIndices[column], keyIndices[row]] : [queryIndices[row], keyIndices[column]];
      const link = `${gold.source_words[source]} ${gold.target_words[target]}`;
      return sure.has(link) ? "sure" : possible.has(link) ? "possible" : null;
    };
  }

  paintLines(sets) {
    const { app, visible } = this;
    const onPoint = (side, index) => side === "left" && index !== null && this.point(index);
    const name = `${app.t("title")}, ${this.layers[visible.layer].title}`;
    const { threshold } = app.state;
    const lines = attentionLines({ name, left: visible.rows, right: visible.columns, sets, threshold, onPoint });
    fill(this.figure, lines.element);
    app.addDownload({ name: app.t("title"), figure: lines.svg, table: lines.table });
  }

  drawNotes() {
    const { app, visible } = this;
    const [rows, columns] = [visible.rows.length, visible.columns.length];
    const notes = [app.t("sizes", { rows, columns })];
    const many = Math.max(rows, columns) > MANY;
    const scale = many && !app.state.absolute ? "color_max_clipped" : "color_max";
    if (app.state.display === "matrix") notes.push(app.t(scale, { value: formatNumber(this.max) }));
    if (app.state.display === "matrix" && many) notes.push(app.t("labels_note"));
    if (this.linkFrame(false)) notes.push(app.t("gold_note"));
    if (app.state.hide_special) notes.push(app.t("hidden_note"));
    fill(this.notes, make("p", { class: "note" }, `${notes.join(" · ")}.`));
  }

  /** Select the query under the pointer; the serial queue skips intermediate ones. */
  point(index) {
    const query = this.visible.queryIndices[index];
    if (query === this.app.state.query) return;
    this.app.set({ query });
    this.redrawRow().catch(this.app.showError);
  }

  /** Draw the weights of one query in every head of the layer. */
  async drawRow() {
    const { app, visible } = this;
    const layer = this.layers[visible.layer];
    const names = this.info.tokens[layer.rows];
    const query = selectedQuery(app.state, this.info.grid || layer.is_cross_attention ? 0 : names.length - 1, names.length);
    const { shape: [heads], values } = await app.fetchArray("attention/row", { ...this.params, layer: visible.layer, row: query });
    const width = values.length / heads;
    const weights = Array.from({ length: heads }, (_, head) => values.subarray(head * width, (head + 1) * width));
    app.showCode({ name: app.t("title"), python: attentionCode(this, query) });
    this.tokenDetail ??= new TokenDetail(this.detail, app);
    const keys = topKeys(weights, visible.keyIndices);
    const columns = keys.map((key) => this.info.tokens[layer.columns][key]);
    const { grid } = this.info;
    this.tokenDetail.show({ layer, query, token: names[query], weights, keys, columns, keyCount: visible.keyIndices.length, grid });
    if (grid && layer.columns === "source") await this.tokenDetail.showImage(this.params, this.fused(weights), grid);
    else fill(this.tokenDetail.patches);
  }

  /** The weights of one query in the selected head, or in all heads, fused. */
  fused(weights) {
    const { heads } = this.app.state;
    if (heads === "one") return Array.from(weights[this.selection.head]);
    const max = (key) => Math.max(...weights.map((row_) => row_[key]));
    const mean = (key) => weights.reduce((sum, row_) => sum + row_[key], 0) / weights.length;
    return Array.from(weights[0], (_, key) => (heads === "max" ? max(key) : mean(key)));
  }

  drawSimilarity() {
    const { layer } = this.selection;
    const measures = this.measured?.[layer];
    if (!measures || measures.similarity.length < 2) return fill(this.similarity);
    const names = measures.similarity.map((_, head) => this.app.t("head_number", { number: head + 1 }));
    const map = heatMap({ name: this.app.t("similarity"), rows: names, columns: names, values: measures.similarity.flat(), max: 1 });
    fill(this.similarity, make("h2", {}, this.app.t("similarity")), map.element);
    this.app.addDownload({ name: this.app.t("similarity"), figure: map.figure, table: map.table });
  }
}
