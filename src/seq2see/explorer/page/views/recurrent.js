/** Recurrent networks: states and gates over time, what is left of a word, and one context vector against many. */

import { contextsCode, leftCode, statesCode } from "../code/inside.js";
import { legend, lineChart } from "../parts/chart.js";
import { choice, row, toggle } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { share } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { examplesOf, inputBoxes } from "../parts/input.js";
import { tokenStrip } from "../parts/strip.js";
import { words } from "./recurrent_words.js";

const LEFT = ["difference", "derivative", "cosine"]; // in the order in which the server tells them
const AROUND_ZERO = new Set(["hidden", "cell", "candidate"]); // gates lie between 0 and 1

export const view = {
  name: "recurrent",
  words,
  state: { cell: "", shows: "hidden", sort: "number", word: 0, log: false },
  show: (place, bench) => new Recurrent(place, bench).open(),
};

class Recurrent {
  constructor(place, bench) {
    Object.assign(this, { place, bench });
    this.states = make("section", {});
    this.left = make("section", {});
    this.contexts = make("section", {});
    const turn = turns();
    this.redraw = turn(() => this.draw());
    this.recell = turn(() => this.drawCell());
    this.resort = turn(() => this.drawStates());
    this.releft = turn(() => this.drawLeft());
  }

  async open() {
    const { bench } = this;
    this.controls = make("div", {});
    this.input = inputBoxes(bench, { examples: await examplesOf(bench), redraw: this.redraw });
    fill(this.place, this.input.element, this.controls, this.states, this.left, this.contexts);
    await this.redraw();
  }

  asked(more = {}) {
    return { ...this.input.asked(), ...more };
  }

  async draw() {
    this.read = await this.bench.ask("recurrent/read", this.asked());
    await this.drawCell();
    await this.drawContexts();
  }

  /** The cell that the address names, or the first. */
  get cell() {
    return this.read.cells.find((each) => each.name === this.bench.state.cell) ?? this.read.cells[0];
  }

  get tokens() {
    return this.read.tokens[this.cell.side];
  }

  /** What a cell reads one by one, if it is no word: the frames of a film, or the values of a series. */
  get unit() {
    const { abilities } = this.bench.run;
    return abilities.includes("series") ? "_value" : abilities.includes("films") && this.cell.side === "source" ? "_frame" : "";
  }

  async drawCell() {
    const { bench, cell, read } = this;
    if (!cell.shows.includes(bench.state.shows)) bench.set({ shows: "hidden" });
    if (bench.state.word >= this.tokens.length) bench.set({ word: 0 });
    const cells = read.cells.map((each) => [each.name, this.called(each)]);
    const sorts = ["number", "mean", "change", "latest"].map((each) => [each, bench.word(`sort_${each}`)]);
    if (!bench.state.cell) bench.state.cell = cell.name;
    fill(this.controls, row(
      choice(bench, "cell", { name: bench.word("cell"), options: cells, redraw: this.recell }),
      choice(bench, "shows", { name: bench.word("shows"), options: cell.shows.map((each) => [each, bench.word(`shows_${each}`)]),
        redraw: this.resort }),
      choice(bench, "sort", { name: bench.word("sort"), options: sorts, redraw: this.resort })));
    await this.drawStates();
    await this.drawLeft();
  }

  called({ side, layer, direction }) {
    const { bench, read } = this;
    const ways = new Set(read.cells.filter((each) => each.side === side).map((each) => each.direction));
    const parts = [bench.word(`side_${side}`), `${bench.word("layer")} ${layer + 1}`, ways.size > 1 ? bench.word(direction) : ""];
    return parts.filter(Boolean).join(" · ");
  }

  async drawStates() {
    const { bench, cell } = this;
    const { shows } = bench.state;
    const { shape: [times, units], values } = await bench.numbers("recurrent/states", this.asked({ cell: cell.name, shows }));
    const order = sorted(values, times, units, bench.state.sort);
    const turned = new Float32Array(times * units);
    order.forEach((unit, place) => {
      for (let time = 0; time < times; time += 1) turned[place * times + time] = values[time * units + unit];
    });
    const both = AROUND_ZERO.has(shows);
    const name = `${this.called(cell)} · ${bench.word(`shows_${shows}`)}`;
    const map = heatMap({ name, rows: order.map((unit) => String(unit + 1)), columns: this.tokens, values: turned, both, stretch: true,
      most: shows === "cell" ? null : 1 });
    map.canvas.dataset.shows = "states";
    fill(this.states, make("h2", {}, name), make("p", { class: "note" }, bench.word(`about_${shows}`)), map.element);
    map.layOut();
    bench.offer({ name: bench.word("states"), picture: map.picture, table: map.table });
    bench.code({ name: bench.word("states"), python: statesCode(bench.run, this.asked(), { ...bench.state, cell }) });
  }

