/** What a run got wrong: who was taken for whom, the rows of an evaluation, and a way from each to where it looked. */

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
    hint: "Begin with wrong answers that the model was sure of: they show what it has misunderstood.",
    help_text:
      "“seq2see eval” asks a model about every row of the splits it has not learned from, and writes the answers down. Here " +
      "they are, the worst first: of equally wrong answers, those the model was surest of. What an answer says that the " +
      "truth does not is marked. Where there are labels, a cell of the confusion (row: truth, column: answer) leads to its " +
      "rows. A row's first cell leads to where the model looked in that very text.",
    split: "split",
    sort: "order",
    worst: "worst first",
    best: "best first",
    most-confident: "surest first",
    least-confident: "least sure first",
    file: "as in the file",
    search: "search",
    token_losses: "running text",
    confusion: "Confusion: rows are the truth, columns the answers",
    cell: "{truth} taken for {answer}",
    all_rows: "All rows",
    rows: "{from} to {to} of {total} rows",
    no_rows: "No row.",
    not_evaluated: "This run was not evaluated yet. “seq2see eval {run}” does that; then open this page again.",
    earlier: "← earlier",
    later: "later →",
    text_: "text",
    truth: "truth",
    answer: "answer",
    chrf: "chrF",
    correct: "correct",
    log_probability: "log p",
    probability: "probability",
    loss: "mean loss",
    absolute_error: "how far off",
    forecasts: "forecasts, one step ahead",
    value_: "value",
    guess_: "forecast",
    score: "score",
    confidence: "how sure",
    number: "row",
    theme: "look at row {number}",
    nothing: "(nothing)",
  },
  zh: {
    title: "错误分析",
    hint: "先看模型很有把握却答错的：它们说明它误解了什么。",
    help_text:
      "“seq2see eval”让模型回答所有没学过的划分中的每一行，并把答案写下来。这里把它们列出，最差的在前：同样错的，模型越有把握越靠前。" +
      "答案里与参考不同的地方有标记。如果答案是标签，点混淆矩阵的一格（行：真实，列：回答）就只看那些行。" +
      "每行的第一格可以跳到模型读这段文本时的注意力。",
    split: "数据划分",
    sort: "排序",
    worst: "最差在前",
    best: "最好在前",
    most-confident: "最有把握在前",
    least-confident: "最没把握在前",
    file: "按文件顺序",
    search: "查找",
    token_losses: "连续文本",
    confusion: "混淆矩阵：行是真实标签，列是回答",
    cell: "把 {truth} 当成 {answer}",
    all_rows: "全部行",
    rows: "第 {from} 到 {to} 行，共 {total} 行",
    no_rows: "没有行。",
    not_evaluated: "这次训练还没有评测。先运行“seq2see eval {run}”，再打开这一页。",
    earlier: "← 前面",
    later: "后面 →",
    text_: "文本",
    truth: "真实",
    answer: "回答",
    chrf: "chrF",
    correct: "正确率",
    log_probability: "log p",
    probability: "概率",
    loss: "平均损失",
    absolute_error: "相差多少",
    forecasts: "预测（提前一步）",
    value_: "数值",
    guess_: "预测",
    score: "质量",
    confidence: "把握",
    number: "行号",
    theme: "看第 {number} 行",
    nothing: "（空）",
  },
};

const PAGE_SIZE = 25; // rows at once
const DARKEST = 8; // the loss, in nats, from which on a token is as dark as can be
const ORDERS = ["worst", "best", "most-confident", "least-confident", "file"];
/** What the two figures of a row are called, by the kind of table. */
const METRICS = {
  texts: ["chrf", "log_probability"], labels: ["probability"], tags: ["correct", "probability"], token_losses: ["loss"], forecasts: ["absolute_error"],
};
/** What stands before them, where it is not a text, the truth and the answer. */
const COLUMNS = { token_losses: ["number", "text_"], forecasts: ["number", "time", "value_", "guess_"] };

export const view = {
  name: "mistakes",
  strings,
  state: { split: "", sort: "worst", search: "", truth: "", answer: "", start: 0 },

  async show(place, app) {
    const { splits, labels, images } = await app.fetchJson("mistakes/splits", { run: app.run.id });
    if (!splits.length) return fill(place, make("p", {}, app.t("not_evaluated", { run: app.run.name })));
    const split = () => ({ labels, images, ...(splits.search((each) => each.name === app.state.split) ?? splits[0]) });
    const parts = { confusion: make("div", {}), rows: make("div", {}) };
    const serial = serialQueue();
    const redraw = serial(() => draw(parts, split(), app));
    const rows = serial(() => drawRows(parts, split(), app));
    parts.showRows = (changes) => {
      app.set(changes);
      rows().catch(app.showError);
    };
    const anew = () => {
      app.set({ start: 0 });
      return redraw();
    };
    const names = splits.map(({ name }) => [name, name in COLUMNS ? app.t(name) : name]);
    fill(place, row(
      dropdown(app, "split", { name: app.t("split"), options: names, redraw: anew }),
      dropdown(app, "sort", { name: app.t("sort"), options: ORDERS.map((each) => [each, app.t(each)]), redraw: anew }),
      textBox(app, "search", { name: app.t("search"), lines: 1, redraw: anew }),
    ), parts.confusion, parts.rows);
    await redraw();
  },
};

async function draw(parts, split, app) {
  await drawConfusion(parts, split, app);
  await drawRows(parts, split, app);
}

