/** Recurrent networks: states and gates over time, what is left of a word, and one context vector against many. */

import { contextsCode, influenceCode, statesCode } from "../code/trace_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { dropdown, row, toggle } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputForm } from "../parts/input_form.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./recurrent_strings.js";

const INFLUENCE_MEASURES = ["difference", "derivative", "cosine"]; // in the order in which the server tells them
const AROUND_ZERO = new Set(["hidden", "cell", "candidate"]); // gates lie between 0 and 1

export const view = {
  name: "recurrent",
  strings,
  state: { cell: "", signals: "hidden", sort: "number", word: 0, log: false },
  show: (place, app) => new RecurrentView(place, app).open(),
};

class RecurrentView {
  constructor(place, app) {
    Object.assign(this, { place, app });
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
    fill(this.place, this.input.element, this.controls, this.states, this.influence, this.contexts);
    await this.redraw();
  }

  params(more = {}) {
    return { ...this.input.params(), ...more };
  }

  async draw() {
    this.info = await this.app.fetchJson("recurrent/cells", this.params());
    await this.drawCell();
    await this.drawContexts();
  }

  /** The cell that the address names, or the first. */
  get cell() {
    return this.info.cells.find((each) => each.name === this.app.state.cell) ?? this.info.cells[0];
  }

  get tokens() {
    return this.info.tokens[this.cell.side];
  }

  /** What a cell reads one by one, if it is no word: the frames of a video, or the values of a series. */
  get unit() {
    const { capabilities } = this.app.run;
    return capabilities.includes("series") ? "_value" : capabilities.includes("videos") && this.cell.side === "source" ? "_frame" : "";
  }

  async drawCell() {
    const { app, cell, info } = this;
    if (!cell.signals.includes(app.state.signals)) app.set({ signals: "hidden" });
    if (app.state.word >= this.tokens.length) app.set({ word: 0 });
    const cells = info.cells.map((each) => [each.name, this.cellName(each)]);
    const sorts = ["number", "mean", "change", "coalesced"].map((each) => [each, app.t(`sort_${each}`)]);
    if (!app.state.cell) app.state.cell = cell.name;
    fill(this.controls, row(
      dropdown(app, "cell", { name: app.t("cell"), options: cells, redraw: this.redrawCell }),
      dropdown(app, "signals", { name: app.t("signals"), options: cell.signals.map((each) => [each, app.t(`shows_${each}`)]),
        redraw: this.redrawStates }),
      dropdown(app, "sort", { name: app.t("sort"), options: sorts, redraw: this.redrawStates })));
    await this.drawStates();
    await this.drawInfluence();
  }

  cellName({ side, layer, direction }) {
    const { app, info } = this;
    const ways = new Set(info.cells.filter((each) => each.side === side).map((each) => each.direction));
    const parts = [app.t(`side_${side}`), `${app.t("layer")} ${layer + 1}`, ways.size > 1 ? app.t(direction) : ""];
    return parts.filter(Boolean).join(" · ");
  }

  async drawStates() {
    const { app, cell } = this;
    const { signals } = app.state;
    const { shape: [times, units], values } = await app.fetchArray("recurrent/states", this.params({ cell: cell.name, signals }));
    const order = unitOrder(values, times, units, app.state.sort);
    const turned = new Float32Array(times * units);
    order.forEach((unit, place) => {
      for (let time = 0; time < times; time += 1) turned[place * times + time] = values[time * units + unit];
    });
    const diverging = AROUND_ZERO.has(signals);
    const name = `${this.cellName(cell)} · ${app.t(`shows_${signals}`)}`;
    const map = heatMap({ name, rows: order.map((unit) => String(unit + 1)), columns: this.tokens, values: turned, diverging, stretch: true,
      max: signals === "cell" ? null : 1 });
    map.canvas.dataset.signals = "states";
    fill(this.states, make("h2", {}, name), make("p", { class: "note" }, app.t(`about_${signals}`)), map.element);
    map.layOut();
    app.addDownload({ name: app.t("states"), figure: map.figure, table: map.table });
    app.showCode({ name: app.t("states"), python: statesCode(app.run, this.params(), { ...app.state, cell }) });
  }

