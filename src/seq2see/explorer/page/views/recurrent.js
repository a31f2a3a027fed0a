/** The view "Recurrent": hidden states and gates over time, the influence of a token, and context vectors. */

import { contextsCode, influenceCode, statesCode } from "../code/trace_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { dropdown, row, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./recurrent_strings.js";

const INFLUENCE_MEASURES = ["difference", "derivative", "cosine"]; // in the order of the server's response
const SIGNED = new Set(["hidden", "cell", "candidate"]); // gates lie between 0 and 1

export const view = {
  name: "recurrent",
  strings,
  state: { cell: "", signal: "hidden", sort: "number", word: 0, log: false },
  show: (container, app) => new RecurrentView(container, app).open(),
};

class RecurrentView {
  constructor(container, app) {
    Object.assign(this, { container, app });
    this.states = make("section", {});
    this.influence = make("section", {});
    this.contexts = make("section", {});
    const serial = serialQueue();
    this.redraw = serial(() => this.draw());
    this.redrawCell = serial(() => this.drawCell());
    this.redrawStates = serial(() => this.drawStates());
    this.redrawInfluence = serial(() => this.drawInfluence());
  }

  async open() {
    const { app } = this;
    this.controls = make("div", {});
    this.input = inputForm(app, { examples: await examplesOf(app), redraw: this.redraw });
    fill(this.container, this.input.element, this.controls, this.states, this.influence, this.contexts);
    await this.redraw();
  }

  params(fields = {}) {
    return { ...this.input.params(), ...fields };
  }

  async draw() {
    this.info = await this.app.fetchJson("recurrent/cells", this.params());
    await this.drawCell();
    await this.drawContexts();
  }

  /** The selected cell: of the link, or else the first. */
  get cell() {
    return this.info.cells.find((each) => each.name === this.app.state.cell) ?? this.info.cells[0];
  }

  get tokens() {
    return this.info.tokens[this.cell.side];
  }

  /** The suffix of texts for inputs that are not tokens: frames of a video or values of a series. */
  get unit() {
    const { capabilities } = this.app.run;
    return capabilities.includes("series") ? "_value" : capabilities.includes("videos") && this.cell.side === "source" ? "_frame" : "";
  }

  async drawCell() {
    const { app, cell, info } = this;
    if (!cell.signals.includes(app.state.signal)) app.set({ signal: "hidden" });
    if (app.state.word >= this.tokens.length) app.set({ word: 0 });
    const cells = info.cells.map((each) => [each.name, this.cellName(each)]);
    const sorts = ["number", "mean", "change", "peak"].map((each) => [each, app.t(`sort_${each}`)]);
    if (!app.state.cell) app.state.cell = cell.name;
    fill(this.controls, row(
      dropdown(app, "cell", { name: app.t("cell"), options: cells, redraw: this.redrawCell }),
      dropdown(app, "signal", { name: app.t("signal"), options: cell.signals.map((each) => [each, app.t(`signal_${each}`)]),
        redraw: this.redrawStates }),
      dropdown(app, "sort", { name: app.t("sort"), options: sorts, redraw: this.redrawStates })));
    await this.drawStates();
    await this.drawInfluence();
  }

  cellName({ side, layer, direction }) {
    const { app, info } = this;
    const directions = new Set(info.cells.filter((each) => each.side === side).map((each) => each.direction));
    const parts = [app.t(`side_${side}`), `${app.t("layer")} ${layer + 1}`, directions.size > 1 ? app.t(direction) : ""];
    return parts.filter(Boolean).join(" · ");
  }

  async drawStates() {
    const { app, cell } = this;
    const { signal } = app.state;
    const { shape: [times, units], values } = await app.fetchArray("recurrent/states", this.params({ cell: cell.name, signal }));
    const order = unitOrder(values, times, units, app.state.sort);
    const reordered = new Float32Array(times * units);
    order.forEach((unit, index) => {
      for (let time = 0; time < times; time += 1) reordered[index * times + time] = values[time * units + unit];
    });
    const diverging = SIGNED.has(signal);
    const name = `${this.cellName(cell)} · ${app.t(`signal_${signal}`)}`;
    const map = heatMap({ name, rows: order.map((unit) => String(unit + 1)), columns: this.tokens, values: reordered, diverging,
      stretch: true, max: signal === "cell" ? null : 1 });
    map.canvas.dataset.plot = "states";
    fill(this.states, make("h2", {}, name), make("p", { class: "note" }, app.t(`about_${signal}`)), map.element);
    map.layOut();
    app.addDownload({ name: app.t("states"), figure: map.figure, table: map.table });
    app.showCode({ name: app.t("states"), python: statesCode(app.run, this.params(), { ...app.state, cell }) });
  }

