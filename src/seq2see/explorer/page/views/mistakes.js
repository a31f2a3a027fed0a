/** The view "Mistakes": the confusion matrix, the rows of an evaluation, and links to the attention of each row. */

import { confusionCode, rowsCode } from "../code/run_code.js";
import { dropdown, button, row, textBox } from "../parts/controls.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINE_COLORS, sequentialStyle } from "../parts/colors.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { formatNumber, formatPercent } from "../parts/number_format.js";
import { heatMap } from "../parts/heat_map.js";
import { readable } from "../parts/token_strip.js";

const strings = {
  en: {
    title: "Mistakes",
    hint: "Begin with wrong predictions of high confidence: they show systematic errors.",
    help_text:
      "“seq2see eval” stores the predictions of a model for all held-out splits. They are listed here, the worst first; among " +
      "equally wrong predictions, the most confident first. Differences from the reference are highlighted. For labels, click " +
      "a cell of the confusion matrix (row: reference, column: prediction) to see its rows. The first cell of a row links to " +
      "the attention of the model for this input.",
    split: "split",
    sort: "order",
    worst: "worst first",
    best: "best first",
    "most-confident": "most confident first",
    "least-confident": "least confident first",
    file: "order of the file",
    search: "search",
    token_losses: "running text",
    confusion: "Confusion matrix: rows are references, columns predictions",
    cell: "{truth} predicted as {answer}",
    all_rows: "All rows",
    rows: "{start} to {end} of {total} rows",
    no_rows: "No rows.",
    not_evaluated: "This run has no evaluation yet. Run “seq2see eval {run}”, then open this page again.",
    earlier: "← earlier",
    later: "later →",
    text_: "text",
    truth: "reference",
    answer: "prediction",
    chrf: "chrF",
    correct: "accuracy",
    log_probability: "log p",
    probability: "probability",
    loss: "mean loss",
    absolute_error: "absolute error",
    forecasts: "one-step forecasts",
    value_: "value",
    forecast_: "forecast",
    score: "score",
    confidence: "confidence",
    number: "row",
    open_row: "open row {number}",
    empty: "(empty)",
  },
  zh: {
    title: "错误分析",
    hint: "先看置信度高的错误预测：它们显示系统性的错误。",
    help_text:
      "“seq2see eval”保存模型对所有留出划分的预测。这里列出它们，最差的在前；同样错的，置信度高的在前。" +
      "与参考答案不同的地方有标记。如果是标签，点混淆矩阵的一格（行：参考答案，列：预测）可只看那些行。" +
      "每行的第一格链接到模型对这个输入的注意力。",
    split: "数据划分",
    sort: "排序",
    worst: "最差在前",
    best: "最好在前",
    "most-confident": "置信度最高在前",
    "least-confident": "置信度最低在前",
    file: "按文件顺序",
    search: "查找",
    token_losses: "连续文本",
    confusion: "混淆矩阵：行是参考标签，列是预测",
    cell: "{truth} 预测为 {answer}",
    all_rows: "全部行",
    rows: "第 {start} 到 {end} 行，共 {total} 行",
    no_rows: "没有行。",
    not_evaluated: "这个运行还没有评测。先运行“seq2see eval {run}”，再打开这一页。",
    earlier: "← 前面",
    later: "后面 →",
    text_: "文本",
    truth: "参考答案",
    answer: "预测",
    chrf: "chrF",
    correct: "准确率",
    log_probability: "log p",
    probability: "概率",
    loss: "平均损失",
    absolute_error: "绝对误差",
    forecasts: "一步预测",
    value_: "数值",
    forecast_: "预测",
    score: "分数",
    confidence: "置信度",
    number: "行号",
    open_row: "打开第 {number} 行",
    empty: "（空）",
  },
};

const PAGE_SIZE = 25; // rows
const MAX_LOSS = 8; // nats; tokens with a larger loss have the strongest color
const ORDERS = ["worst", "best", "most-confident", "least-confident", "file"];
/** The metrics of a row, by the kind of table. */
const METRICS = {
  texts: ["chrf", "log_probability"], labels: ["probability"], tags: ["correct", "probability"], token_losses: ["loss"],
  forecasts: ["absolute_error"],
};
/** The columns before the metrics, if they are not text, reference and prediction. */
const COLUMNS = { token_losses: ["number", "text_"], forecasts: ["number", "time", "value_", "forecast_"] };

