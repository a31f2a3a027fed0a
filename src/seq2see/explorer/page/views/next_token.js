/** What comes next: candidates with sliders for how one is drawn, and how surprising every token of the text was. */

import { chancesCode, layersCode, surpriseCode } from "../code/writing.js";
import { bars } from "../parts/bars.js";
import { chancesOf } from "../parts/chances.js";
import { LINES, paper } from "../parts/colours.js";
import { choice, press, row, slider, textBox } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure, share } from "../parts/figures.js";
import { givenBox } from "../parts/given.js";
import { answers, exampleText, takenTokens } from "../parts/input.js";
import { tokenStrip } from "../parts/strip.js";
import { words } from "./next_token_words.js";

const LISTED = 200; // candidates that are told one by one
const WHOLE = 10_000_000; // more than any vocabulary has
const BITS = 12; // what the strongest colour of the strip stands for

export const view = {
  name: "next-token",
  words,
  state: {
    place: -1, taken: "", temperature: 1, top_k: 0, top_p: 1, repetition: 1, count: 16, paint: "surprise",
  },

  async show(place, bench) {
    const page = new Page(bench);
    fill(place, ...page.parts());
    await page.redraw();
  },
};

/** Whether the model fills blanks: then every place is asked by itself, and nothing is appended. */
function fills(run) {
  return run.task === "fill";
}

/** Only a stack of blocks can be read layer by layer, and only that of one model alone. */
function hasLayers(run) {
  return run.abilities.includes("attention") && (fills(run) ? run.encoder : run.decoder) === "transformer";
}

class Page {
  constructor(bench) {
    this.bench = bench;
    const turn = turns();
    this.redraw = turn(() => this.askAll());
    this.replace = turn(() => this.askPlace());
    this.repaint = turn(() => this.told && this.drawStrip());
    this.rechance = turn(() => this.tellChances());
    this.strip = make("div", { class: "strip-window" });
    this.expected = make("p", { class: "note told", "aria-live": "polite" });
    this.heading = make("h2", {});
    this.note = make("p", { class: "note" });
    this.chart = make("div", {});
    this.lens = make("div", { class: "scroll lens" });
    this.undo = press(bench.word("undo"), () => this.take(takenTokens(bench).slice(0, -1)).catch(bench.fail));
    this.clear = press(bench.word("clear"), () => this.take([]).catch(bench.fail));
  }

  parts() {
    const { bench } = this;
    const again = () => {
      bench.set({ place: -1, taken: "" });
      return this.redraw();
    };
    const paint = [["surprise", bench.word("surprise")], ["entropy", bench.word("entropy")]];
    const reads = answers(bench.run);
    const name = bench.word(reads ? "source" : fills(bench.run) ? "blanks" : "text");
    this.given = givenBox(bench, { name, usual: exampleText(bench), redraw: again });
    return [
      row(...this.given.controls, reads ? textBox(bench, "target", { name: bench.word("begun"), redraw: again }) : ""),
      this.given.element,
      row(
        choice(bench, "paint", { name: bench.word("paint"), options: paint, redraw: this.repaint }),
        fills(bench.run) ? "" : this.undo, fills(bench.run) ? "" : this.clear,
      ),
      this.strip, this.expected, this.heading, this.sliders(), this.note, this.chart, this.lens,
    ];
  }

  sliders() {
    const { bench } = this;
    const redraw = this.rechance;
    const one = (key, from, to, step, shown) =>
      slider(bench, key, { name: bench.word(key), from, to, step, shown, redraw });
    const all = (value) => (value === 0 ? bench.word("all") : String(value));
    return row(
      one("temperature", 0.05, 2, 0.05, (value) => value.toFixed(2)),
      one("top_k", 0, 200, 1, all),
      one("top_p", 0.01, 1, 0.01, (value) => (value === 1 ? bench.word("all") : value.toFixed(2))),
      fills(bench.run) ? "" : one("repetition", 1, 5, 0.1, (value) => value.toFixed(1)),
      one("count", 5, 60, 1, String),
    );
  }

  asked() {
    const target = answers(this.bench.run) ? this.bench.state.target : "";
    return { run: this.bench.run.id, ...this.given.asked(), target, taken: takenTokens(this.bench) };
  }

  /** One answer for all parts that are needed; see `ToldAsked` of views/next_token.py. */
  ask(parts, { place = this.bench.state.place, most = LISTED } = {}) {
    return this.bench.ask("next-token/told", { ...this.asked(), parts, place, most });
  }

