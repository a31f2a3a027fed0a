/** How an answer is made, step by step: a search as a tree, tokens that are forced, and what teacher forcing hides. */

import { searchCode } from "../code/generation_code.js";
import { dropdown, button, row, slider, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { formatNumber, formatPercent } from "../parts/number_format.js";
import { inputBox } from "../parts/input_box.js";
import { isSeq2Seq, exampleText, forcedIds } from "../parts/input_form.js";
import { searchTree } from "../parts/search_tree.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./decode_strings.js";
import { ExposureBias } from "./exposure_bias.js";
import { strategyOf, tableOf, StrategyComparison } from "./strategies.js";

const EOS = 2; // the end of an answer, by the number it has in every vocabulary: it is never forced
const PLAY_INTERVAL = 700; // milliseconds between two steps while it plays

export const view = {
  name: "decode",
  strings,
  state: {
    strategy: "beam", num_beams: 3, length_penalty: "own", alpha: 1, seed: 0, temperature: 1, top_k: 0, top_p: 1, max_new_tokens: 24,
    step: -1, pruned: true, forced: "",
  },

  async show(place, app) {
    const page = new DecodeView(app);
    fill(place, ...page.parts());
    await page.redraw();
  },
};

class DecodeView {
  constructor(app) {
    this.app = app;
    const serial = turns();
    this.redraw = serial(() => this.load());
    this.settings = make("div", { class: "settings" });
    this.strategies = new StrategyComparison(app, serial);
    this.forced = make("div", {});
    this.answer = make("p", { class: "answer" });
    this.tree = make("div", {});
    this.readout = make("p", { class: "note told", "aria-live": "polite" });
    this.choices = make("div", { class: "scroll" });
    const name = app.t(isSeq2Seq(app.run) ? "source" : "text");
    this.input = inputBox(app, { name, defaultText: exampleText(app), redraw: () => this.restart({ forced: "" }) });
    this.exposureBias = new ExposureBias(app, this.input);
    this.steps = make("div", {});
    this.playing = 0;
    app.signal.addEventListener("abort", () => this.stop());
  }

  parts() {
    const { app } = this;
    const strategies = [["beam", app.t("beam")], ["sample", app.t("sample")]];
    const change = () => this.restart({});
    return [
      row(...this.input.controls), this.input.element,
      row(
        dropdown(app, "strategy", { name: app.t("strategy"), options: strategies, redraw: change }),
        this.settings,
        slider(app, "max_new_tokens", { name: app.t("max_new_tokens"), baseParams: 1, to: 100, viewData: String, redraw: change }),
      ),
      this.forced, this.answer, this.strategies.element, this.steps, this.tree, this.readout, this.choices, this.exposureBias.element,
    ];
  }

  /** What only one of the ways has. */
  drawSettings() {
    const { app } = this;
    const redraw = () => this.restart({});
    const one = (key, baseParams, to, step, viewData = String) =>
      slider(app, key, { name: app.t(key), baseParams, to, step, viewData, redraw });
    const all = (value) => (value === 0 ? app.t("all") : String(value));
    const penalties = ["own", "none", "average", "gnmt"].map((name) => [name, app.t(`penalty_${name}`)]);
    const length_penalty = dropdown(app, "length_penalty", { name: app.t("length_penalty"), options: penalties, redraw });
    const strength = ["average", "gnmt"].includes(app.state.length_penalty);
    const alpha = strength ? one("alpha", -1, 2, 0.1, (value) => value.toFixed(1)) : "";
    fill(this.settings, ...(app.state.strategy === "beam"
      ? [one("num_beams", 1, 8, 1), length_penalty, alpha]
      : [one("temperature", 0.05, 2, 0.05, (value) => value.toFixed(2)), one("top_k", 0, 200, 1, all),
          one("top_p", 0.01, 1, 0.01, (value) => (value === 1 ? app.t("all") : value.toFixed(2))), one("seed", 0, 99, 1)]));
  }

  /** What every search begins with and is bound by. */
  baseParams() {
    const { length_penalty, alpha, max_new_tokens } = this.app.state;
    return { run: this.app.run.id, ...this.input.params(), forced: forcedIds(this.app), max_new_tokens: max_new_tokens, length_penalty, alpha };
  }

  params() {
    const { strategy, num_beams: beams, seed, temperature, top_k, top_p } = this.app.state;
    return { ...this.baseParams(), ...(strategy === "sample" ? { strategy, seed, temperature, top_k, top_p } : strategyOf(beams)) };
  }

  async restart(changes) {
    this.stop();
    this.app.set({ ...changes, step: -1 });
    await this.redraw();
  }

  async load() {
    const shownFor = JSON.stringify([this.app.state.strategy, this.app.state.length_penalty]);
    if (shownFor !== this.shownFor) this.drawSettings();
    this.shownFor = shownFor;
    this.search = await this.app.fetchJson("decode/search-tree", this.params());
    this.strategies.reset(this.baseParams(), this.settingsNow);
    this.drawForced();
    this.drawAnswer();
    this.app.showCode({ name: this.app.t("tree"), python: searchCode(this.app.run, this.params(), this.settingsNow) });
    this.drawSteps();
    this.draw();
    await this.exposureBias.redraw();
  }

  /** How many turns there were, and how many of them are shown. */
  turns() {
    return (this.search.branches.time.at(-1) ?? -1) + 1;
  }

  viewData() {
    const { step } = this.app.state;
    return step < 0 ? this.turns() : Math.min(step, this.turns());
  }

  drawForced() {
    const { app, search } = this;
    const forced = forcedIds(this.app);
    if (!forced.length) return fill(this.forced);
    const strip = tokenStrip({ name: app.t("forced"), tokens: search.input.slice(-forced.length) });
    const less = (count) => this.restart({ forced: forced.slice(0, count).join(".") }).catch(app.showError);
    return fill(this.forced, row(make("span", { class: "note" }, app.t("forced")), strip,
      button(app.t("undo"), () => less(-1)), button(app.t("clear"), () => less(0))));
  }

  drawAnswer() {
    const { app, search } = this;
    const { text, score, log_probability: total, length, finished } = search.answer;
    const readout = app.t("numbers", { score: formatNumber(score), total: formatNumber(total), length });
    fill(this.answer, make("strong", {}, text || "∅"), " ", make("span", { class: "note" },
      readout, finished ? "" : ` ${app.t("unfinished")}`, search.truncated ? ` ${app.t("truncated")}` : ""));
    this.answer.viewData = search.answer;
  }

  /** What the search was set to; it may be cut off earlier than was wished. */
  get settingsNow() {
    return { ...this.app.state, max_new_tokens: this.search.max_new_tokens };
  }

  drawSteps() {
    const { app } = this;
    const go = (step) => () => {
      this.stop();
      this.goTo(step());
    };
    this.play = button(app.t("play"), () => (this.playing ? this.stop() : this.start()));
    const viewData = (value) => `${value} / ${this.turns()}`;
    this.bar = slider(app, "step", { name: app.t("step"), to: this.turns(), viewData, redraw: () => this.draw() });
    this.bar.set(this.viewData());
    fill(this.steps, row(
      button(app.t("first"), go(() => 0)),
      button(app.t("back"), go(() => Math.max(this.viewData() - 1, 0))),
      this.play,
      button(app.t("forward"), go(() => this.viewData() + 1)),
      button(app.t("last"), go(() => this.turns())),
      this.bar,
      toggle(app, "pruned", { name: app.t("pruned"), redraw: () => this.draw() }),
    ));
  }

  start() {
    if (this.viewData() >= this.turns()) this.goTo(0);
    this.play.textContent = this.app.t("pause");
    this.playing = setInterval(() => {
      this.goTo(this.viewData() + 1);
      if (this.viewData() >= this.turns()) this.stop();
    }, PLAY_INTERVAL);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    if (this.play) this.play.textContent = this.app.t("play");
  }

  goTo(step) {
    this.app.set({ step: step >= this.turns() ? -1 : step });
    this.bar.set(this.viewData());
    this.draw();
  }

  draw() {
    const { app, search } = this;
    const tree = searchTree({
      name: app.t("tree"),
      branches: search.branches,
      best_path: search.best_path,
      until: this.viewData(),
      first: search.input.at(-1) ?? "∅",
      pruned: app.state.pruned,
      readout: (number) => this.nodeNote(number),
      onPick: (number) => this.force(number),
      onPoint: (number) => this.point(number),
    });
    fill(this.tree, tree.element);
    // What was just added is looked at; the whole is read from its beginning.
    if (app.state.step >= 0) tree.element.scrollLeft = tree.element.scrollWidth;
    this.point(-1);
    this.drawStep();
    const { branches } = search;
    const names = ["parent", "time", "token", "log_probability", "total", "score", "outcome"];
    const rows = branches.time.map((_, number) => [number, ...names.map((each) => branches[each][number])]);
    app.addDownload({ name: app.t("tree"), figure: tree.svg, table: { columns: ["number", ...names], rows } });
  }

  /** Hypotheses that compete are told by their scores, a single one by its chances. */
  nodeNote(number) {
    const { strategy, num_beams: beams } = this.app.state;
    const { score, log_probability: known } = this.search.branches;
    return strategy === "beam" && beams > 1 ? formatNumber(score[number]) : formatPercent(Math.exp(known[number]));
  }

  point(number) {
    const { app, search } = this;
    const { token, log_probability: known, total, score, outcome } = search.branches;
    this.readout.textContent = number < 0 ? app.t("legend") : app.t("pointed", {
      said: this.path(number).map((each) => token[each]).join(" "), chance: formatPercent(Math.exp(known[number])),
      total: formatNumber(total[number]), score: formatNumber(score[number]), outcome: app.t(`fate_${outcome[number]}`),
    });
  }

  /** The branches from the first to this one. */
  path(number) {
    const { parent } = this.search.branches;
    return number < 0 ? [] : [...this.path(parent[number]), number];
  }

  /** Take all tokens up to the one that was pressed, and let the search go on from there. */
  force(number) {
    const { app, search } = this;
    const tokens = this.path(number).map((each) => search.branches.token[each]).filter((token) => token !== EOS);
    this.restart({ forced: [...forcedIds(this.app), ...tokens].join(".") }).catch(app.showError);
  }

  /** What the last turn that is shown had to choose from. */
  drawStep() {
    const { app, search: { branches } } = this;
    const last = this.viewData() - 1;
    const numbers = branches.time.map((_, number) => number).filter((number) => branches.time[number] === last);
    const names = ["rank", "continuation", "chance", "total", "score", "outcome"].map((key) => app.t(key));
    const rows = numbers.map((number, place) => [
      place + 1, this.path(number).map((each) => branches.token[each]).slice(-6).join(" "),
      formatPercent(Math.exp(branches.log_probability[number])), formatNumber(branches.total[number]), formatNumber(branches.score[number]),
      app.t(`fate_${branches.outcome[number]}`),
    ]);
    const attributes = numbers.map((number) => `fate-${branches.outcome[number]}`);
    const name = app.t("serial", { step: last + 1 });
    const readout = tableOf(names, rows, [0, 2, 3, 4], "serial", attributes);
    fill(this.choices, ...(numbers.length ? [make("h2", {}, name), readout] : []));
    const exact = (row, place) => row.with(2, Math.exp(branches.log_probability[numbers[place]]))
      .with(3, branches.total[numbers[place]]).with(4, branches.score[numbers[place]]);
    app.addDownload({ key: "serial", name, figure: readout, table: numbers.length && { columns: names, rows: rows.map(exact) } });
  }
}