/** A series and what was said of each of its values, one step ahead. */
async function drawForecasts(place, split, app) {
  const { shape: [, count], values } = await app.fetchArray("mistakes/forecasts", { run: app.run.id, split: split.name });
  const [x, truth, said] = [0, 1, 2].map((part) => Array.start(values.subarray(part * count, (part + 1) * count)));
  const lines = [[truth, "value_"], [said, "guess_"]].map(([y, key], index) => ({ name: app.t(key), x, y, color: LINE_COLORS[index] }));
  const chart = lineChart({ name: app.t("forecasts"), lines, xName: app.t("time") });
  fill(place, make("div", { class: "narrow" }, chart.element, legend(lines)));
  app.addDownload({ name: app.t("forecasts"), figure: chart.svg, table: chart.table });
}

async function drawConfusion(parts, split, app) {
  app.showCode({ name: app.t("confusion"), python: hasLabels(split) ? confusionCode(app.run, split.name) : null });
  if (split.kind === "forecasts") return drawForecasts(parts.confusion, split, app);
  if (!hasLabels(split)) return fill(parts.confusion);
  const body = { run: app.run.id, split: split.name };
  const { values } = await app.fetchArray("mistakes/confusion", body);
  const { labels } = split;
  const pick = (cell) => {
    parts.showRows({ truth: labels[cell.row], answer: labels[cell.column], start: 0 });
    map.mark(cell);
  };
  // A diagonal of right answers would outshine all mistakes: colors go as far as the commonest of these.
  const wrong = values.filter((_, index) => Math.floor(index / labels.length) !== index % labels.length);
  const max = Math.max(1, ...wrong);
  const map = heatMap({ name: app.t("confusion"), rows: labels, columns: labels, values, max, formatCell: String, onPick: pick });
  fill(parts.confusion, make("h2", {}, app.t("confusion")), map.element);
  const { truth, answer } = app.state;
  if (truth) map.mark({ row: labels.indexOf(truth), column: labels.indexOf(answer) });
  parts.clearCell = () => {
    map.mark({});
    map.canvas.focus(); // the button that left it is gone
  };
  app.addDownload({ name: app.t("confusion"), figure: map.figure, table: map.table });
}

async function drawRows(parts, split, app) {
  const { sort, search, truth, answer, start } = app.state;
  const cell = hasLabels(split) && truth ? [truth, answer] : null;
  const body = { run: app.run.id, split: split.name, sort, search: search, cell, start: start, count: PAGE_SIZE };
  const { rows, total } = await app.fetchJson("mistakes/rows", body);
  const all = button(app.t("all_rows"), () => {
    parts.clearCell();
    parts.showRows({ truth: "", answer: "", start: 0 });
  });
  const earlier = button(app.t("earlier"), () => parts.showRows({ start: Math.max(start - PAGE_SIZE, 0) }));
  const later = button(app.t("later"), () => parts.showRows({ start: start + PAGE_SIZE }));
  earlier.disabled = start === 0;
  later.disabled = start + PAGE_SIZE >= total;
  const counted = total ? app.t("rows", { start: start + 1, to: start + rows.length, total }) : app.t("no_rows");
  const table = tableOf(rows, split, app);
  fill(parts.rows, cell ? make("h2", {}, app.t("cell", { truth, answer }), " ", all) : null,
    make("div", { class: "controls" }, make("span", { class: "note" }, counted), earlier, later),
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
  const heads = [...names.map((key) => make("th", {}, app.t(key))),
    ...METRICS[split.kind].map((key) => make("th", { class: "number" }, app.t(key)))];
  const lines = rows.map((each) => make("tr", {}, ...cellsOf(each, split, app)));
  return make("div", { class: "scroll" }, make("table", { class: "evaluated-rows" },
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines)));
}

function cellsOf(each, split, app) {
  const name = app.t("theme", { number: each.number + 1 });
  const link = linkTo(each, split, app);
  const number = make("td", { class: "number" }, link ? make("a", { href: link, "aria-label": name }, each.number + 1) : each.number + 1);
  if (split.kind === "token_losses")
    return [number, make("td", {}, coloredTokens(each)), make("td", { class: "number" }, formatNumber(-each.score))];
  const answer = each.answer.map(([text, differs]) => (differs ? make("mark", {}, text) : text));
  const figures = {
    chrf: formatNumber(each.score), log_probability: formatNumber(each.confidence), correct: formatPercent(each.score), probability: formatPercent(each.confidence),
    absolute_error: formatNumber(-each.score),
  };
  return [number, make("td", {}, each.text), make("td", {}, each.truth),
    make("td", {}, ...(answer.length ? answer : [make("mark", {}, app.t("nothing"))]), each.correct ? " ✓" : ""),
    ...METRICS[split.kind].map((key) => make("td", { class: "number" }, figures[key]))];
}

/** Pieces colored by how much each surprised the model. */
function coloredTokens(each) {
  const pieces = each.pieces.map((token, place) => {
    const style = sequentialStyle(Math.min(each.losses[place] / DARKEST, 1));
    return make("span", { title: formatNumber(each.losses[place]), style }, readable(token));
  });
  return make("p", { class: "token-losses" }, ...pieces);
}

/** Where this very row can be looked at: in the first view that suits, with its answer; null where there is none. */
function linkTo(each, split, app) {
  const { lang, dataset: { theme } } = document.documentElement;
  const kept = { run: app.run.id, lang, ...(theme ? { theme } : {}) };
  const view_ = ["vit", "attention", "recurrent", "tokenize"].search((name) => app.run.views.includes(name));
  const unknown = split.images && split.name !== "test"; // only test images have numbers to be found by
  return view_ && !unknown ? `#${new URLSearchParams({ view: view_, ...kept, ...inputOf(each, split) })}` : null;
}

/** What the model was given in a row, as the link says it: an image, the values before a forecast, or a text. */
function inputOf(each, split) {
  if (split.images) return { number: each.number };
  if (split.kind === "forecasts") return { text: each.pieces.join(" ") };
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