  /** What is left of one word, painted on the tokens and as curves. */
  async drawInfluence() {
    const { app, cell, tokens } = this;
    const { word, log } = app.state;
    const { shape: [, times], values } = await app.fetchArray("recurrent/influence", this.params({ cell: cell.name, word }));
    const rows = INFLUENCE_MEASURES.map((name, place) => ({ name, y: Array.from(values.slice(place * times, (place + 1) * times)) }));
    const strip = tokenStrip({ name: app.t("influence"), tokens, chosen: word, onPick: (index) => this.pickWord(index) });
    strip.paint(rows[1].y.map((value) => Math.min(value, 1)));
    const lines = rows.slice(0, log ? 2 : 3).map(({ name, y }) => lineOf(app.t(name), y, log)); // a cosine may be below zero
    const chart = lineChart({ name: app.t("left_of", { word: tokens[word] }), lines, xName: app.t(`place${this.unit}`), log });
    chart.svg.influence = rows;
    const strips = make("div", { class: "strip-window" }, strip);
    fill(this.influence, make("h2", {}, app.t(`left${this.unit}`)), make("p", { class: "note" }, app.t("left_help")), strips,
      row(toggle(app, "log", { name: app.t("log"), redraw: this.redrawInfluence })),
      make("div", { class: "narrow" }, chart.element, legend(lines)));
    const table = { columns: [app.t("place"), app.t("token"), ...INFLUENCE_MEASURES.map((name) => app.t(name))],
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

  /** One context vector against what attention gives at each step. */
  async drawContexts() {
    const { app, info } = this;
    if (info.source_access === "never") return fill(this.contexts);
    const parts = [make("h2", {}, app.t("contexts")), make("p", { class: "note" }, app.t(`look_${info.source_access}`))];
    if (info.source_access === "attention") parts.push(...(await this.contextParts()));
    return fill(this.contexts, ...parts);
  }

  async contextParts() {
    const { app, info } = this;
    const [given, ablation] = [await app.fetchArray("recurrent/context-vectors", this.params()), await app.fetchArray("recurrent/attention-ablation", this.params())];
    const [steps, width] = given.shape;
    const rows = [app.t("one_context"), ...info.tokens.target_tokens];
    const columns = Array.from({ length: width }, (_, unit) => String(unit + 1));
    const map = heatMap({ name: app.t("contexts"), rows, columns, values: given.values, diverging: true, stretch: true });
    map.canvas.dataset.signals = "contexts";
    map.mark({ row: 0 });
    const likeness = Array.from({ length: steps - 1 }, (_, step) => cosine(given, 0, step + 1));
    const count = ablation.shape[1];
    const x = Array.from({ length: count }, (_, place) => place + 1);
    const lines = [
      ...["with_attention", "without_attention"].map((name, place) =>
        ({ name: app.t(name), x, y: Array.from(ablation.values.slice(place * count, (place + 1) * count)) })),
      { name: app.t("likeness"), x, y: likeness, dashed: true },
    ];
    const chart = lineChart({ name: app.t("needed_curve"), lines, xName: app.t("step"), from: 0 });
    const table = { columns: [app.t("step"), app.t("token"), ...lines.map(({ name }) => name)],
                    rows: info.tokens.target_tokens.map((token, step) => [step + 1, token, ...lines.map(({ y }) => y[step])]) };
    app.addDownload({ name: app.t("contexts"), figure: map.figure, table: map.table });
    app.addDownload({ name: app.t("ablation"), figure: chart.svg, table });
    app.showCode({ name: app.t("contexts"), python: contextsCode(app.run, this.params()) });
    const strip = tokenStrip({ name: app.t("ablation"), tokens: info.tokens.target_tokens.map((text, step) => ({ text,
      note: `${formatPercent(lines[0].y[step])} → ${formatPercent(lines[1].y[step])}` })) });
    return [map.element, make("h3", {}, app.t("ablation")), make("p", { class: "note" }, app.t("needed_help")), strip,
      make("div", { class: "narrow" }, chart.element, legend(lines))];
  }
}

/** The order in which units are shown: by number, mean, how much they change, or when they are strongest. */
export function unitOrder(values, times, units, way) {
  const order = Array.from({ length: units }, (_, unit) => unit);
  const at = (unit, time) => values[time * units + unit];
  const over = (unit, step) => Array.from({ length: times }, (_, time) => step(unit, time));
  const keys = {
    mean: (unit) => -over(unit, at).reduce((sum, value) => sum + value, 0),
    change: (unit) => -over(unit, (each, time) => (time ? Math.abs(at(each, time) - at(each, time - 1)) : 0))
      .reduce((sum, value) => sum + value, 0),
    coalesced: (unit) => over(unit, (each, time) => Math.abs(at(each, time)))
      .reduce((best, value, time, all) => (value > all[best] ? time : best), 0),
  };
  if (!(way in keys)) return order;
  const key = order.map(keys[way]);
  return order.sort((one, other) => key[one] - key[other] || one - other);
}

/** A curve over places; on a logarithmic scale only what is above zero can be shown. */
function lineOf(name, y, log) {
  const places = y.map((_, place) => place).filter((place) => !log || y[place] > 0);
  return { name, x: places.map((place) => place + 1), y: places.map((place) => y[place]) };
}

function cosine({ shape: [, width], values }, one, other) {
  const [first, second] = [one, other].map((place) => values.slice(place * width, (place + 1) * width));
  const dot = (influence, right) => influence.reduce((sum, value, place) => sum + value * right[place], 0);
  return dot(first, second) / (Math.sqrt(dot(first, first) * dot(second, second)) || 1);
}
