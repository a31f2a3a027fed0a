/** Where a model looks: every head of every layer small, one of them large, and one token by all heads. */

import { alignmentCode, attentionCode, measuresCode } from "../code/trace_code.js";
import { LINE_COLORS } from "../parts/colors.js";
import { dropdown, row, slider, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { robustMax, transposed } from "../parts/heat_paint.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { attentionLines } from "../parts/attention_lines.js";
import { thumbnails } from "../parts/thumbnails.js";
import { markPaired, titleOf, strings } from "./attention_strings.js";
import { TokenDetail, selectedQuery, topKeys } from "./token_detail.js";

const MANY = 40; // beyond so many tokens labels may be missing until one zooms
const LONG = 100; // beyond so many tokens all heads at once are no longer fetched for lines

export const view = {
  name: "attention",
  strings,
  state: {
    layer: -1, head: 0, heads: "one", shows: "matrix", hide_special: false, transposed: false, absolute: false, threshold: 0.05,
    query: -1,
  },
  show: (place, app) => new AttentionView(place, app).open(),
};

class AttentionView {
  constructor(place, app) {
    Object.assign(this, { place, app, matrices: new Map(), turn: 0, map: null, lines: null });
    for (const name of ["grid", "image", "notes", "detail", "similarity"]) this[name] = make("div", { class: `attention-${name}` });
    const turn = serialQueue();
    this.redraw = turn(() => this.draw());
    this.repaint = turn(() => this.paint());
    this.redrawRow = turn(() => this.drawRow());
  }

  async open() {
    const { app } = this;
    const anew = async () => {
      const turn = (this.turn += 1); // whoever still fills in small images stops
      await this.redraw();
      await this.fillGrid(turn); // these may take long, and nothing that is pointed at meanwhile waits for them
    };
    this.input = inputForm(app, { examples: await examplesOf(app), redraw: anew });
    const options = (names) => names.map((name) => [name, app.t(name)]);
    const { repaint } = this;
    this.controls = row(
      dropdown(app, "heads", { name: app.t("heads"), options: options(["one", "mean", "max", "all"]), redraw: () => this.heads() }),
      dropdown(app, "shows", { name: app.t("shows"), options: options(["matrix", "lines"]), redraw: repaint }),
      slider(app, "threshold", { name: app.t("threshold"), to: 0.5, step: 0.01, redraw: repaint }),
      toggle(app, "hide_special", { name: app.t("hide_special"), redraw: repaint }),
      toggle(app, "transposed", { name: app.t("transposed"), redraw: repaint }),
      toggle(app, "absolute", { name: app.t("absolute"), redraw: repaint }),
    );
    const halves = [make("div", {}, this.figure, this.notes), make("div", {}, this.detail, this.similarity)];
    const page = make("div", { class: "attention-page" }, ...halves);
    fill(this.place, this.input.element, make("h2", {}, app.t("grid")), this.grid, this.controls, page);
    await anew();
  }

  /** Another text: what there is to see in it, and the head that was chosen. */
  async draw() {
    const { app } = this;
    const params = this.input.params();
    this.about = await app.fetchJson("attention/layers", params);
    this.params = params;
    this.measured = null;
    this.matrices.clear();
    this.layers = markPaired(this.about.layers).map((layer) => ({ ...layer, title: titleOf(layer, app.t) }));
    if (!this.layers.length) return fill(this.place, this.input.element, make("p", {}, app.t("no_attention")));
    this.small = thumbnails({
      name: app.t("grid"), layers: this.layers, onPick: (layer, head) => this.pick(layer, head),
      headName: (head) => app.t("head_number", { number: head + 1 }),
    });
    fill(this.grid, this.small.element);
    await this.paint();
    app.showCode({ name: app.t("table"), python: measuresCode(app.run, params, this.about.grid) });
    app.showCode({ name: app.t("alignment_error"), python: this.about.gold ? alignmentCode(app.run, params) : null });
  }

  /** The layer of now: as the link says, else the one that shows most: the last that looks at the source, or the last. */
  get selection() {
    const { state } = this.app;
    const is_cross_attention = this.layers.findLastIndex((layer) => layer.is_cross_attention);
    const layer = state.layer >= 0 && state.layer < this.layers.length ? state.layer : is_cross_attention >= 0 ? is_cross_attention : this.layers.length - 1;
    return { layer, head: Math.min(Math.max(state.head, 0), this.layers[layer].heads - 1) };
  }

  pick(layer, head) {
    const heads = this.app.state.heads === "all" ? "all" : "one";
    this.app.set({ layer, head, heads });
    this.controls.children[0].set(heads);
    this.repaint().catch(this.app.showError);
  }

  /** All heads at once are lines: in a matrix they would cover each other. */
  async heads() {
    if (this.app.state.heads === "all") {
      this.app.set({ shows: "lines" });
      this.controls.children[1].set("lines");
    }
    await this.repaint();
  }

  /** All heads, small, one layer after another. */
  async fillGrid(turn) {
    const { app, small, layers, params } = this;
    const measured = [];
    for (let layer = 0; layer < layers.length && turn === this.turn; layer += 1) {
      const values = await app.fetchArray("attention/thumbnails", { ...params, layer });
      const told = await app.fetchJson("attention/measures", { ...params, layer });
      measured[layer] = told;
      small.show(layer, values, told.entropy.map((_, head) => this.headNote(told, head)));
    }
    if (turn !== this.turn) return;
    this.measured = measured;
    this.drawSimilarity();
    const columns = ["layer", "head", "entropy", "distance", "alignment_error"].map((name) => app.t(name));
    const rows = measured.flatMap((told, layer) => told.entropy.map((bits, head) =>
      [this.layers[layer].title, head + 1, bits, told.distance?.[head] ?? "", told.alignment_error?.[head] ?? ""]));
    app.addDownload({ name: app.t("table"), figure: small.element, table: { columns, rows } });
  }

  headName(fused, head) {
    return fused === "one" ? this.app.t("head_number", { number: head + 1 }) : this.app.t(fused);
  }

  headNote(told, head) {
    const { word } = this.app;
    const notes = [word("note_bits", { value: formatNumber(told.entropy[head], 2) })];
    if (told.alignment_error) notes.push(word("note_error", { value: formatNumber(told.alignment_error[head], 2) }));
    else if (told.distance) notes.push(word("note_distance", { value: formatNumber(told.distance[head], 2) }));
    return notes.join(" · ");
  }

  /** One head's weights, asked for once. */
  async matrix(layer, head, heads) {
    const key = heads === "one" ? `${layer} ${head}` : `${layer} ${heads}`;
    const params = { ...this.params, layer, head: heads === "one" ? head : 0, heads };
    if (!this.matrices.has(key)) this.matrices.set(key, await this.app.fetchArray("attention/head", params));
    return this.matrices.get(key);
  }

  /** The chosen head, large. */
  async paint() {
    const { app } = this;
    const { state } = app;
    const { layer, head } = this.selection;
    const many = state.heads === "all" && state.shows === "lines" && Math.max(...this.layers[layer].map_shape) <= LONG;
    const heads = many ? Array.from({ length: this.layers[layer].heads }, (_, each) => each) : [head];
    const found = [];
    const fused = many || state.heads === "all" ? "one" : state.heads;
    for (const each of heads) found.push((await this.matrix(layer, each, fused)).values);
    this.small.choose(layer, fused === "one" && !many ? head : -1);
    this.visible = { ...this.visibleTokens(layer), all: many };
    const sets = found.map((values, place) => ({
      values: this.crop(values), color: LINE_COLORS[(many ? place : head) % LINE_COLORS.length], name: this.headName(fused, many ? place : head),
    }));
    this.controls.children[2].hidden = state.shows !== "lines";
    for (const place of [4, 5]) this.controls.children[place].hidden = state.shows === "lines";
    if (state.shows === "lines") this.paintLines(sets);
    else this.paintMatrix(sets[0].values);
    this.drawNotes();
    await this.drawRow();
    this.drawSimilarity();
  }

  /** Which rows and columns are shown, by their places in the whole, and what they are called. */
  visibleTokens(layer) {
    const { tokens, special } = this.about;
    const { rows, columns } = this.layers[layer];
    const kept = (side) => tokens[side].map((_, place) => place).filter((place) => !(this.app.state.hide_special && special[side]?.[place]));
    const [down, is_cross_attention] = [kept(rows), kept(columns)];
    const names = (side, places) => places.map((place) => tokens[side][place]);
    return { layer, down, is_cross_attention, width: tokens[columns].length, rows: names(rows, down), columns: names(columns, is_cross_attention) };
  }

  crop(values) {
    const { down, is_cross_attention, width } = this.visible;
    if (is_cross_attention.length === width && down.length * width === values.length) return values;
    return Float32Array.from(down.flatMap((row) => is_cross_attention.map((column) => values[row * width + column])));
  }

  paintMatrix(values) {
    const { app, visible } = this;
    const turned = app.state.transposed;
    const given = {
      name: `${app.t("title")}, ${this.layers[visible.layer].title}`,
      rows: turned ? visible.columns : visible.rows,
      columns: turned ? visible.rows : visible.columns,
      values: turned ? transposed(values, visible.rows.length, visible.columns.length) : values,
      colorMax: (this.topKeys = this.colorMax(values)),
      frameOf: this.linkFrame(turned),
    };
    if (!this.map) {
      const heard = (act) => (cell) => cell && act(app.state.transposed ? cell.column : cell.row);
      this.map = heatMap({ ...given, onPoint: heard((place) => this.point(place)), onPick: heard((place) => this.point(place)) });
    }
    if (this.map.element.parentElement !== this.figure) fill(this.figure, this.map.element);
    this.map.show(given);
    app.addDownload({ name: app.t("title"), figure: this.map.figure, table: this.map.table });
  }

  /** What the strongest color stands for. */
  colorMax(values) {
    if (this.app.state.absolute) return 1;
    const { rows, columns } = this.visible;
    return Math.max(rows.length, columns.length) > MANY ? robustMax(values) : values.reduce((one, other) => Math.max(one, other), 0);
  }

  /** Whether a cell is a link of the true alignment: between words, so all their pieces are framed. */
  linkFrame(turned) {
    const { gold } = this.about;
    const { rows, columns } = this.layers[this.visible.layer];
    if (!gold || rows !== "labels" || columns !== "source") return null;
    const named = (links) => links.map(([source, target]) => `${source} ${target}`);
    const [sure, possible] = [new Set(named(gold.links)), new Set(named(gold.possible))];
    const { down, is_cross_attention } = this.visible;
    return (row, column) => {
      const [target, source] = turned ? [down[column], is_cross_attention[row]] : [down[row], is_cross_attention[column]];
      const link = `${gold.source_words[source]} ${gold.target_words[target]}`;
      return sure.has(link) ? "sure" : possible.has(link) ? "possible" : null;
    };
  }

  paintLines(sets) {
    const { app, visible } = this;
    const heard = (side, place) => side === "left" && place !== null && this.point(place);
    const name = `${app.t("title")}, ${this.layers[visible.layer].title}`;
    const lines = attentionLines({ name, left: visible.rows, right: visible.columns, sets, threshold: app.state.threshold, onPoint: heard });
    fill(this.figure, lines.element);
    app.addDownload({ name: app.t("title"), figure: lines.svg, table: lines.table });
  }

  drawNotes() {
    const { app, visible } = this;
    const [rows, columns] = [visible.rows.length, visible.columns.length];
    const notes = [app.t("sizes", { rows, columns })];
    const many = Math.max(rows, columns) > MANY;
    const darkest = many && !app.state.absolute ? "darkest_and_more" : "darkest";
    if (app.state.shows === "matrix") notes.push(app.t(darkest, { value: formatNumber(this.topKeys) }));
    if (app.state.shows === "matrix" && many) notes.push(app.t("labels"));
    if (this.linkFrame(false)) notes.push(app.t("gold"));
    if (app.state.hide_special) notes.push(app.t("hidden"));
    fill(this.notes, make("p", { class: "note" }, `${notes.join(" · ")}.`));
  }

  /** A token was pointed at: what was asked last is answered, not all in between. */
  point(place) {
    const query = this.visible.down[place];
    if (query === this.app.state.query) return;
    this.app.set({ query });
    this.redrawRow().catch(this.app.showError);
  }

  /** Where one token looks, by every head of the layer. */
  async drawRow() {
    const { app, visible } = this;
    const layer = this.layers[visible.layer];
    const names = this.about.tokens[layer.rows];
    const query = selectedQuery(app.state, this.about.grid || layer.is_cross_attention ? 0 : names.length - 1, names.length);
    const { shape: [heads], values } = await app.fetchArray("attention/row", { ...this.params, layer: visible.layer, row: query });
    const width = values.length / heads;
    const weights = Array.from({ length: heads }, (_, head) => values.subarray(head * width, (head + 1) * width));
    app.showCode({ name: app.t("title"), python: attentionCode(this, query) });
    this.token ??= new TokenDetail(this.detail, app);
    const keys = topKeys(weights, visible.is_cross_attention);
    const columns = keys.map((key) => this.about.tokens[layer.columns][key]);
    const { grid } = this.about;
    this.token.show({ layer, query, token: names[query], weights, keys, columns, of: visible.is_cross_attention.length, grid });
    if (grid && layer.columns === "source") await this.token.showImage(this.params, this.fused(weights), grid);
    else fill(this.token.patches);
  }

  /** One token's weights by the head that is chosen, or by all heads as they are fused. */
  fused(weights) {
    const { heads } = this.app.state;
    if (heads === "one") return Array.from(weights[this.selection.head]);
    const colorMax = (key) => Math.max(...weights.map((row_) => row_[key]));
    const mean = (key) => weights.reduce((sum, row_) => sum + row_[key], 0) / weights.length;
    return Array.from(weights[0], (_, key) => (heads === "max" ? colorMax(key) : mean(key)));
  }

  drawSimilarity() {
    const { layer } = this.selection;
    const told = this.measured?.[layer];
    if (!told || told.similarity.length < 2) return fill(this.similarity);
    const names = told.similarity.map((_, head) => this.app.t("head_number", { number: head + 1 }));
    const map = heatMap({ name: this.app.t("similarity"), rows: names, columns: names, values: told.similarity.flat(), colorMax: 1 });
    fill(this.similarity, make("h2", {}, this.app.t("similarity")), map.element);
    this.app.addDownload({ name: this.app.t("similarity"), figure: map.figure, table: map.table });
  }
}