  /** What is told of one place. */
  get here() {
    return hasLayers(this.bench.run) ? ["candidates", "layers"] : ["candidates"];
  }

  /** Another text. Where one of its places is chosen, that is asked for by itself: a saved page has the two apart. */
  async askAll() {
    const { bench } = this;
    const isEnd = bench.state.place < 0;
    const told = await this.ask(isEnd ? ["strip", ...this.here] : ["strip"], { place: -1 });
    const found = isEnd ? told : await this.ask(this.here);
    this.undo.disabled = this.clear.disabled = takenTokens(bench).length === 0;
    this.told = told.strip;
    this.drawStrip();
    await this.drawPlace(found);
  }

  async askPlace() {
    await this.drawPlace(await this.ask(this.here));
  }

  /** Tokens and bars change together: a bar of before, pressed behind a token of now, would do nothing. */
  async drawPlace({ candidates, layers }) {
    const { bench } = this;
    this.candidates = candidates;
    const { place, entropy } = candidates;
    this.drawn.choose(place);
    const before = this.told.pieces.slice(Math.max(place - 8, 0), place).join("");
    this.heading.textContent = bench.word(fills(bench.run) ? "at_place" : place === 0 ? "at_first" : "after", {
      place: place + 1, before, entropy: figure(entropy),
    });
    await this.tellChances();
    if (layers) this.drawLens(layers);
  }

  /** What every layer would say if the model ended there. */
  drawLens({ final, best, chance, entropy }) {
    const { bench } = this;
    const last = best.length - 1;
    const ends = { 0: bench.word("enters"), [last]: bench.word("says_it", { layer: last }) };
    const rowOf = (tokens, layer) => [ends[layer] ?? layer, named(tokens), figure(entropy[layer]), share(chance[layer])];
    const cells = (row) => row.map((cell, column) => make("td", { class: column > 1 ? "number" : null }, cell));
    const head = ["layer", "says", "entropy", "chance_of"].map((key) => make("th", {}, bench.word(key, { final })));
    fill(this.lens, make("h2", {}, bench.word("lens")), make("p", { class: "note" }, bench.word("lens_help")),
      make("table", {}, make("tr", {}, ...head), ...best.map((tokens, layer) => make("tr", {}, ...cells(rowOf(tokens, layer))))));
    this.lens.shown = { final, best, chance, entropy };
    const table = { columns: head.map((each) => each.textContent), rows: best.map((tokens, layer) =>
      [layer, named(tokens), entropy[layer], chance[layer]]) };
    bench.offer({ name: bench.word("lens"), picture: this.lens.querySelector("table"), table });
    bench.code({ name: bench.word("lens"), python: layersCode(bench.run, this.asked(), this.candidates.place) });
  }

  /** The text as tokens; behind them, where something can be appended, a place for the next one. */
  drawStrip() {
    const { bench, told } = this;
    const open = fills(bench.run) ? [] : [{ text: "…", note: bench.word("next") }];
    const tokens = [...told.pieces.map((text, place) => ({ text, note: this.noteAt(place) })), ...open];
    this.drawn = tokenStrip({
      name: bench.word("strip"),
      tokens,
      chosen: this.candidates?.place < tokens.length ? this.candidates.place : -1,
      onPick: (place) => this.goTo(place).catch(bench.fail),
      onPoint: (place) => this.point(place),
    });
    fill(this.strip, this.drawn, told.cut ? make("p", { class: "note" }, bench.word("cut")) : null);
    this.paintStrip();
    const columns = ["token", "surprise", "entropy", "expected"].map((key) => bench.word(key));
    const rows = told.surprise.map((bits, place) =>
      [told.pieces[place], bits, told.entropy[place], named(told.expected[place])]);
    bench.offer({ name: bench.word("strip"), picture: this.drawn, table: { columns, rows } });
    bench.code({ name: bench.word("strip"), python: surpriseCode(bench.run, this.asked(), bench.state.paint) });
  }

  paintStrip() {
    const strength = (bits, place) => (this.isBlank(place) ? 0 : Math.min((bits ?? Infinity) / BITS, 1));
    const values = this.told[this.bench.state.paint].map(strength);
    this.drawn.paint(values.concat(new Array(this.told.pieces.length + 1 - values.length).fill(0)));
    this.point(-1);
  }

  point(place) {
    const { bench, told } = this;
    const known = place >= 0 && place < told.surprise.length;
    this.expected.textContent = known
      ? bench.word("pointed", {
          piece: told.pieces[place], bits: this.noteAt(place, "surprise"), entropy: figure(told.entropy[place]),
          expected: named(told.expected[place]),
        })
      : bench.word("point", { bits: BITS });
  }

