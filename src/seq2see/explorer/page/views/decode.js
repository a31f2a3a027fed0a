/** How an answer is made, step by step: a search as a tree, tokens that are forced, and what teacher forcing hides. */

import { searchCode } from "../code/writing.js";
import { choice, press, row, slider, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure, share } from "../parts/figures.js";
import { givenBox } from "../parts/given.js";
import { answers, exampleText, takenTokens } from "../parts/input.js";
import { searchTree } from "../parts/search_tree.js";
import { tokenStrip } from "../parts/strip.js";
import { words } from "./decode_words.js";
import { Exposure } from "./exposure.js";
import { searchBy, tableOf, Ways } from "./ways.js";

const EOS = 2; // the end of an answer, by the number it has in every vocabulary: it is never forced
const PACE = 700; // milliseconds between two steps while it plays

export const view = {
  name: "decode",
  words,
  state: {
    way: "beam", num_beams: 3, penalty: "own", alpha: 1, seed: 0, temperature: 1, top_k: 0, top_p: 1, most: 24,
    step: -1, pruned: true, taken: "",
  },

  async show(place, bench) {
    const page = new Page(bench);
    fill(place, ...page.parts());
    await page.redraw();
  },
};

class Page {
  constructor(bench) {
    this.bench = bench;
    const turn = turns();
    this.redraw = turn(() => this.askAll());
    this.settings = make("div", { class: "settings" });
    this.ways = new Ways(bench, turn);
    this.forced = make("div", {});
    this.answer = make("p", { class: "answer" });
    this.tree = make("div", {});
    this.told = make("p", { class: "note told", "aria-live": "polite" });
    this.choices = make("div", { class: "scroll" });
    const name = bench.word(answers(bench.run) ? "source" : "text");
    this.given = givenBox(bench, { name, usual: exampleText(bench), redraw: () => this.restart({ taken: "" }) });
    this.exposure = new Exposure(bench, this.given);
    this.steps = make("div", {});
    this.playing = 0;
    bench.signal.addEventListener("abort", () => this.stop());
  }

  parts() {
    const { bench } = this;
    const ways = [["beam", bench.word("beam")], ["sample", bench.word("sample")]];
    const change = () => this.restart({});
    return [
      row(...this.given.controls), this.given.element,
      row(
        choice(bench, "way", { name: bench.word("way"), options: ways, redraw: change }),
        this.settings,
        slider(bench, "most", { name: bench.word("most"), from: 1, to: 100, shown: String, redraw: change }),
      ),
      this.forced, this.answer, this.ways.element, this.steps, this.tree, this.told, this.choices, this.exposure.element,
    ];
  }

  /** What only one of the ways has. */
  tellSettings() {
    const { bench } = this;
    const redraw = () => this.restart({});
    const one = (key, from, to, step, shown = String) =>
      slider(bench, key, { name: bench.word(key), from, to, step, shown, redraw });
    const all = (value) => (value === 0 ? bench.word("all") : String(value));
    const penalties = ["own", "none", "average", "gnmt"].map((name) => [name, bench.word(`penalty_${name}`)]);
    const penalty = choice(bench, "penalty", { name: bench.word("penalty"), options: penalties, redraw });
    const strength = ["average", "gnmt"].includes(bench.state.penalty);
    const alpha = strength ? one("alpha", -1, 2, 0.1, (value) => value.toFixed(1)) : "";
    fill(this.settings, ...(bench.state.way === "beam"
      ? [one("num_beams", 1, 8, 1), penalty, alpha]
      : [one("temperature", 0.05, 2, 0.05, (value) => value.toFixed(2)), one("top_k", 0, 200, 1, all),
          one("top_p", 0.01, 1, 0.01, (value) => (value === 1 ? bench.word("all") : value.toFixed(2))), one("seed", 0, 99, 1)]));
  }

  /** What every search begins with and is bound by. */
  from() {
    const { penalty, alpha, most } = this.bench.state;
    return { run: this.bench.run.id, ...this.given.asked(), taken: takenTokens(this.bench), max_new_tokens: most, penalty, alpha };
  }

  asked() {
    const { way, num_beams: beams, seed, temperature, top_k, top_p } = this.bench.state;
    return { ...this.from(), ...(way === "sample" ? { way, seed, temperature, top_k, top_p } : searchBy(beams)) };
  }

  async restart(changes) {
    this.stop();
    this.bench.set({ ...changes, step: -1 });
    await this.redraw();
  }

  async askAll() {
    const shownFor = JSON.stringify([this.bench.state.way, this.bench.state.penalty]);
    if (shownFor !== this.shownFor) this.tellSettings();
    this.shownFor = shownFor;
    this.search = await this.bench.ask("decode/tree", this.asked());
    this.ways.close(this.from(), this.chosen);
    this.tellForced();
    this.tellAnswer();
    this.bench.code({ name: this.bench.word("tree"), python: searchCode(this.bench.run, this.asked(), this.chosen) });
    this.tellSteps();
    this.draw();
    await this.exposure.redraw();
  }

  /** How many turns there were, and how many of them are shown. */
  turns() {
    return (this.search.branches.time.at(-1) ?? -1) + 1;
  }

  shown() {
    const { step } = this.bench.state;
    return step < 0 ? this.turns() : Math.min(step, this.turns());
  }

  tellForced() {
    const { bench, search } = this;
    const taken = takenTokens(this.bench);
    if (!taken.length) return fill(this.forced);
    const strip = tokenStrip({ name: bench.word("forced"), tokens: search.given.slice(-taken.length) });
    const less = (count) => this.restart({ taken: taken.slice(0, count).join(".") }).catch(bench.fail);
    return fill(this.forced, row(make("span", { class: "note" }, bench.word("forced")), strip,
      press(bench.word("undo"), () => less(-1)), press(bench.word("clear"), () => less(0))));
  }