  /** What is left of one word, painted on the tokens and as curves. */
  async drawLeft() {
    const { bench, cell, tokens } = this;
    const { word, log } = bench.state;
    const { shape: [, times], values } = await bench.numbers("recurrent/left", this.asked({ cell: cell.name, word }));
    const rows = LEFT.map((name, place) => ({ name, y: Array.from(values.slice(place * times, (place + 1) * times)) }));
    const strip = tokenStrip({ name: bench.word("left"), tokens, chosen: word, onPick: (index) => this.pickWord(index) });
    strip.paint(rows[1].y.map((value) => Math.min(value, 1)));
    const lines = rows.slice(0, log ? 2 : 3).map(({ name, y }) => lineOf(bench.word(name), y, log)); // a cosine may be below zero
    const chart = lineChart({ name: bench.word("left_of", { word: tokens[word] }), lines, xName: bench.word(`place${this.unit}`), log });
    chart.svg.left = rows;
    const strips = make("div", { class: "strip-window" }, strip);
    fill(this.left, make("h2", {}, bench.word(`left${this.unit}`)), make("p", { class: "note" }, bench.word("left_help")), strips,
      row(toggle(bench, "log", { name: bench.word("log"), redraw: this.releft })),
      make("div", { class: "narrow" }, chart.element, legend(lines)));
    const table = { columns: [bench.word("place"), bench.word("token"), ...LEFT.map((name) => bench.word(name))],
                    rows: tokens.map((token, time) => [time + 1, token, ...rows.map(({ y }) => y[time])]) };
    bench.offer({ name: bench.word("left"), picture: chart.svg, table });
    bench.code({ name: bench.word("left"), python: leftCode(bench.run, this.asked(), { cell, word }) });
  }

  async pickWord(word) {
    this.bench.set({ word });
    try {
      await this.releft();
      this.left.querySelector('[aria-selected="true"]')?.focus();
    } catch (error) {
      this.bench.fail(error);
    }
  }

  /** One context vector against what attention gives at each step. */
  async drawContexts() {
    const { bench, read } = this;
    if (read.look === "never") return fill(this.contexts);
    const parts = [make("h2", {}, bench.word("contexts")), make("p", { class: "note" }, bench.word(`look_${read.look}`))];
    if (read.look === "attention") parts.push(...(await this.compared()));
    return fill(this.contexts, ...parts);
  }

  async compared() {
    const { bench, read } = this;
    const [given, needed] = [await bench.numbers("recurrent/given", this.asked()), await bench.numbers("recurrent/needed", this.asked())];
    const [steps, width] = given.shape;
    const rows = [bench.word("one_context"), ...read.tokens.written];
    const columns = Array.from({ length: width }, (_, unit) => String(unit + 1));
    const map = heatMap({ name: bench.word("contexts"), rows, columns, values: given.values, both: true, stretch: true });
    map.canvas.dataset.shows = "contexts";
    map.mark({ row: 0 });
    const likeness = Array.from({ length: steps - 1 }, (_, step) => cosine(given, 0, step + 1));
    const count = needed.shape[1];
    const x = Array.from({ length: count }, (_, place) => place + 1);
    const lines = [
      ...["with_attention", "without_attention"].map((name, place) =>
        ({ name: bench.word(name), x, y: Array.from(needed.values.slice(place * count, (place + 1) * count)) })),
      { name: bench.word("likeness"), x, y: likeness, dashed: true },
    ];
    const chart = lineChart({ name: bench.word("needed_curve"), lines, xName: bench.word("step"), from: 0 });
    const table = { columns: [bench.word("step"), bench.word("token"), ...lines.map(({ name }) => name)],
                    rows: read.tokens.written.map((token, step) => [step + 1, token, ...lines.map(({ y }) => y[step])]) };
    bench.offer({ name: bench.word("contexts"), picture: map.picture, table: map.table });
    bench.offer({ name: bench.word("needed"), picture: chart.svg, table });
    bench.code({ name: bench.word("contexts"), python: contextsCode(bench.run, this.asked()) });
    const strip = tokenStrip({ name: bench.word("needed"), tokens: read.tokens.written.map((text, step) => ({ text,
      note: `${share(lines[0].y[step])} → ${share(lines[1].y[step])}` })) });
    return [map.element, make("h3", {}, bench.word("needed")), make("p", { class: "note" }, bench.word("needed_help")), strip,
      make("div", { class: "narrow" }, chart.element, legend(lines))];
  }
}

/** The order in which units are shown: by number, mean, how much they change, or when they are strongest. */
export function sorted(values, times, units, way) {
  const order = Array.from({ length: units }, (_, unit) => unit);
  const at = (unit, time) => values[time * units + unit];
  const over = (unit, step) => Array.from({ length: times }, (_, time) => step(unit, time));
  const keys = {
    mean: (unit) => -over(unit, at).reduce((sum, value) => sum + value, 0),
    change: (unit) => -over(unit, (each, time) => (time ? Math.abs(at(each, time) - at(each, time - 1)) : 0))
      .reduce((sum, value) => sum + value, 0),
    latest: (unit) => over(unit, (each, time) => Math.abs(at(each, time)))
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
  const dot = (left, right) => left.reduce((sum, value, place) => sum + value * right[place], 0);
  return dot(first, second) / (Math.sqrt(dot(first, first) * dot(second, second)) || 1);
}
