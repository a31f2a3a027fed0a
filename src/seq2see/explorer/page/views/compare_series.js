/** Two runs on one series, or one run on two: what each said of every next value, how far off, and how it goes on. */

import { forecastsCode } from "../code/both.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINES } from "../parts/colours.js";
import { row, textBox } from "../parts/controls.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure } from "../parts/figures.js";
import { AHEAD } from "../parts/given.js";
import { exampleBox, examplesOf, exampleText } from "../parts/input.js";

const TRUE = LINES[7]; // the colour of values; those of the two sides come first

export class TwoSeries {
  constructor(place, bench) {
    Object.assign(this, { place, bench, found: make("div", {}) });
    this.redraw = turns()(() => this.draw());
  }

  async open() {
    const { bench, redraw } = this;
    this.examples = await examplesOf(bench);
    const [usual, same] = [this.usual, bench.word("empty", { what: bench.word("same") })];
    const first = textBox(bench, "text", { name: bench.word("series"), placeholder: usual, redraw });
    const other = textBox(bench, "other", { name: bench.word("other_series"), placeholder: same, redraw });
    const offered = this.examples.length ? row(exampleBox(bench, this.examples, [first], redraw)) : null;
    fill(this.place, row(first, other), offered, this.found);
    await redraw();
  }

  get usual() {
    return this.examples[0]?.source || exampleText(this.bench);
  }

  /** Both sides: which run, which series, and what it said. */
  async sides() {
    const { bench } = this;
    const text = bench.state.text || this.usual;
    const given = [[bench.run, text], [bench.second?.ready ? bench.second : bench.run, bench.state.other || text]];
    const sides = [];
    for (const [run, read] of given)
      sides.push({ run, text: read, ...(await bench.ask("series/said", { run: run.id, text: read, ahead: AHEAD })) });
    return sides;
  }

  async draw() {
    const { bench, found } = this;
    const sides = await this.sides();
    const same = sides[0].text === sides[1].text;
    const longest = Math.max(...sides.map(({ values }) => values.length));
    sides.forEach((side, place) => this.complete(side, { place, before: same ? longest - side.values.length : 0 }));
    const curves = (same ? [sides] : sides.map((side) => [side])).map((group) => this.curves(group));
    const errors = this.chart("errors", sides.map(({ name, times, errors: y, colour }) => ({ name, x: times, y, colour })), 0);
    const less = same ? this.chart("differences", [this.difference(sides)]) : bench.offer({ key: "differences" });
    const alike = same && sides[0].run === sides[1].run ? make("p", { class: "note" }, bench.word("alike")) : null;
    fill(found, alike, make("div", { class: same ? "narrow" : "charts" }, ...curves), this.table(sides),
      make("div", { class: "charts" }, errors, less || null), make("p", { class: "note" }, bench.word("errors_help")));
    found.shown = sides;
    bench.code({ name: bench.word("title"), python: forecastsCode(sides, AHEAD) });
  }

  /** What is computed here of one side. `before` is how many values the other sees that this one does not. */
  complete(side, { place, before }) {
    const { values, guesses, ahead, text } = side;
    const name = this.bench.word("side", { place: this.bench.word(place ? "second_side" : "first"), name: side.run.name });
    const came = numbersOf(this.examples.find(({ source }) => source === text)?.target ?? "").slice(0, ahead.length);
    const errors = values.slice(1).map((value, time) => Math.abs(guesses[time] - value));
    Object.assign(side, {
      name, colour: LINES[place], before, came, errors, times: errors.map((_, time) => before + time + 2),
      mean: meanOf(errors), root: Math.sqrt(meanOf(errors.map((error) => error ** 2))),
      behind: meanOf(came.map((value, step) => Math.abs(ahead[step] - value))),
    });
  }

  /** Values and forecasts of sides that read one series; whoever sees more of it shows its values. */
  curves(sides) {
    const { bench } = this;
    const { values, came, before } = sides.reduce((one, other) => (other.values.length > one.values.length ? other : one));
    const from = (start, y, rest) => ({ x: y.map((_, time) => before + start + time), y, ...rest });
    const end = values.length + 1;
    const lines = [
      from(1, values, { name: bench.word("true_values"), colour: TRUE }),
      came.length ? from(end, came, { name: bench.word("came"), colour: TRUE, dashed: true }) : null,
      ...sides.flatMap((side) => [
        { name: side.name, colour: side.colour, y: side.guesses, x: side.guesses.map((_, time) => side.before + time + 2) },
        from(end, side.ahead, { name: `${side.name}, ${bench.word("series_ahead")}`, colour: side.colour, dashed: true }),
      ]),
    ].filter(Boolean);
    return this.chart("forecasts", lines, null, sides.length > 1 ? "" : sides[0].name);
  }

  /** What the second says less what the first says, where both say something. */
  difference([first, second]) {
    const said = ({ before, guesses, ahead }) =>
      new Map([...guesses.slice(0, -1), ...ahead].map((value, time) => [before + time + 2, value]));
    const [one, other] = [said(first), said(second)];
    const x = [...one.keys()].filter((time) => other.has(time)).sort((early, late) => early - late);
    return { name: this.bench.word("difference"), x, y: x.map((time) => other.get(time) - one.get(time)) };
  }

  chart(key, lines, from = null, of = "") {
    const { bench } = this;
    const name = [bench.word(key), of].filter(Boolean).join(" · ");
    const chart = lineChart({ name, lines, xName: bench.word("time"), from });
    chart.svg.dataset.shows = key;
    bench.offer({ key: `${key} ${of}`.trim(), name, picture: chart.svg, table: chart.table });
    return make("div", {}, chart.element, lines.length > 1 ? legend(lines) : null);
  }

  table(sides) {
    const { bench } = this;
    const count = Math.max(...sides.map(({ came }) => came.length));
    const names = ["run", "one_step", "root", ...(count ? ["ahead"] : [])].map((key) => bench.word(key, { count }));
    const cells = ({ name, mean, root, behind }) => [name, mean, root, ...(count ? [behind] : [])];
    const told = (value) => (typeof value === "number" ? make("td", { class: "number" }, figure(value)) : make("td", {}, value));
    const table = make("table", { class: "forecasts" }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
      ...sides.map((side) => make("tr", {}, ...cells(side).map(told))));
    bench.offer({ key: "table", name: bench.word("title"), picture: table, table: { columns: names, rows: sides.map(cells) } });
    return make("div", { class: "scroll" }, table);
  }
}

/** The mean; nothing has none. */
function meanOf(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN;
}

function numbersOf(text) {
  return text.split(/[\s,]+/).filter(Boolean).map(Number);
}
