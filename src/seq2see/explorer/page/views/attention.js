/** Where a model looks: every head of every layer small, one of them large, and one token by all heads. */

import { alignmentCode, attentionCode, measuresCode } from "../code/inside.js";
import { LINES } from "../parts/colours.js";
import { choice, row, slider, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { mostOf, transposed } from "../parts/heat_paint.js";
import { examplesOf, inputBoxes } from "../parts/input.js";
import { looks } from "../parts/looks.js";
import { thumbnails } from "../parts/thumbnails.js";
import { paired, titleOf, words } from "./attention_words.js";
import { OneToken, queryOf, strongest } from "./one_token.js";

const MANY = 40; // beyond so many tokens labels may be missing until one zooms
const LONG = 100; // beyond so many tokens all heads at once are no longer fetched for lines

export const view = {
  name: "attention",
  words,
  state: {
    layer: -1, head: 0, heads: "one", shows: "matrix", hide: false, transposed: false, absolute: false, least: 0.05,
    query: -1,
  },
  show: (place, bench) => new Attention(place, bench).open(),
};

class Attention {
  constructor(place, bench) {
    Object.assign(this, { place, bench, matrices: new Map(), turn: 0, map: null, lines: null });
    for (const name of ["grid", "picture", "notes", "detail", "alike"]) this[name] = make("div", { class: `attention-${name}` });
    const turn = turns();
    this.redraw = turn(() => this.draw());
    this.repaint = turn(() => this.paint());
    this.retell = turn(() => this.tellRow());
  }

  async open() {
    const { bench } = this;
    const anew = async () => {
      const turn = (this.turn += 1); // whoever still fills in small pictures stops
      await this.redraw();
      await this.fillGrid(turn); // these may take long, and nothing that is pointed at meanwhile waits for them
    };
    this.input = inputBoxes(bench, { examples: await examplesOf(bench), redraw: anew });
    const options = (names) => names.map((name) => [name, bench.word(name)]);
    const { repaint } = this;
    this.controls = row(
      choice(bench, "heads", { name: bench.word("heads"), options: options(["one", "mean", "max", "all"]), redraw: () => this.heads() }),
      choice(bench, "shows", { name: bench.word("shows"), options: options(["matrix", "lines"]), redraw: repaint }),
      slider(bench, "least", { name: bench.word("least"), to: 0.5, step: 0.01, redraw: repaint }),
      toggle(bench, "hide", { name: bench.word("hide"), redraw: repaint }),
      toggle(bench, "transposed", { name: bench.word("transposed"), redraw: repaint }),
      toggle(bench, "absolute", { name: bench.word("absolute"), redraw: repaint }),
    );
    const halves = [make("div", {}, this.picture, this.notes), make("div", {}, this.detail, this.alike)];
    const page = make("div", { class: "attention-page" }, ...halves);
    fill(this.place, this.input.element, make("h2", {}, bench.word("grid")), this.grid, this.controls, page);
    await anew();
  }

  /** Another text: what there is to see in it, and the head that was chosen. */
  async draw() {
    const { bench } = this;
    const asked = this.input.asked();
    this.about = await bench.ask("attention/layers", asked);
    this.asked = asked;
    this.measured = null;
    this.matrices.clear();
    this.layers = paired(this.about.layers).map((layer) => ({ ...layer, title: titleOf(layer, bench.word) }));
    if (!this.layers.length) return fill(this.place, this.input.element, make("p", {}, bench.word("no_attention")));
    this.small = thumbnails({
      name: bench.word("grid"), layers: this.layers, onPick: (layer, head) => this.pick(layer, head),
      headName: (head) => bench.word("head_number", { number: head + 1 }),
    });
    fill(this.grid, this.small.element);
    await this.paint();
    bench.code({ name: bench.word("table"), python: measuresCode(bench.run, asked, this.about.grid) });
    bench.code({ name: bench.word("alignment_error"), python: this.about.gold ? alignmentCode(bench.run, asked) : null });
  }

  /** The layer of now: as the link says, else the one that shows most: the last that looks at the source, or the last. */
  get place_() {
    const { state } = this.bench;
    const across = this.layers.findLastIndex((layer) => layer.across);
    const layer = state.layer >= 0 && state.layer < this.layers.length ? state.layer : across >= 0 ? across : this.layers.length - 1;
    return { layer, head: Math.min(Math.max(state.head, 0), this.layers[layer].heads - 1) };
  }

  pick(layer, head) {
    const heads = this.bench.state.heads === "all" ? "all" : "one";
    this.bench.set({ layer, head, heads });
    this.controls.children[0].set(heads);
    this.repaint().catch(this.bench.fail);
  }

  /** All heads at once are lines: in a matrix they would cover each other. */
  async heads() {
    if (this.bench.state.heads === "all") {
      this.bench.set({ shows: "lines" });
      this.controls.children[1].set("lines");
    }
    await this.repaint();
  }

  /** All heads, small, one layer after another. */
  async fillGrid(turn) {
    const { bench, small, layers, asked } = this;
    const measured = [];
    for (let layer = 0; layer < layers.length && turn === this.turn; layer += 1) {
      const values = await bench.numbers("attention/thumbnails", { ...asked, layer });
      const told = await bench.ask("attention/measures", { ...asked, layer });
      measured[layer] = told;
      small.show(layer, values, told.entropy.map((_, head) => this.noteOf(told, head)));
    }
    if (turn !== this.turn) return;
    this.measured = measured;
    this.tellAlike();
    const columns = ["layer", "head", "entropy", "distance", "alignment_error"].map((name) => bench.word(name));
    const rows = measured.flatMap((told, layer) => told.entropy.map((bits, head) =>
      [this.layers[layer].title, head + 1, bits, told.distance?.[head] ?? "", told.alignment_error?.[head] ?? ""]));
    bench.offer({ name: bench.word("table"), picture: small.element, table: { columns, rows } });
  }

  headName(fused, head) {
    return fused === "one" ? this.bench.word("head_number", { number: head + 1 }) : this.bench.word(fused);
  }

  noteOf(told, head) {
    const { word } = this.bench;
    const notes = [word("note_bits", { value: figure(told.entropy[head], 2) })];
    if (told.alignment_error) notes.push(word("note_error", { value: figure(told.alignment_error[head], 2) }));
    else if (told.distance) notes.push(word("note_far", { value: figure(told.distance[head], 2) }));
    return notes.join(" · ");
  }

  /** One head's weights, asked for once. */
  async matrix(layer, head, heads) {
    const key = heads === "one" ? `${layer} ${head}` : `${layer} ${heads}`;
    const asked = { ...this.asked, layer, head: heads === "one" ? head : 0, heads };
    if (!this.matrices.has(key)) this.matrices.set(key, await this.bench.numbers("attention/head", asked));
    return this.matrices.get(key);
  }

  /** The chosen head, large. */
  async paint() {
    const { bench } = this;
    const { state } = bench;
    const { layer, head } = this.place_;
    const many = state.heads === "all" && state.shows === "lines" && Math.max(...this.layers[layer].cells) <= LONG;
    const heads = many ? Array.from({ length: this.layers[layer].heads }, (_, each) => each) : [head];
    const found = [];
    const fused = many || state.heads === "all" ? "one" : state.heads;
    for (const each of heads) found.push((await this.matrix(layer, each, fused)).values);
    this.small.choose(layer, fused === "one" && !many ? head : -1);
    this.shown = { ...this.seen(layer), all: many };
    const sets = found.map((values, place) => ({
      values: this.cut(values), colour: LINES[(many ? place : head) % LINES.length], name: this.headName(fused, many ? place : head),
    }));
    this.controls.children[2].hidden = state.shows !== "lines";
    for (const place of [4, 5]) this.controls.children[place].hidden = state.shows === "lines";
    if (state.shows === "lines") this.paintLines(sets);
    else this.paintMatrix(sets[0].values);
    this.tellNotes();
    await this.tellRow();
    this.tellAlike();
  }

  /** Which rows and columns are shown, by their places in the whole, and what they are called. */
  seen(layer) {
    const { tokens, special } = this.about;
    const { rows, columns } = this.layers[layer];
    const kept = (side) => tokens[side].map((_, place) => place).filter((place) => !(this.bench.state.hide && special[side]?.[place]));
    const [down, across] = [kept(rows), kept(columns)];
    const names = (side, places) => places.map((place) => tokens[side][place]);
    return { layer, down, across, width: tokens[columns].length, rows: names(rows, down), columns: names(columns, across) };
  }

  cut(values) {
    const { down, across, width } = this.shown;
    if (across.length === width && down.length * width === values.length) return values;
    return Float32Array.from(down.flatMap((row) => across.map((column) => values[row * width + column])));
  }

  paintMatrix(values) {
    const { bench, shown } = this;
    const turned = bench.state.transposed;
    const given = {
      name: `${bench.word("title")}, ${this.layers[shown.layer].title}`,
      rows: turned ? shown.columns : shown.rows,
      columns: turned ? shown.rows : shown.columns,
      values: turned ? transposed(values, shown.rows.length, shown.columns.length) : values,
      most: (this.strongest = this.most(values)),
      frame: this.framed(turned),
    };
    if (!this.map) {
      const heard = (act) => (cell) => cell && act(bench.state.transposed ? cell.column : cell.row);
      this.map = heatMap({ ...given, onPoint: heard((place) => this.point(place)), onPick: heard((place) => this.point(place)) });
    }
    if (this.map.element.parentElement !== this.picture) fill(this.picture, this.map.element);
    this.map.show(given);
    bench.offer({ name: bench.word("title"), picture: this.map.picture, table: this.map.table });
  }

  /** What the strongest colour stands for. */
  most(values) {
    if (this.bench.state.absolute) return 1;
    const { rows, columns } = this.shown;
    return Math.max(rows.length, columns.length) > MANY ? mostOf(values) : values.reduce((one, other) => Math.max(one, other), 0);
  }

  /** Whether a cell is a link of the true alignment: between words, so all their pieces are framed. */
  framed(turned) {
    const { gold } = this.about;
    const { rows, columns } = this.layers[this.shown.layer];
    if (!gold || rows !== "written" || columns !== "source") return null;
    const named = (links) => links.map(([source, target]) => `${source} ${target}`);
    const [sure, possible] = [new Set(named(gold.links)), new Set(named(gold.possible))];
    const { down, across } = this.shown;
    return (row, column) => {
      const [target, source] = turned ? [down[column], across[row]] : [down[row], across[column]];
      const link = `${gold.source_words[source]} ${gold.target_words[target]}`;
      return sure.has(link) ? "sure" : possible.has(link) ? "possible" : null;
    };
  }

  paintLines(sets) {
    const { bench, shown } = this;
    const heard = (side, place) => side === "left" && place !== null && this.point(place);
    const name = `${bench.word("title")}, ${this.layers[shown.layer].title}`;
    const lines = looks({ name, left: shown.rows, right: shown.columns, sets, least: bench.state.least, onPoint: heard });
    fill(this.picture, lines.element);
    bench.offer({ name: bench.word("title"), picture: lines.svg, table: lines.table });
  }

  tellNotes() {
    const { bench, shown } = this;
    const [rows, columns] = [shown.rows.length, shown.columns.length];
    const notes = [bench.word("sizes", { rows, columns })];
    const many = Math.max(rows, columns) > MANY;
    const darkest = many && !bench.state.absolute ? "darkest_and_more" : "darkest";
    if (bench.state.shows === "matrix") notes.push(bench.word(darkest, { value: figure(this.strongest) }));
    if (bench.state.shows === "matrix" && many) notes.push(bench.word("labels"));
    if (this.framed(false)) notes.push(bench.word("gold"));
    if (bench.state.hide) notes.push(bench.word("hidden"));
    fill(this.notes, make("p", { class: "note" }, `${notes.join(" · ")}.`));
  }

  /** A token was pointed at: what was asked last is answered, not all in between. */
  point(place) {
    const query = this.shown.down[place];
    if (query === this.bench.state.query) return;
    this.bench.set({ query });
    this.retell().catch(this.bench.fail);
  }

  /** Where one token looks, by every head of the layer. */
  async tellRow() {
    const { bench, shown } = this;
    const layer = this.layers[shown.layer];
    const names = this.about.tokens[layer.rows];
    const query = queryOf(bench.state, this.about.grid || layer.across ? 0 : names.length - 1, names.length);
    const { shape: [heads], values } = await bench.numbers("attention/row", { ...this.asked, layer: shown.layer, row: query });
    const width = values.length / heads;
    const weights = Array.from({ length: heads }, (_, head) => values.subarray(head * width, (head + 1) * width));
    bench.code({ name: bench.word("title"), python: attentionCode(this, query) });
    this.token ??= new OneToken(this.detail, bench);
    const keys = strongest(weights, shown.across);
    const columns = keys.map((key) => this.about.tokens[layer.columns][key]);
    const { grid } = this.about;
    this.token.show({ layer, query, token: names[query], weights, keys, columns, of: shown.across.length, grid });
    if (grid && layer.columns === "source") await this.token.showPicture(this.asked, this.fused(weights), grid);
    else fill(this.token.patches);
  }

  /** One token's weights by the head that is chosen, or by all heads as they are fused. */
  fused(weights) {
    const { heads } = this.bench.state;
    if (heads === "one") return Array.from(weights[this.place_.head]);
    const most = (key) => Math.max(...weights.map((row_) => row_[key]));
    const mean = (key) => weights.reduce((sum, row_) => sum + row_[key], 0) / weights.length;
    return Array.from(weights[0], (_, key) => (heads === "max" ? most(key) : mean(key)));
  }

  tellAlike() {
    const { layer } = this.place_;
    const told = this.measured?.[layer];
    if (!told || told.similarity.length < 2) return fill(this.alike);
    const names = told.similarity.map((_, head) => this.bench.word("head_number", { number: head + 1 }));
    const map = heatMap({ name: this.bench.word("alike"), rows: names, columns: names, values: told.similarity.flat(), most: 1 });
    fill(this.alike, make("h2", {}, this.bench.word("alike")), map.element);
    this.bench.offer({ name: this.bench.word("alike"), picture: map.picture, table: map.table });
  }
}