  /** A blank is nothing that could surprise anybody; what the model holds for impossible surprises beyond measure. */
  noteAt(place, name = this.bench.state.paint) {
    const bits = this.told[name][place];
    if (this.isBlank(place)) return "?";
    return bits === null ? "∞" : bits === undefined ? "" : figure(bits, 2);
  }

  isBlank(place) {
    return this.told.blanks.includes(place);
  }

  async goTo(place) {
    this.bench.set({ place: place >= this.told.pieces.length ? -1 : place });
    await this.replace();
  }

  /** The chances under the sliders; where these reach beyond the list, the whole vocabulary is asked for. */
  async tellChances() {
    const { bench } = this;
    let found = chancesOf(this.candidates, bench.state);
    if (!found.complete) {
      this.candidates = (await this.ask(["candidates"], { most: WHOLE })).candidates;
      found = chancesOf(this.candidates, bench.state);
    }
    this.drawBars(found);
  }

  drawBars({ chances, others }) {
    const { bench, candidates } = this;
    const order = this.ranked(chances);
    const shown = order.slice(0, bench.state.count);
    const unseen = order.slice(shown.length).reduce((sum, place) => sum + chances[place], others);
    const current = this.told.ids[candidates.place];
    const colourOf = (place) => (chances[place] > 0 ? LINES[candidates.said[place] ? 1 : 0] : paper().line);
    const rest = bench.word("others", { count: this.size() - shown.length });
    const chart = bars({
      name: bench.word("chance"),
      labels: [...shown.map((place) => candidates.pieces[place]), rest],
      values: [...shown.map((place) => chances[place]), unseen],
      told: (chance) => (chance > 0 ? share(chance) : "–"),
      chosen: shown.findIndex((place) => candidates.ids[place] === current),
      colours: [...shown.map(colourOf), LINES[7]],
      onPick: (index) => index < shown.length && this.pick(candidates.ids[shown[index]]).catch(bench.fail),
    });
    fill(this.chart, chart.element);
    const kept = this.kept(chances, others);
    this.note.textContent = bench.word(fills(bench.run) ? "press_fill" : "press_append", { kept });
    const columns = ["token", "id", "log_probability", "chance"].map((key) => bench.word(key));
    const { pieces, ids, scores } = candidates;
    const rows = order.map((place) => [pieces[place], ids[place], scores[place], chances[place]]);
    bench.offer({ name: bench.word("title"), picture: chart.svg, table: { columns, rows } });
    const at = { ...bench.state, place: candidates.place, count: shown.length };
    bench.code({ name: bench.word("title"), python: chancesCode(bench.run, this.asked(), at) });
  }

  /** The most likely first; those that are cut off in the order that they would have. */
  ranked(chances) {
    const { scores, said } = this.candidates;
    const worth = scores.map((score, place) => (said[place] ? score * this.bench.state.repetition : score));
    return chances.map((_, place) => place)
      .sort((one, other) => chances[other] - chances[one] || worth[other] - worth[one]);
  }

  size() {
    return this.candidates.ids.length + this.candidates.rest.count;
  }

  /** How many tokens can be drawn at all. */
  kept(chances, others) {
    return chances.filter((chance) => chance > 0).length + (others > 0 ? this.candidates.rest.count : 0);
  }

  /** A candidate that was pressed: appended at the end, or put in its place in the text. */
  async pick(id) {
    const { bench, told } = this;
    const place = this.candidates.place;
    if (!fills(bench.run) && place === told.ids.length) return this.take([...takenTokens(this.bench), id]);
    const ids = fills(bench.run) ? told.ids.with(place, id) : [...told.ids.slice(0, place), id];
    const { text } = await bench.ask("next-token/text", { run: bench.run.id, ids });
    const key = answers(bench.run) ? "target" : "text";
    bench.set({ [key]: text, taken: "", place: fills(bench.run) ? place : -1 });
    this.rewrite(key, text);
    return this.redraw();
  }

  /** The text box shows what was put into the text. */
  rewrite(key, text) {
    this.strip.parentElement?.querySelector(`#control-${key}`)?.closest(".control").set(text);
  }

  async take(ids) {
    this.bench.set({ taken: ids.join("."), place: -1 });
    await this.redraw();
  }
}

function named(expected) {
  return expected.map(({ piece, probability }) => `${piece} ${share(probability)}`).join(" · ");
}