export const view = {
  name: "mistakes",
  strings,
  state: { split: "", sort: "worst", search: "", truth: "", answer: "", start: 0 },

  async show(container, app) {
    const { splits, labels, images } = await app.fetchJson("mistakes/splits", { run: app.run.id });
    if (!splits.length) return fill(container, make("p", {}, app.t("not_evaluated", { run: app.run.name })));
    const split = () => ({ labels, images, ...(splits.find((each) => each.name === app.state.split) ?? splits[0]) });
    const parts = { confusion: make("div", {}), rows: make("div", {}) };
    const serial = serialQueue();
    const redraw = serial(() => draw(parts, split(), app));
    const rows = serial(() => drawRows(parts, split(), app));
    parts.showRows = (changes) => {
      app.set(changes);
      rows().catch(app.showError);
    };
    const restart = () => {
      app.set({ start: 0 });
      return redraw();
    };
    const names = splits.map(({ name }) => [name, name in COLUMNS ? app.t(name) : name]);
    fill(container, row(
      dropdown(app, "split", { name: app.t("split"), options: names, redraw: restart }),
      dropdown(app, "sort", { name: app.t("sort"), options: ORDERS.map((each) => [each, app.t(each)]), redraw: restart }),
      textBox(app, "search", { name: app.t("search"), lines: 1, redraw: restart }),
    ), parts.confusion, parts.rows);
    await redraw();
  },
};

async function draw(parts, split, app) {
  await drawConfusion(parts, split, app);
  await drawRows(parts, split, app);
}

/** Draw a series and the one-step forecast of each value. */
async function drawForecasts(container, split, app) {
  const { shape: [, count], values } = await app.fetchArray("mistakes/forecasts", { run: app.run.id, split: split.name });
  const [x, truth, forecast] = [0, 1, 2].map((part) => Array.from(values.subarray(part * count, (part + 1) * count)));
  const series = [[truth, "value_"], [forecast, "forecast_"]];
  const lines = series.map(([y, key], index) => ({ name: app.t(key), x, y, color: LINE_COLORS[index] }));
  const chart = lineChart({ name: app.t("forecasts"), lines, xName: app.t("time") });
  fill(container, make("div", { class: "narrow" }, chart.element, legend(lines)));
  app.addDownload({ name: app.t("forecasts"), figure: chart.svg, table: chart.table });
}

async function drawConfusion(parts, split, app) {
  app.showCode({ name: app.t("confusion"), python: hasLabels(split) ? confusionCode(app.run, split.name) : null });
  if (split.kind === "forecasts") return drawForecasts(parts.confusion, split, app);
  if (!hasLabels(split)) return fill(parts.confusion);
  const body = { run: app.run.id, split: split.name };
  const { values } = await app.fetchArray("mistakes/confusion", body);
  const { labels } = split;
  const onPick = (cell) => {
    parts.showRows({ truth: labels[cell.row], answer: labels[cell.column], start: 0 });
    map.mark(cell);
  };
  // The color range excludes the diagonal, so that mistakes are visible next to many correct predictions.
  const offDiagonal = values.filter((_, index) => Math.floor(index / labels.length) !== index % labels.length);
  const max = Math.max(1, ...offDiagonal);
  const map = heatMap({ name: app.t("confusion"), rows: labels, columns: labels, values, max, formatCell: String, onPick });
  fill(parts.confusion, make("h2", {}, app.t("confusion")), map.element);
  const { truth, answer } = app.state;
  if (truth) map.mark({ row: labels.indexOf(truth), column: labels.indexOf(answer) });
  parts.clearCell = () => {
    map.mark({});
    map.canvas.focus(); // its button is removed
  };
  app.addDownload({ name: app.t("confusion"), figure: map.figure, table: map.table });
}