  tellAnswer() {
    const { bench, search } = this;
    const { text, score, log_probability: total, length, finished } = search.answer;
    const told = bench.word("numbers", { score: figure(score), total: figure(total), length });
    fill(this.answer, make("strong", {}, text || "∅"), " ", make("span", { class: "note" },
      told, finished ? "" : ` ${bench.word("unfinished")}`, search.cut ? ` ${bench.word("cut")}` : ""));
    this.answer.shown = search.answer;
  }

  /** What the search was set to; it may be cut off earlier than was wished. */
  get chosen() {
    return { ...this.bench.state, most: this.search.max_new_tokens };
  }

  tellSteps() {
    const { bench } = this;
    const go = (step) => () => {
      this.stop();
      this.goTo(step());
    };
    this.play = press(bench.word("play"), () => (this.playing ? this.stop() : this.start()));
    const shown = (value) => `${value} / ${this.turns()}`;
    this.bar = slider(bench, "step", { name: bench.word("step"), to: this.turns(), shown, redraw: () => this.draw() });
    this.bar.set(this.shown());
    fill(this.steps, row(
      press(bench.word("first"), go(() => 0)),
      press(bench.word("back"), go(() => Math.max(this.shown() - 1, 0))),
      this.play,
      press(bench.word("forward"), go(() => this.shown() + 1)),
      press(bench.word("last"), go(() => this.turns())),
      this.bar,
      toggle(bench, "pruned", { name: bench.word("pruned"), redraw: () => this.draw() }),
    ));
  }

  start() {
    if (this.shown() >= this.turns()) this.goTo(0);
    this.play.textContent = this.bench.word("pause");
    this.playing = setInterval(() => {
      this.goTo(this.shown() + 1);
      if (this.shown() >= this.turns()) this.stop();
    }, PACE);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    if (this.play) this.play.textContent = this.bench.word("play");
  }

  goTo(step) {
    this.bench.set({ step: step >= this.turns() ? -1 : step });
    this.bar.set(this.shown());
    this.draw();
  }

  draw() {
    const { bench, search } = this;
    const tree = searchTree({
      name: bench.word("tree"),
      branches: search.branches,
      winner: search.winner,
      until: this.shown(),
      first: search.given.at(-1) ?? "∅",
      pruned: bench.state.pruned,
      told: (number) => this.small(number),
      onPick: (number) => this.force(number),
      onPoint: (number) => this.point(number),
    });
    fill(this.tree, tree.element);
    // What was just added is looked at; the whole is read from its beginning.
    if (bench.state.step >= 0) tree.element.scrollLeft = tree.element.scrollWidth;
    this.point(-1);
    this.tellTurn();
    const { branches } = search;
    const names = ["parent", "time", "piece", "log_probability", "total", "score", "fate"];
    const rows = branches.time.map((_, number) => [number, ...names.map((each) => branches[each][number])]);
    bench.offer({ name: bench.word("tree"), picture: tree.svg, table: { columns: ["number", ...names], rows } });
  }

  /** Hypotheses that compete are told by their scores, a single one by its chances. */
  small(number) {
    const { way, num_beams: beams } = this.bench.state;
    const { score, log_probability: known } = this.search.branches;
    return way === "beam" && beams > 1 ? figure(score[number]) : share(Math.exp(known[number]));
  }

  point(number) {
    const { bench, search } = this;
    const { piece, log_probability: known, total, score, fate } = search.branches;
    this.told.textContent = number < 0 ? bench.word("legend") : bench.word("pointed", {
      said: this.path(number).map((each) => piece[each]).join(" "), chance: share(Math.exp(known[number])),
      total: figure(total[number]), score: figure(score[number]), fate: bench.word(`fate_${fate[number]}`),
    });
  }

  /** The branches from the first to this one. */
  path(number) {
    const { parent } = this.search.branches;
    return number < 0 ? [] : [...this.path(parent[number]), number];
  }

  /** Take all tokens up to the one that was pressed, and let the search go on from there. */
  force(number) {
    const { bench, search } = this;
    const tokens = this.path(number).map((each) => search.branches.token[each]).filter((token) => token !== EOS);
    this.restart({ taken: [...takenTokens(this.bench), ...tokens].join(".") }).catch(bench.fail);
  }

  /** What the last turn that is shown had to choose from. */
  tellTurn() {
    const { bench, search: { branches } } = this;
    const last = this.shown() - 1;
    const numbers = branches.time.map((_, number) => number).filter((number) => branches.time[number] === last);
    const names = ["rank", "continuation", "chance", "total", "score", "what"].map((key) => bench.word(key));
    const rows = numbers.map((number, place) => [
      place + 1, this.path(number).map((each) => branches.piece[each]).slice(-6).join(" "),
      share(Math.exp(branches.log_probability[number])), figure(branches.total[number]), figure(branches.score[number]),
      bench.word(`fate_${branches.fate[number]}`),
    ]);
    const looks = numbers.map((number) => `fate-${branches.fate[number]}`);
    const name = bench.word("turn", { step: last + 1 });
    const told = tableOf(names, rows, [0, 2, 3, 4], "turn", looks);
    fill(this.choices, ...(numbers.length ? [make("h2", {}, name), told] : []));
    const exact = (row, place) => row.with(2, Math.exp(branches.log_probability[numbers[place]]))
      .with(3, branches.total[numbers[place]]).with(4, branches.score[numbers[place]]);
    bench.offer({ key: "turn", name, picture: told, table: numbers.length && { columns: names, rows: rows.map(exact) } });
  }
}
