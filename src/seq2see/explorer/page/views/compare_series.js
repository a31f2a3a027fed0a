/** The view "Compare" for series: one-step predictions, errors and forecasts of two runs, or of one run on two series. */

import { forecastsCode } from "../code/compare_code.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { row, textBox } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber } from "../parts/number_format.js";
import { HORIZON } from "../parts/input_box.js";
import { exampleBox, examplesOf, exampleText } from "../parts/input_form.js";

const TRUE_COLOR = LINE_COLORS[7]; // the two sides have the first colors

export class SeriesComparison {
  constructor(container, app) {
    Object.assign(this, { container, app, results: make("div", {}) });
    this.redraw = serialQueue()(() => this.draw());
  }

  async open() {
    const { app, redraw } = this;
    this.examples = await examplesOf(app);
    const [defaultText, same] = [this.defaultText, app.t("empty", { value: app.t("same") })];
    const first = textBox(app, "text", { name: app.t("series"), placeholder: defaultText, redraw });
    const secondPredictions = textBox(app, "other", { name: app.t("other_series"), placeholder: same, redraw });
    const exampleRow = this.examples.length ? row(exampleBox(app, this.examples, [first], redraw)) : null;
    fill(this.container, row(first, secondPredictions), exampleRow, this.results);
    await redraw();
  }

  get defaultText() {
    return this.examples[0]?.source || exampleText(this.app);
  }

  /** Load both sides: run, series, predictions and forecast. */
  async sides() {
    const { app } = this;
    const text = app.state.text || this.defaultText;
    const inputs = [[app.run, text], [app.second?.ready ? app.second : app.run, app.state.other || text]];
    const sides = [];
    for (const [run, input] of inputs)
      sides.push({ run, text: input, ...(await app.fetchJson("series/forecast", { run: run.id, text: input, horizon: HORIZON })) });
    return sides;
  }

  async draw() {
    const { app, results } = this;
    const sides = await this.sides();
    const same = sides[0].text === sides[1].text;
    const maxLength = Math.max(...sides.map(({ values }) => values.length));
    sides.forEach((side, index) => this.addErrors(side, { index, offset: same ? maxLength - side.values.length : 0 }));
    const curves = (same ? [sides] : sides.map((side) => [side])).map((group) => this.curves(group));
    const errors = this.chart("errors", sides.map(({ name, times, errors: y, color }) => ({ name, x: times, y, color })), 0);
    const differenceChart = same ? this.chart("differences", [this.difference(sides)]) : app.addDownload({ key: "differences" });
    const sameNote = same && sides[0].run === sides[1].run ? make("p", { class: "note" }, app.t("identical")) : null;
    fill(results, sameNote, make("div", { class: same ? "narrow" : "charts" }, ...curves), this.table(sides),
      make("div", { class: "charts" }, errors, differenceChart || null), make("p", { class: "note" }, app.t("errors_help")));
    results.viewData = sides;
    app.showCode({ name: app.t("title"), python: forecastsCode(sides, HORIZON) });
  }

  /** Compute the errors of one side. `offset` is the number of values that only the other side uses. */
  addErrors(side, { index, offset }) {
    const { values, one_step_predictions, forecast, text } = side;
    const name = this.app.t("side", { side: this.app.t(index ? "second_side" : "first"), name: side.run.name });
    const trueFuture = numbersOf(this.examples.find(({ source }) => source === text)?.target ?? "").slice(0, forecast.length);
    const errors = values.slice(1).map((value, time) => Math.abs(one_step_predictions[time] - value));
    Object.assign(side, {
      name, color: LINE_COLORS[index], offset, trueFuture, errors, times: errors.map((_, time) => offset + time + 2),
      mae: meanOf(errors), rmse: Math.sqrt(meanOf(errors.map((error) => error ** 2))),
      horizonError: meanOf(trueFuture.map((value, step) => Math.abs(forecast[step] - value))),
    });
  }

  /** Values and predictions of sides with the same series; the values are those of the side with more of them. */
  curves(sides) {
    const { app } = this;
    const { values, trueFuture, offset } = sides.reduce((one, other) => (other.values.length > one.values.length ? other : one));
    const lineFrom = (start, y, style) => ({ x: y.map((_, time) => offset + start + time), y, ...style });
    const end = values.length + 1;
    const lines = [
      lineFrom(1, values, { name: app.t("true_values"), color: TRUE_COLOR }),
      trueFuture.length ? lineFrom(end, trueFuture, { name: app.t("true_future"), color: TRUE_COLOR, dashed: true }) : null,
      ...sides.flatMap((side) => [
        {
          name: side.name, color: side.color, y: side.one_step_predictions,
          x: side.one_step_predictions.map((_, time) => side.offset + time + 2),
        },
        lineFrom(end, side.forecast, { name: `${side.name}, ${app.t("series_forecast")}`, color: side.color, dashed: true }),
      ]),
    ].filter(Boolean);
    return this.chart("forecasts", lines, null, sides.length > 1 ? "" : sides[0].name);
  }

  /** The difference of the predictions, where both sides have one. */
  difference([first, second]) {
    const predictions = ({ offset, one_step_predictions, forecast }) =>
      new Map([...one_step_predictions.slice(0, -1), ...forecast].map((value, time) => [offset + time + 2, value]));
    const [firstPredictions, secondPredictions] = [predictions(first), predictions(second)];
    const x = [...firstPredictions.keys()].filter((time) => secondPredictions.has(time)).sort((one, other) => one - other);
    return { name: this.app.t("difference"), x, y: x.map((time) => secondPredictions.get(time) - firstPredictions.get(time)) };
  }

  chart(key, lines, from = null, of = "") {
    const { app } = this;
    const name = [app.t(key), of].filter(Boolean).join(" · ");
    const chart = lineChart({ name, lines, xName: app.t("time"), from });
    chart.svg.dataset.plot = key;
    app.addDownload({ key: `${key} ${of}`.trim(), name, figure: chart.svg, table: chart.table });
    return make("div", {}, chart.element, lines.length > 1 ? legend(lines) : null);
  }

  table(sides) {
    const { app } = this;
    const count = Math.max(...sides.map(({ trueFuture }) => trueFuture.length));
    const names = ["run", "mae", "rmse", ...(count ? ["horizon_mae"] : [])].map((key) => app.t(key, { count }));
    const cells = ({ name, mae, rmse, horizonError }) => [name, mae, rmse, ...(count ? [horizonError] : [])];
    const cell = (value) => (typeof value === "number" ? make("td", { class: "number" }, formatNumber(value)) : make("td", {}, value));
    const table = make("table", { class: "forecasts" }, make("tr", {}, ...names.map((name) => make("th", {}, name))),
      ...sides.map((side) => make("tr", {}, ...cells(side).map(cell))));
    app.addDownload({ key: "table", name: app.t("title"), figure: table, table: { columns: names, rows: sides.map(cells) } });
    return make("div", { class: "scroll" }, table);
  }
}

/** The mean; NaN for no values. */
function meanOf(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN;
}

function numbersOf(text) {
  return text.split(/[\s,]+/).filter(Boolean).map(Number);
}