async function drawRows(parts, split, app) {
  const { sort, search, truth, answer, start } = app.state;
  const cell = hasLabels(split) && truth ? [truth, answer] : null;
  const body = { run: app.run.id, split: split.name, sort, search, cell, start, count: PAGE_SIZE };
  const { rows, total } = await app.fetchJson("mistakes/rows", body);
  const all = button(app.t("all_rows"), () => {
    parts.clearCell();
    parts.showRows({ truth: "", answer: "", start: 0 });
  });
  const earlier = button(app.t("earlier"), () => parts.showRows({ start: Math.max(start - PAGE_SIZE, 0) }));
  const later = button(app.t("later"), () => parts.showRows({ start: start + PAGE_SIZE }));
  earlier.disabled = start === 0;
  later.disabled = start + PAGE_SIZE >= total;
  const summary = total ? app.t("rows", { start: start + 1, end: start + rows.length, total }) : app.t("no_rows");
  const table = tableOf(rows, split, app);
  fill(parts.rows, cell ? make("h2", {}, app.t("cell", { truth, answer }), " ", all) : null,
    make("div", { class: "controls" }, make("span", { class: "note" }, summary), earlier, later),
    table);
  parts.rows.viewData = rows;
  app.addDownload({ name: app.t("title"), figure: table, table: tableData(rows, split, app) });
  const python = rowsCode(app.run, { split: split.name, sort, search, cell, start, count: PAGE_SIZE });
  app.showCode({ name: app.t("title"), python });
}

function hasLabels(split) {
  return split.kind === "labels" || split.kind === "tags";
}

function tableOf(rows, split, app) {
  const names = COLUMNS[split.kind] ?? ["number", "text_", "truth", "answer"];
  const headers = [...names.map((key) => make("th", {}, app.t(key))),
    ...METRICS[split.kind].map((key) => make("th", { class: "number" }, app.t(key)))];
  const lines = rows.map((each) => make("tr", {}, ...cellsOf(each, split, app)));
  return make("div", { class: "scroll" }, make("table", { class: "evaluated-rows" },
    make("thead", {}, make("tr", {}, ...headers)), make("tbody", {}, ...lines)));
}

function cellsOf(each, split, app) {
  const name = app.t("open_row", { number: each.number + 1 });
  const link = linkTo(each, split, app);
  const number = make("td", { class: "number" }, link ? make("a", { href: link, "aria-label": name }, each.number + 1) : each.number + 1);
  if (split.kind === "token_losses")
    return [number, make("td", {}, coloredTokens(each)), make("td", { class: "number" }, formatNumber(-each.score))];
  const answer = each.answer.map(([text, differs]) => (differs ? make("mark", {}, text) : text));
  const metrics = {
    chrf: formatNumber(each.score), log_probability: formatNumber(each.confidence),
    correct: formatPercent(each.score), probability: formatPercent(each.confidence),
    absolute_error: formatNumber(-each.score),
  };
  return [number, make("td", {}, each.text), make("td", {}, each.truth),
    make("td", {}, ...(answer.length ? answer : [make("mark", {}, app.t("empty"))]), each.correct ? " ✓" : ""),
    ...METRICS[split.kind].map((key) => make("td", { class: "number" }, metrics[key]))];
}

/** Tokens colored by their loss. */
function coloredTokens(each) {
  const spans = each.tokens.map((token, index) => {
    const style = sequentialStyle(Math.min(each.losses[index] / MAX_LOSS, 1));
    return make("span", { title: formatNumber(each.losses[index]), style }, readable(token));
  });
  return make("p", { class: "token-losses" }, ...spans);
}

/** A link to this row in the first supported view; null if there is none. */
function linkTo(each, split, app) {
  const { lang, dataset: { theme } } = document.documentElement;
  const shared = { run: app.run.id, lang, ...(theme ? { theme } : {}) };
  const viewName = ["vit", "attention", "recurrent", "tokenize"].find((name) => app.run.views.includes(name));
  const hasNoNumber = split.images && split.name !== "test"; // only images of the test split can be opened by number
  return viewName && !hasNoNumber ? `#${new URLSearchParams({ view: viewName, ...shared, ...inputOf(each, split) })}` : null;
}

/** The input of a row as parameters of the link: an image, the values before a forecast, or a text. */
function inputOf(each, split) {
  if (split.images) return { number: each.number };
  if (split.kind === "forecasts") return { text: each.tokens.join(" ") };
  return { text: each.text, ...(split.kind === "texts" ? { target: answerOf(each) } : {}) };
}

function answerOf(each) {
  return each.answer.map(([text]) => text).join("");
}

function tableData(rows, split, app) {
  const columns = ["number", "text_", "truth", "answer", "score", "confidence"].map((key) => app.t(key));
  const cells = (each) => [each.number + 1, each.text, each.truth, answerOf(each), each.score, each.confidence];
  return { columns, rows: rows.map(cells) };
}