  /** The influence of one token on all states: as colors of the tokens, and as a chart. */
  async drawInfluence() {
    const { app, cell, tokens } = this;
    const { word, log } = app.state;
    const { shape: [, times], values } = await app.fetchArray("recurrent/influence", this.params({ cell: cell.name, word }));
    const rows = INFLUENCE_MEASURES.map((name, index) => ({ name, y: Array.from(values.slice(index * times, (index + 1) * times)) }));
    const strip = tokenStrip({ name: app.t("influence"), tokens, chosen: word, onPick: (index) => this.pickWord(index) });
    strip.paint(rows[1].y.map((value) => Math.min(value, 1)));
    const lines = rows.slice(0, log ? 2 : 3).map(({ name, y }) => lineOf(app.t(name), y, log)); // a cosine may be negative
    const chart = lineChart({ name: app.t("influence_of", { word: tokens[word] }), lines, xName: app.t(`position${this.unit}`), log });
    chart.svg.influence = rows;
    const stripWindow = make("div", { class: "strip-window" }, strip);
    fill(this.influence, make("h2", {}, app.t(`influence${this.unit}`)), make("p", { class: "note" }, app.t("influence_help")), stripWindow,
      row(toggle(app, "log", { name: app.t("log"), redraw: this.redrawInfluence })),
      make("div", { class: "narrow" }, chart.element, legend(lines)));
    const table = { columns: [app.t("position"), app.t("token"), ...INFLUENCE_MEASURES.map((name) => app.t(name))],
                    rows: tokens.map((token, time) => [time + 1, token, ...rows.map(({ y }) => y[time])]) };
    app.addDownload({ name: app.t("influence"), figure: chart.svg, table });
    app.showCode({ name: app.t("influence"), python: influenceCode(app.run, this.params(), { cell, word }) });
  }

  async pickWord(word) {
    this.app.set({ word });
    try {
      await this.redrawInfluence();
      this.influence.querySelector('[aria-selected="true"]')?.focus();
    } catch (error) {
      this.app.showError(error);
    }
  }

  /** The context vectors of attention at each step, and one constant context vector. */
  async drawContexts() {
    const { app, info } = this;
    if (info.source_access === "none") return fill(this.contexts);
    const parts = [make("h2", {}, app.t("contexts")), make("p", { class: "note" }, app.t(`source_access_${info.source_access}`))];
    if (info.source_access === "attention") parts.push(...(await this.contextParts()));
    return fill(this.contexts, ...parts);
  }

  async contextParts() {
    const { app, info } = this;
    const contextVectors = await app.fetchArray("recurrent/context-vectors", this.params());
    const ablation = await app.fetchArray("recurrent/attention-ablation", this.params());
    const [steps, width] = contextVectors.shape;
    const rows = [app.t("one_context"), ...info.tokens.labels];
    const columns = Array.from({ length: width }, (_, unit) => String(unit + 1));
    const map = heatMap({ name: app.t("contexts"), rows, columns, values: contextVectors.values, diverging: true, stretch: true });
    map.canvas.dataset.plot = "contexts";
    map.mark({ row: 0 });
    const similarity = Array.from({ length: steps - 1 }, (_, step) => cosine(contextVectors, 0, step + 1));
    const count = ablation.shape[1];
    const x = Array.from({ length: count }, (_, index) => index + 1);
    const lines = [
      ...["with_attention", "without_attention"].map((name, index) =>
        ({ name: app.t(name), x, y: Array.from(ablation.values.slice(index * count, (index + 1) * count)) })),
      { name: app.t("context_similarity"), x, y: similarity, dashed: true },
    ];
    const chart = lineChart({ name: app.t("token_probabilities"), lines, xName: app.t("step"), from: 0 });
    const table = { columns: [app.t("step"), app.t("token"), ...lines.map(({ name }) => name)],
                    rows: info.tokens.labels.map((token, step) => [step + 1, token, ...lines.map(({ y }) => y[step])]) };
    app.addDownload({ name: app.t("contexts"), figure: map.figure, table: map.table });
    app.addDownload({ name: app.t("attention_ablation"), figure: chart.svg, table });
    app.showCode({ name: app.t("contexts"), python: contextsCode(app.run, this.params()) });
    const strip = tokenStrip({ name: app.t("attention_ablation"), tokens: info.tokens.labels.map((text, step) => ({ text,
      note: `${formatPercent(lines[0].y[step])} → ${formatPercent(lines[1].y[step])}` })) });
    return [map.element, make("h3", {}, app.t("attention_ablation")), make("p", { class: "note" }, app.t("ablation_help")), strip,
      make("div", { class: "narrow" }, chart.element, legend(lines))];
  }
}

/** The order of the units: by index, mean, total change over time, or time of the peak. */
export function unitOrder(values, times, units, sort) {
  const order = Array.from({ length: units }, (_, unit) => unit);
  const valueAt = (unit, time) => values[time * units + unit];
  const mapTimes = (unit, step) => Array.from({ length: times }, (_, time) => step(unit, time));
  const keys = {
    mean: (unit) => -mapTimes(unit, valueAt).reduce((sum, value) => sum + value, 0),
    change: (unit) => -mapTimes(unit, (each, time) => (time ? Math.abs(valueAt(each, time) - valueAt(each, time - 1)) : 0))
      .reduce((sum, value) => sum + value, 0),
    peak: (unit) => mapTimes(unit, (each, time) => Math.abs(valueAt(each, time)))
      .reduce((bestTime, value, time, all) => (value > all[bestTime] ? time : bestTime), 0),
  };
  if (!(sort in keys)) return order;
  const key = order.map(keys[sort]);
  return order.sort((one, other) => key[one] - key[other] || one - other);
}

/** A line over positions; on a logarithmic scale only positive values. */
function lineOf(name, y, log) {
  const times = y.map((_, index) => index).filter((index) => !log || y[index] > 0);
  return { name, x: times.map((index) => index + 1), y: times.map((index) => y[index]) };
}

function cosine({ shape: [, width], values }, one, other) {
  const [first, second] = [one, other].map((index) => values.slice(index * width, (index + 1) * width));
  const dot = (left, right) => left.reduce((sum, value, index) => sum + value * right[index], 0);
  return dot(first, second) / (Math.sqrt(dot(first, first) * dot(second, second)) || 1);
}
