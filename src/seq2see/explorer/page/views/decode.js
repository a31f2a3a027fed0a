/** The view "Decode step by step": the tree of a search, forced tokens, decoding strategies, and exposure bias. */

import { searchCode } from "../code/generation_code.js";
import { dropdown, button, row, slider, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber, formatPercent } from "../parts/number_format.js";
import { inputBox } from "../parts/input_box.js";
import { isSeq2Seq, exampleText, forcedIds } from "../parts/input_form.js";
import { searchTree } from "../parts/search_tree.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./decode_strings.js";
import { ExposureBias } from "./exposure_bias.js";
import { strategyOf, tableOf, StrategyComparison } from "./strategies.js";

const EOS = 2; // the id of <eos> in every vocabulary; it is never forced
const PLAY_INTERVAL = 700; // milliseconds between two steps of the animation

export const view = {
  name: "decode",
  strings,
  state: {
    strategy: "beam", num_beams: 3, length_penalty: "default", alpha: 1, seed: 0, temperature: 1, top_k: 0, top_p: 1,
    max_new_tokens: 24, step: -1, pruned: true, forced: "",
  },

  async show(container, app) {
    const page = new DecodeView(app);
    fill(container, ...page.parts());
    await page.redraw();
  },
};

class DecodeView {
  constructor(app) {
    this.app = app;
    const serial = serialQueue();
    this.redraw = serial(() => this.load());
    this.settings = make("div", { class: "settings" });
    this.strategies = new StrategyComparison(app, serial);
    this.forced = make("div", {});
    this.answer = make("p", { class: "answer" });
    this.tree = make("div", {});
    this.readout = make("p", { class: "note readout", "aria-live": "polite" });
    this.candidates = make("div", { class: "scroll" });
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
    const restart = () => this.restart({});
    return [
      row(...this.input.controls), this.input.element,
      row(
        dropdown(app, "strategy", { name: app.t("strategy"), options: strategies, redraw: restart }),
        this.settings,
        slider(app, "max_new_tokens", { name: app.t("max_new_tokens"), from: 1, to: 100, format: String, redraw: restart }),
      ),
      this.forced, this.answer, this.strategies.element, this.steps, this.tree, this.readout, this.candidates, this.exposureBias.element,
    ];
  }

  /** Draw the settings of the selected strategy. */
  drawSettings() {
    const { app } = this;
    const redraw = () => this.restart({});
    const settingSlider = (key, from, to, step, format = String) =>
      slider(app, key, { name: app.t(key), from, to, step, format, redraw });
    const formatAll = (value) => (value === 0 ? app.t("all") : String(value));
    const penaltyOptions = ["default", "none", "average", "gnmt"].map((name) => [name, app.t(`penalty_${name}`)]);
    const length_penalty = dropdown(app, "length_penalty", { name: app.t("length_penalty"), options: penaltyOptions, redraw });
    const hasAlpha = ["average", "gnmt"].includes(app.state.length_penalty);
    const alpha = hasAlpha ? settingSlider("alpha", -1, 2, 0.1, (value) => value.toFixed(1)) : "";
    fill(this.settings, ...(app.state.strategy === "beam"
      ? [settingSlider("num_beams", 1, 8, 1), length_penalty, alpha]
      : [settingSlider("temperature", 0.05, 2, 0.05, (value) => value.toFixed(2)), settingSlider("top_k", 0, 200, 1, formatAll),
          settingSlider("top_p", 0.01, 1, 0.01, (value) => (value === 1 ? app.t("all") : value.toFixed(2))),
          settingSlider("seed", 0, 99, 1)]));
  }

