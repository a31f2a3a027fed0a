/** Two runs on one series, or one run on two: what each said of every next value, how far off, and how it goes on. */

import { forecastsCode } from "../code/compare_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { row, textBox } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { HORIZON } from "../parts/input_box.js";
import { exampleBox, examplesOf, exampleText } from "../parts/input_form.js";

const TRUE = LINE_COLORS[7]; // the color of values; those of the two sides come first

export class SeriesComparison {
  constructor(container, app) {
    Object.assign(this, { container, app, found: make("div", {}) });
    this.redraw = serialQueue()(() => this.draw());
  }

  async open() {
    const { app, redraw } = this;
    this.examples = await examplesOf(app);
    const [defaultText, same] = [this.defaultText, app.t("empty", { message: app.t("same") })];
    const first = textBox(app, "text", { name: app.t("series"), placeholder: defaultText, redraw });
    const other = textBox(app, "other", { name: app.t("other_series"), placeholder: same, redraw });
    const offered = this.examples.length ? row(exampleBox(app, this.examples, [first], redraw)) : null;
    fill(this.container, row(first, other), offered, this.found);
    await redraw();
  }

  get defaultText() {
    return this.examples[0]?.source || exampleText(this.app);
  }

  /** Both sides: which run, which series, and what it said. */
  async sides() {
    const { app } = this;
    const text = app.state.text || this.defaultText;
    const given = [[app.run, text], [app.second?.ready ? app.second : app.run, app.state.other || text]];
    const sides = [];
    for (const [run, read] of given)
      sides.push({ run, text: read, ...(await app.fetchJson("series/forecast", { run: run.id, text: read, forecast: HORIZON })) });
    return sides;
  }

  async draw() {
    const { app, found } = this;
    const sides = await this.sides();
    const same = sides[0].text === sides[1].text;
    const longest = Math.max(...sides.map(({ values }) => values.length));
    sides.forEach((side, place) => this.addErrors(side, { place, before: same ? longest - side.values.length : 0 }));
    const curves = (same ? [sides] : sides.map((side) => [side])).map((group) => this.curves(group));
    const errors = this.chart("errors", sides.map(({ name, times, errors: y, color }) => ({ name, x: times, y, color })), 0);
    const less = same ? this.chart("differences", [this.difference(sides)]) : app.addDownload({ key: "differences" });
    const alike = same && sides[0].run === sides[1].run ? make("p", { class: "note" }, app.t("alike")) : null;
    fill(found, alike, make("div", { class: same ? "narrow" : "charts" }, ...curves), this.table(sides),
      make("div", { class: "charts" }, errors, less || null), make("p", { class: "note" }, app.t("errors_help")));
    found.viewData = sides;
    app.showCode({ name: app.t("title"), python: forecastsCode(sides, HORIZON) });
  }

  /** What is computed here of one side. `before` is how many values the other sees that this one does not. */
  addErrors(side, { place, before }) {
    const { values, one_step_predictions, forecast, text } = side;
    const name = this.app.t("side", { place: this.app.t(place ? "second_side" : "first"), name: side.run.name });
    const trueFuture = numbersOf(this.examples.find(({ source }) => source === text)?.target ?? "").slice(0, forecast.length);
    const errors = values.slice(1).map((value, time) => Math.abs(one_step_predictions[time] - value));
    Object.assign(side, {
      name, color: LINE_COLORS[place], before, trueFuture, errors, times: errors.map((_, time) => before + time + 2),
      mae: meanOf(errors), rmse: Math.sqrt(meanOf(errors.map((error) => error ** 2))),
      horizonError: meanOf(trueFuture.map((value, step) => Math.abs(forecast[step] - value))),
    });
  }

  /** Values and forecasts of sides that read one series; whoever sees more of it shows its values. */
  curves(sides) {
    const { app } = this;
    const { values, trueFuture, before } = sides.reduce((one, other) => (other.values.length > one.values.length ? other : one));
    const from = (start, y, rest) => ({ x: y.map((_, time) => before + start + time), y, ...rest });
    const end = values.length + 1;
    const lines = [
      from(1, values, { name: app.t("true_values"), color: TRUE }),
      trueFuture.length ? from(end, trueFuture, { name: app.t("trueFuture"), color: TRUE, dashed: true }) : null,
      ...sides.flatMap((side) => [
        { name: side.name, color: side.color, y: side.one_step_predictions, x: side.one_step_predictions.map((_, time) => side.before + time + 2) },
        from(end, side.forecast, { name: `${side.name}, ${app.t("series_ahead")}`, color: side.color, dashed: true }),
      ]),
    ].filter(Boolean);
    return this.chart("forecasts", lines, null, sides.length > 1 ? "" : sides[0].name);
  }

  /** What the second says less what the first says, where both say something. */
  difference([first, second]) {
    const said = ({ before, one_step_predictions, forecast }) =>
      new Map([...one_step_predictions.slice(0, -1), ...forecast].map((value, time) => [before + time + 2, value]));
    const [one, other] = [said(first), said(second)];
    const x = [...one.keys()].filter((time) => other.has(time)).sort((early, late) => early - late);
    return { name: this.app.t("difference"), x, y: x.map((time) => other.get(time) - one.get(time)) };
  }

  chart(key, lines, from = null, of = "") {
    const { app } = this;
    const name = [app.t(key), of].filter(Boolean).join(" · ");
    const chart = lineChart({ name, lines, xName: app.t("time"), from });
    chart.svg.dataset.shows = key;
    app.addDownload({ key: `${key} ${of}`.trim(), name, figure: chart.svg, table: chart.table });
    return make("div", {}, chart.element, lines.length > 1 ? legend(lines) : null);
  }

  table(sides) {
    const { app } = this;
    const count = Math.max(...sides.map(({ trueFuture }) => trueFuture.length));
    const names = ["run", "one_step", "rmse", ...(count ? ["forecast"] : [])].map((key) => app.t(key, { count }));
    const cells = ({ name, mae, rmse, horizonError }) => [name, mae, rmse, ...(count ? [horizonError] : [])];
    const told = (value) => (typeof value === "number" ? make("td", { class: "number" }, formatNumber(value)) : make("td", {}, value));
    const table = make("table", { class: "forecasts" }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
      ...sides.map((side) => make("tr", {}, ...cells(side).map(told))));
    app.addDownload({ key: "table", name: app.t("title"), figure: table, table: { columns: names, rows: sides.map(cells) } });
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
