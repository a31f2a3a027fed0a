/** Pictures: patches and where they look, what reached the answer, and what becomes of it when patches change. */

import { heatCode, regionCode, saysCode } from "../code/pictures.js";
import { bars } from "../parts/bars.js";
import { choice, press, row, slider, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { drawingBoard } from "../parts/drawing.js";
import { fileBox, isKept, keepOwn } from "../parts/file_box.js";
import { share } from "../parts/figures.js";
import { meanRow, rowOf } from "../parts/head_math.js";
import { patchPicture } from "../parts/picture.js";
import { shuffled } from "../parts/reorder.js";
import { tokenStrip } from "../parts/strip.js";
import { words } from "./vit_words.js";

const LONG = 900; // pixels of a film, whose frames lie side by side
const NOBODY = -1; // no patch is chosen: the class token asks, or all patches on average

export const view = {
  name: "vit",
  words,
  state: { shows: "attention", layer: -1, head: -1, query: NOBODY, fusion: "mean", discard: 0, cover: "",
    order: "", off: false },
  show: (place, bench) => new Pictures(place, bench).open(),
};

class Pictures {
  constructor(place, bench) {
    const film = bench.run.abilities.includes("films");
    Object.assign(this, { place, bench, film, pointed: NOBODY, word: NOBODY });
    this.picture = patchPicture({
      name: bench.word("title"),
      side: film ? LONG : undefined,
      onPoint: (patch) => this.point(patch),
      onPick: (patch) => this.coverOrNot(patch),
      onMove: (from, to) => this.swap(from, to),
    });
    this.told = make("p", { class: "picture-told" });
    this.answers = make("div", { class: "picture-answers" });
    this.about = make("p", { class: "note" });
    this.board = make("div", { on: { keydown: (event) => event.key === "Escape" && this.openBoard().focus() } });
    this.drawn = press(bench.word("draw"), () => this.openBoard());
    const turn = turns();
    this.redraw = turn(() => this.draw());
    this.refresh = turn(() => this.afresh());
    this.region = turn(() => this.regionOf());
  }

  async open() {
    const { bench } = this;
    this.seen = await bench.ask("vit/see", this.asked({ order: [], cover: [] }));
    const { seen } = this;
    this.ways = make("div", { class: "controls" });
    this.controls = this.choices();
    const left = make("div", {}, this.told, this.picture.element, this.about);
    const page = make("div", { class: this.film ? "" : "picture-page" }, left, this.answers);
    fill(this.place, this.sources(), this.board, this.ways, this.changes(), page);
    if (!seen.layers && !this.film) this.place.prepend(make("p", { class: "note" }, bench.word("no_attention")));
    await this.redraw();
  }

  /** Where a picture comes from: the run's own test pictures, a file, or the board. */
  sources() {
    const { bench, seen } = this;
    const shown = (value) => `${value + 1} / ${seen.count}`;
    const numbers = { name: bench.word(this.film ? "film" : "picture"), to: seen.count - 1, shown, redraw: () => this.another() };
    const own = fileBox(bench, () => this.own());
    return row(seen.count ? slider(bench, "number", numbers) : null, own, this.film ? null : this.drawn);
  }

  /** What can be done to a picture. */
  changes() {
    const { bench, seen } = this;
    return row(
      press(bench.word(this.film ? "shuffle_frames" : "shuffle"), () => this.shuffle()),
      press(bench.word("back"), () => this.change({ order: "" })),
      press(bench.word("uncover"), () => this.change({ cover: "" })),
      seen.positions === "none" ? null : toggle(bench, "off", { name: bench.word("off"), redraw: this.redraw }),
    );
  }

  /** What is shown over it; `afresh` lays out those that the choice needs. */
  choices() {
    const { bench, seen, refresh: redraw } = this;
    const told = seen.positions === "none" ? [] : ["position"];
    const shows = [...(seen.layers ? ["attention", "rollout"] : []), ...told, "bare"];
    if (!shows.includes(bench.state.shows)) bench.set({ shows: shows[0] });
    const last = Math.max(seen.layers - 1, 0);
    if (bench.state.layer < 0 || bench.state.layer > last) bench.state.layer = last; // it says most of what was decided
    const named = (names) => names.map((each) => [each, bench.word(each)]);
    const numbered = (count) => Array.from({ length: count }, (_, place) => [place, String(place + 1)]);
    const heads = [[-1, bench.word("mean")], ...numbered(seen.heads)];
    return {
      shows: choice(bench, "shows", { name: bench.word("shows"), options: named(shows), redraw }),
      layer: choice(bench, "layer", { name: bench.word("layer"), options: numbered(seen.layers), redraw }),
      head: choice(bench, "head", { name: bench.word("head"), options: heads, redraw }),
      fusion: choice(bench, "fusion", { name: bench.word("fusion"), options: named(["mean", "min", "max"]), redraw }),
      discard: slider(bench, "discard", { name: bench.word("discard"), to: 0.95, step: 0.05, shown: share, redraw }),
    };
  }

  /** What every question says of the picture. */
  asked(more = {}) {
    const { state, run } = this.bench;
    return { run: run.id, ...(state.pixels ? { pixels: state.pixels } : { number: state.number }), order: listOf(state.order),
      cover: listOf(state.cover), ...more };
  }

  /** The same of what the model makes of it, which may be told nothing of places. */
  placed(more = {}) {
    return this.asked({ positions: this.bench.state.off ? "off" : "told", ...more });
  }

  /** Ask for everything anew: another picture, or other patches. */
  async draw() {
    const { bench } = this;
    const changed = Boolean(bench.state.order || bench.state.cover || bench.state.off);
    const bare = this.asked({ order: [], cover: [] });
    const [seen, pixels, plain, other] = [
      await bench.ask("vit/see", bare), await bench.numbers("vit/picture", this.asked()),
      await bench.ask("vit/say", { ...bare, positions: "told" }),
      changed ? await bench.ask("vit/say", this.placed()) : null,
    ];
    Object.assign(this.seen, seen);
    Object.assign(this, { said: other ?? plain, word: NOBODY, regions: null });
    this.picture.show({ pixels, grid: seen.grid, heat: null, covered: listOf(bench.state.cover) });
    this.about.textContent = this.known(seen);
    this.tell(plain, other);
    bench.code({ name: bench.word("says"), python: saysCode(this) });
    await this.afresh();
  }

  /** What is known of the picture itself. */
  known({ name, truth }) {
    const { word, state: { pixels } } = this.bench;
    if (truth) return `${word("name")}: ${name} · ${word("truth")}: ${truth}`;
    return [word(this.film ? "own_film" : "own"), isKept(pixels) ? "" : word("not_kept")].filter(Boolean).join(" · ");
  }

  /** The maps of this layer or rollout, and what is asked of them now. */
  async afresh() {
    const { state } = this.bench;
    const { shows, layer, head, fusion, discard } = this.controls;
    const needed = { attention: [shows, layer, head], rollout: [shows, fusion, discard] }[state.shows] ?? [shows];
    fill(this.ways, ...(this.film ? [] : needed)); // of a film there is one thing to show
    this.maps = await this.mapsOf(state);
    if (!this.maps) this.bench.code({ name: this.bench.word("title"), python: null });
    this.paint();
  }

  mapsOf({ shows, layer, head, fusion, discard }) {
    if (shows === "attention") return this.bench.numbers("vit/look", this.placed({ layer, head }));
    if (shows === "rollout") return this.bench.numbers("vit/rollout", this.placed({ fusion, discard }));
    return shows === "position" ? this.bench.numbers("vit/similar", { run: this.bench.run.id }) : null;
  }

  /** Show over the picture where somebody looks: a word of the caption, the patch that is pointed at, or the class token. */
  paint() {
    const { bench } = this;
    const { heat, told } = this.word >= 0 && this.regions ? this.ofWord() : this.maps ? this.ofPatch() : { heat: null, told: "" };
    this.told.textContent = told;
    this.picture.show({ heat, chosen: this.word >= 0 ? NOBODY : bench.state.query });
    if (this.word >= 0) bench.code({ name: bench.word("regions"), python: this.codeOf(this.word) });
    bench.offer({ name: bench.word("title"), picture: this.picture.picture, table: this.picture.table });
  }

  ofWord() {
    const told = this.bench.word("word_looks", { word: this.said.pieces[this.word].text });
    return { heat: rowOf(this.regions, this.word).slice(-this.picture.patches), told };
  }

  /** One row of the maps; what stands in front of the patches (the class token) has the first rows and columns. */
  ofPatch() {
    const { bench, maps } = this;
    const { patches } = this.picture;
    const front = maps.shape[0] - patches;
    const middle = bench.state.shows === "position" ? Math.floor(patches / 2) : NOBODY; // without a class token to ask
    const asking = this.pointed >= 0 ? this.pointed : bench.state.query >= 0 ? bench.state.query : middle;
    const across = this.seen.grid[1];
    const place = `${Math.floor(asking / across) + 1},${(asking % across) + 1}`;
    const who = asking >= 0 ? bench.word("patch", { place }) : bench.word(front ? "class" : "every");
    const told = {
      attention: bench.word(asking >= 0 ? "pointed" : front ? "of_class" : "of_every", { place }),
      rollout: bench.word("reaches", { who }),
      position: bench.word("like", { place }),
    };
    const row = asking >= 0 ? rowOf(maps, front + asking) : front ? rowOf(maps, 0) : meanRow(maps);
    bench.code({ name: bench.word("title"), python: heatCode(this, { asking, front, across, patches }) });
    return { heat: row.slice(front), told: told[bench.state.shows] };
  }

  point(patch) {
    this.pointed = patch;
    if (this.maps) this.paint();
  }

  /** What the model says, of the picture as it is and as it was changed. */
  tell(plain, other) {
    const { bench } = this;
    const parts = [make("h2", {}, bench.word("says"))];
    for (const [name, said] of [["as_it_is", plain], ["changed", other]]) {
      if (!said) continue;
      parts.push(make("h3", {}, bench.word(name)), make("p", { class: "picture-said", "data-said": name }, said.text));
      if (said.answers.length) {
        const chart = bars({ name: bench.word(name), labels: said.answers.map((each) => each.text),
          values: said.answers.map((each) => each.probability), most: 1, told: share, narrow: true });
        parts.push(chart.element);
        bench.offer({ key: name, name: `${bench.word("says")} (${bench.word(name)})`, picture: chart.svg, table: chart.table });
      }
    }
    if (!other) bench.offer({ key: "changed" });
    if (!other) parts.push(make("p", { class: "note" }, bench.word(this.film ? "unchanged_film" : "unchanged")));
    if (this.seen.writes && bench.run.abilities.includes("attention"))
      parts.push(make("p", { class: "note" }, bench.word("caption")), this.captionStrip(other ?? plain));
    fill(this.answers, ...parts);
  }

  captionStrip(said) {
    const name = this.bench.word("caption");
    const strip = tokenStrip({ name, tokens: said.pieces.map((each) => ({ text: each.text, note: share(each.probability) })),
      onPoint: (word) => {
        this.word = word;
        this.tried(this.region);
      } });
    const rows = said.pieces.map(({ text, probability }) => [text, probability]);
    this.bench.offer({ name, picture: strip, table: { columns: [name, "p"], rows } });
    this.bench.code({ name: this.bench.word("regions"), python: said.pieces.length ? this.codeOf(0) : null });
    return strip;
  }

  /** The code for where the model looked when it wrote a word. */
  codeOf(word) {
    return regionCode(this, { word, patches: this.picture.patches });
  }

  async regionOf() {
    if (this.word >= 0) this.regions ??= await this.bench.numbers("vit/regions", this.placed({ target: this.said.text }));
    this.paint();
  }

  coverOrNot(patch) {
    const covered = listOf(this.bench.state.cover);
    const without = covered.filter((each) => each !== patch);
    this.change({ cover: (without.length < covered.length ? without : [...covered, patch].sort((one, other) => one - other)).join(".") });
  }

  swap(from, to) {
    const order = this.orderNow();
    [order[from], order[to]] = [order[to], order[from]];
    this.change({ order: order.every((patch, place) => patch === place) ? "" : order.join(".") });
  }

  shuffle() {
    this.change({ order: shuffled(this.orderNow()).join(".") });
  }

  orderNow() {
    const order = listOf(this.bench.state.order);
    return order.length ? order : Array.from({ length: this.picture.patches }, (_, place) => place);
  }

  async change(changes) {
    this.bench.set(changes);
    await this.tried(this.redraw);
  }

  /** Another test picture: what was changed in the last one is undone. */
  another() {
    this.bench.set({ pixels: "", order: "", cover: "" });
    return this.redraw();
  }

  /** A picture or a film that no number names. */
  async own() {
    this.bench.set({ order: "", cover: "" });
    await this.tried(this.redraw);
  }

  /** Open the board, or close it; gives the button that does. */
  openBoard() {
    if (this.board.hasChildNodes()) return fill(this.board) && this.drawn;
    const { side, channels } = this.seen;
    const board = drawingBoard({ side, channels, words: this.bench.word, onDrawn: (pixels) => {
      keepOwn(this.bench, pixels);
      this.own();
    } });
    board.take(this.picture.given.pixels);
    fill(this.board, board.element);
    return this.drawn;
  }

  /** What goes wrong is told where the view stands. */
  tried(act) {
    return act().catch(this.bench.fail);
  }
}

function listOf(text) {
  return text ? text.split(".").map(Number) : [];
}