  /** The fields of the requests of all strategies. */
  baseParams() {
    const { length_penalty, alpha, max_new_tokens } = this.app.state;
    const forced_ids = forcedIds(this.app);
    return { run: this.app.run.id, ...this.input.params(), forced_ids, max_new_tokens, length_penalty, alpha };
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

  /** The number of steps of the search. */
  stepCount() {
    return (this.search.branches.time.at(-1) ?? -1) + 1;
  }

  /** The number of steps that are shown. */
  shownSteps() {
    const { step } = this.app.state;
    return step < 0 ? this.stepCount() : Math.min(step, this.stepCount());
  }

  drawForced() {
    const { app, search } = this;
    const forced = forcedIds(this.app);
    if (!forced.length) return fill(this.forced);
    const strip = tokenStrip({ name: app.t("forced"), tokens: search.prefix_tokens.slice(-forced.length) });
    const truncate = (count) => this.restart({ forced: forced.slice(0, count).join(".") }).catch(app.showError);
    return fill(this.forced, row(make("span", { class: "note" }, app.t("forced")), strip,
      button(app.t("undo"), () => truncate(-1)), button(app.t("clear"), () => truncate(0))));
  }

  drawAnswer() {
    const { app, search } = this;
    const { text, score, log_probability: total, length, finished } = search.answer;
    const table = app.t("numbers", { score: formatNumber(score), total: formatNumber(total), length });
    fill(this.answer, make("strong", {}, text || "∅"), " ", make("span", { class: "note" },
      table, finished ? "" : ` ${app.t("unfinished")}`, search.truncated ? ` ${app.t("truncated")}` : ""));
    this.answer.viewData = search.answer;
  }

  /** The settings of the search; the server may have reduced `max_new_tokens`. */
  get settingsNow() {
    return { ...this.app.state, max_new_tokens: this.search.max_new_tokens };
  }

  drawSteps() {
    const { app } = this;
    const stopAndGo = (step) => () => {
      this.stop();
      this.goTo(step());
    };
    this.play = button(app.t("play"), () => (this.playing ? this.stop() : this.start()));
    const format = (value) => `${value} / ${this.stepCount()}`;
    this.bar = slider(app, "step", { name: app.t("step"), to: this.stepCount(), format, redraw: () => this.draw() });
    this.bar.set(this.shownSteps());
    fill(this.steps, row(
      button(app.t("first"), stopAndGo(() => 0)),
      button(app.t("back"), stopAndGo(() => Math.max(this.shownSteps() - 1, 0))),
      this.play,
      button(app.t("forward"), stopAndGo(() => this.shownSteps() + 1)),
      button(app.t("last"), stopAndGo(() => this.stepCount())),
      this.bar,
      toggle(app, "pruned", { name: app.t("pruned"), redraw: () => this.draw() }),
    ));
  }

  start() {
    if (this.shownSteps() >= this.stepCount()) this.goTo(0);
    this.play.textContent = this.app.t("pause");
    this.playing = setInterval(() => {
      this.goTo(this.shownSteps() + 1);
      if (this.shownSteps() >= this.stepCount()) this.stop();
    }, PLAY_INTERVAL);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = 0;
    if (this.play) this.play.textContent = this.app.t("play");
  }

  goTo(step) {
    this.app.set({ step: step >= this.stepCount() ? -1 : step });
    this.bar.set(this.shownSteps());
    this.draw();
  }

  draw() {
    const { app, search } = this;
    const tree = searchTree({
      name: app.t("tree"),
      branches: search.branches,
      best_path: search.best_path,
      until: this.shownSteps(),
      rootLabel: search.prefix_tokens.at(-1) ?? "∅",
      pruned: app.state.pruned,
      format: (number) => this.nodeNote(number),
      onPick: (number) => this.force(number),
      onPoint: (number) => this.point(number),
    });
    fill(this.tree, tree.element);
    // Scroll to the new step; the complete tree is shown from its start.
    if (app.state.step >= 0) tree.element.scrollLeft = tree.element.scrollWidth;
    this.point(-1);
    this.drawStep();
    const { branches } = search;
    const names = ["parent", "time", "token", "log_probability", "total", "score", "outcome"];
    const rows = branches.time.map((_, number) => [number, ...names.map((each) => branches[each][number])]);
    app.addDownload({ name: app.t("tree"), figure: tree.svg, table: { columns: ["number", ...names], rows } });
  }

  /** The text of a node: its score in beam search, else its probability. */
  nodeNote(number) {
    const { strategy, num_beams: beams } = this.app.state;
    const { score, log_probability: logProbability } = this.search.branches;
    return strategy === "beam" && beams > 1 ? formatNumber(score[number]) : formatPercent(Math.exp(logProbability[number]));
  }

  point(number) {
    const { app, search } = this;
    const { token, log_probability: logProbability, total, score, outcome } = search.branches;
    this.readout.textContent = number < 0 ? app.t("legend") : app.t("node", {
      text: this.path(number).map((each) => token[each]).join(" "), probability: formatPercent(Math.exp(logProbability[number])),
      total: formatNumber(total[number]), score: formatNumber(score[number]), outcome: app.t(`outcome_${outcome[number]}`),
    });
  }

  /** The nodes from the first step to this one. */
  path(number) {
    const { parent } = this.search.branches;
    return number < 0 ? [] : [...this.path(parent[number]), number];
  }

  /** Force all tokens up to a node, and continue the search from there. */
  force(number) {
    const { app, search } = this;
    const ids = this.path(number).map((each) => search.branches.token_id[each]).filter((id) => id !== EOS);
    this.restart({ forced: [...forcedIds(this.app), ...ids].join(".") }).catch(app.showError);
  }

  /** Draw the candidates of the last shown step. */
  drawStep() {
    const { app, search: { branches } } = this;
    const last = this.shownSteps() - 1;
    const numbers = branches.time.map((_, number) => number).filter((number) => branches.time[number] === last);
    const names = ["rank", "continuation", "probability", "total", "score", "outcome"].map((key) => app.t(key));
    const rows = numbers.map((number, index) => [
      index + 1, this.path(number).map((each) => branches.token[each]).slice(-6).join(" "),
      formatPercent(Math.exp(branches.log_probability[number])), formatNumber(branches.total[number]), formatNumber(branches.score[number]),
      app.t(`outcome_${branches.outcome[number]}`),
    ]);
    const rowClasses = numbers.map((number) => `status-${branches.outcome[number]}`);
    const name = app.t("step_candidates", { step: last + 1 });
    const table = tableOf(names, rows, [0, 2, 3, 4], "step-candidates", rowClasses);
    fill(this.candidates, ...(numbers.length ? [make("h2", {}, name), table] : []));
    const exactRow = (row, index) => row.with(2, Math.exp(branches.log_probability[numbers[index]]))
      .with(3, branches.total[numbers[index]]).with(4, branches.score[numbers[index]]);
    app.addDownload({ key: "step-candidates", name, figure: table, table: numbers.length && { columns: names, rows: rows.map(exactRow) } });
  }
}
