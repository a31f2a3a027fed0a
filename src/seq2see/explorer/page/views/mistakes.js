/** What a run got wrong: who was taken for whom, the rows of an evaluation, and a way from each to where it looked. */

import { confusionCode, rowsCode } from "../code/tables.js";
import { choice, press, row, textBox } from "../parts/controls.js";
import { legend, lineChart } from "../parts/chart.js";
import { LINES, shadedStyle } from "../parts/colours.js";
import { fill, make, turns } from "../parts/dom.js";
import { figure, share } from "../parts/figures.js";
import { heatMap } from "../parts/heat_map.js";
import { readable } from "../parts/strip.js";

const words = {
  en: {
    title: "Mistakes",
    look_for: "Begin with wrong answers that the model was sure of: they show what it has misunderstood.",
    help_text:
      "“seq2see eval” asks a model about every row of the splits it has not learnt from, and writes the answers down. Here " +
      "they are, the worst first: of equally wrong answers, those the model was surest of. What an answer says that the " +
      "truth does not is marked. Where there are labels, a cell of the confusion (row: truth, column: answer) leads to its " +
      "rows. A row's first cell leads to where the model looked in that very text.",
    split: "split",
    sort: "order",
    worst: "worst first",
    best: "best first",
    surest: "surest first",
    doubtful: "least sure first",
    file: "as in the file",
    search: "find",
    strips: "running text",
    confusion: "Confusion: rows are the truth, columns the answers",
    cell: "{truth} taken for {answer}",
    all_rows: "All rows",
    rows: "{from} to {to} of {total} rows",
    no_rows: "No row.",
    not_judged: "This run was not evaluated yet. “seq2see eval {run}” does that; then open this page again.",
    earlier: "← earlier",
    later: "later →",
    text_: "text",
    truth: "truth",
    answer: "answer",
    chrf: "chrF",
    right: "right",
    log_probability: "log p",
    probability: "probability",
    loss: "mean loss",
    far: "how far off",
    forecasts: "forecasts, one step ahead",
    value_: "value",
    guess_: "forecast",
    quality: "quality",
    sure: "how sure",
    number: "row",
    look: "look at row {number}",
    nothing: "(nothing)",
  },
  zh: {
    title: "错误分析",
    look_for: "先看模型很有把握却答错的：它们说明它误解了什么。",
    help_text:
      "“seq2see eval”让模型回答所有没学过的划分中的每一行，并把答案写下来。这里把它们列出，最差的在前：同样错的，模型越有把握越靠前。" +
      "答案里与参考不同的地方有标记。如果答案是标签，点混淆矩阵的一格（行：真实，列：回答）就只看那些行。" +
      "每行的第一格可以跳到模型读这段文本时的注意力。",
    split: "数据划分",
    sort: "排序",
    worst: "最差在前",
    best: "最好在前",
    surest: "最有把握在前",
    doubtful: "最没把握在前",
    file: "按文件顺序",
    search: "查找",
    strips: "连续文本",
    confusion: "混淆矩阵：行是真实标签，列是回答",
    cell: "把 {truth} 当成 {answer}",
    all_rows: "全部行",
    rows: "第 {from} 到 {to} 行，共 {total} 行",
    no_rows: "没有行。",
    not_judged: "这次训练还没有评测。先运行“seq2see eval {run}”，再打开这一页。",
    earlier: "← 前面",
    later: "后面 →",
    text_: "文本",
    truth: "真实",
    answer: "回答",
    chrf: "chrF",
    right: "正确率",
    log_probability: "log p",
    probability: "概率",
    loss: "平均损失",
    far: "相差多少",
    forecasts: "预测（提前一步）",
    value_: "数值",
    guess_: "预测",
    quality: "质量",
    sure: "把握",
    number: "行号",
    look: "看第 {number} 行",
    nothing: "（空）",
  },
};

const PAGE = 25; // rows at once
const DARKEST = 8; // the loss, in nats, from which on a token is as dark as can be
const ORDERS = ["worst", "best", "surest", "doubtful", "file"];
/** What the two figures of a row are called, by the kind of table. */
const FIGURES = {
  texts: ["chrf", "log_probability"], labels: ["probability"], tags: ["right", "probability"], strips: ["loss"], forecasts: ["far"],
};
/** What stands before them, where it is not a text, the truth and the answer. */
const COLUMNS = { strips: ["number", "text_"], forecasts: ["number", "time", "value_", "guess_"] };

export const view = {
  name: "mistakes",
  words,
  state: { split: "", sort: "worst", find: "", truth: "", answer: "", from: 0 },

  async show(place, bench) {
    const { splits, labels, pictures } = await bench.ask("mistakes/splits", { run: bench.run.id });
    if (!splits.length) return fill(place, make("p", {}, bench.word("not_judged", { run: bench.run.name })));
    const split = () => ({ labels, pictures, ...(splits.find((each) => each.name === bench.state.split) ?? splits[0]) });
    const parts = { confusion: make("div", {}), rows: make("div", {}) };
    const turn = turns();
    const redraw = turn(() => tell(parts, split(), bench));
    const rows = turn(() => tellRows(parts, split(), bench));
    parts.otherRows = (changes) => {
      bench.set(changes);
      rows().catch(bench.fail);
    };
    const anew = () => {
      bench.set({ from: 0 });
      return redraw();
    };
    const names = splits.map(({ name }) => [name, name in COLUMNS ? bench.word(name) : name]);
    fill(place, row(
      choice(bench, "split", { name: bench.word("split"), options: names, redraw: anew }),
      choice(bench, "sort", { name: bench.word("sort"), options: ORDERS.map((each) => [each, bench.word(each)]), redraw: anew }),
      textBox(bench, "find", { name: bench.word("search"), lines: 1, redraw: anew }),
    ), parts.confusion, parts.rows);
    await redraw();
  },
};

async function tell(parts, split, bench) {
  await tellConfusion(parts, split, bench);
  await tellRows(parts, split, bench);
}

/** A series and what was said of each of its values, one step ahead. */
async function tellForecasts(place, split, bench) {
  const { shape: [, count], values } = await bench.numbers("mistakes/forecasts", { run: bench.run.id, split: split.name });
  const [x, truth, said] = [0, 1, 2].map((part) => Array.from(values.subarray(part * count, (part + 1) * count)));
  const lines = [[truth, "value_"], [said, "guess_"]].map(([y, key], index) => ({ name: bench.word(key), x, y, colour: LINES[index] }));
  const chart = lineChart({ name: bench.word("forecasts"), lines, xName: bench.word("time") });
  fill(place, make("div", { class: "narrow" }, chart.element, legend(lines)));
  bench.offer({ name: bench.word("forecasts"), picture: chart.svg, table: chart.table });
}

async function tellConfusion(parts, split, bench) {
  bench.code({ name: bench.word("confusion"), python: hasLabels(split) ? confusionCode(bench.run, split.name) : null });
  if (split.kind === "forecasts") return tellForecasts(parts.confusion, split, bench);
  if (!hasLabels(split)) return fill(parts.confusion);
  const body = { run: bench.run.id, split: split.name };
  const { values } = await bench.numbers("mistakes/confusion", body);
  const { labels } = split;
  const pick = (cell) => {
    parts.otherRows({ truth: labels[cell.row], answer: labels[cell.column], from: 0 });
    map.mark(cell);
  };
  // A diagonal of right answers would outshine all mistakes: colours go as far as the commonest of these.
  const wrong = values.filter((_, index) => Math.floor(index / labels.length) !== index % labels.length);
  const most = Math.max(1, ...wrong);
  const map = heatMap({ name: bench.word("confusion"), rows: labels, columns: labels, values, most, written: String, onPick: pick });
  fill(parts.confusion, make("h2", {}, bench.word("confusion")), map.element);
  const { truth, answer } = bench.state;
  if (truth) map.mark({ row: labels.indexOf(truth), column: labels.indexOf(answer) });
  parts.leaveCell = () => {
    map.mark({});
    map.canvas.focus(); // the button that left it is gone
  };
  bench.offer({ name: bench.word("confusion"), picture: map.picture, table: map.table });
}

async function tellRows(parts, split, bench) {
  const { sort, find, truth, answer, from } = bench.state;
  const cell = hasLabels(split) && truth ? [truth, answer] : null;
  const body = { run: bench.run.id, split: split.name, sort, search: find, cell, start: from, count: PAGE };
  const { rows, total } = await bench.ask("mistakes/rows", body);
  const all = press(bench.word("all_rows"), () => {
    parts.leaveCell();
    parts.otherRows({ truth: "", answer: "", from: 0 });
  });
  const earlier = press(bench.word("earlier"), () => parts.otherRows({ from: Math.max(from - PAGE, 0) }));
  const later = press(bench.word("later"), () => parts.otherRows({ from: from + PAGE }));
  earlier.disabled = from === 0;
  later.disabled = from + PAGE >= total;
  const counted = total ? bench.word("rows", { from: from + 1, to: from + rows.length, total }) : bench.word("no_rows");
  const table = tableOf(rows, split, bench);
  fill(parts.rows, cell ? make("h2", {}, bench.word("cell", { truth, answer }), " ", all) : null,
    make("div", { class: "controls" }, make("span", { class: "note" }, counted), earlier, later),
    table);
  parts.rows.shown = rows;
  bench.offer({ name: bench.word("title"), picture: table, table: offered(rows, split, bench) });
  const python = rowsCode(bench.run, { split: split.name, sort, find, cell, from, count: PAGE });
  bench.code({ name: bench.word("title"), python });
}

function hasLabels(split) {
  return split.kind === "labels" || split.kind === "tags";
}

function tableOf(rows, split, bench) {
  const names = COLUMNS[split.kind] ?? ["number", "text_", "truth", "answer"];
  const heads = [...names.map((key) => make("th", {}, bench.word(key))),
    ...FIGURES[split.kind].map((key) => make("th", { class: "number" }, bench.word(key)))];
  const lines = rows.map((each) => make("tr", {}, ...cellsOf(each, split, bench)));
  return make("div", { class: "scroll" }, make("table", { class: "judged" },
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...lines)));
}

function cellsOf(each, split, bench) {
  const name = bench.word("look", { number: each.number + 1 });
  const link = linkTo(each, split, bench);
  const number = make("td", { class: "number" }, link ? make("a", { href: link, "aria-label": name }, each.number + 1) : each.number + 1);
  if (split.kind === "strips")
    return [number, make("td", {}, coloured(each)), make("td", { class: "number" }, figure(-each.quality))];
  const answer = each.answer.map(([text, differs]) => (differs ? make("mark", {}, text) : text));
  const figures = {
    chrf: figure(each.quality), log_probability: figure(each.sure), right: share(each.quality), probability: share(each.sure),
    far: figure(-each.quality),
  };
  return [number, make("td", {}, each.text), make("td", {}, each.truth),
    make("td", {}, ...(answer.length ? answer : [make("mark", {}, bench.word("nothing"))]), each.right ? " ✓" : ""),
    ...FIGURES[split.kind].map((key) => make("td", { class: "number" }, figures[key]))];
}

/** Pieces coloured by how much each surprised the model. */
function coloured(each) {
  const pieces = each.pieces.map((piece, place) => {
    const style = shadedStyle(Math.min(each.losses[place] / DARKEST, 1));
    return make("span", { title: figure(each.losses[place]), style }, readable(piece));
  });
  return make("p", { class: "surprises" }, ...pieces);
}

/** Where this very row can be looked at: in the first view that suits, with its answer; null where there is none. */
function linkTo(each, split, bench) {
  const { lang, dataset: { look } } = document.documentElement;
  const kept = { run: bench.run.id, lang, ...(look ? { look } : {}) };
  const view_ = ["vit", "attention", "recurrent", "tokenise"].find((name) => bench.run.views.includes(name));
  const unknown = split.pictures && split.name !== "test"; // only test pictures have numbers to be found by
  return view_ && !unknown ? `#${new URLSearchParams({ view: view_, ...kept, ...givenIn(each, split) })}` : null;
}

/** What the model was given in a row, as the link says it: a picture, the values before a forecast, or a text. */
function givenIn(each, split) {
  if (split.pictures) return { number: each.number };
  if (split.kind === "forecasts") return { text: each.pieces.join(" ") };
  return { text: each.text, ...(split.kind === "texts" ? { target: answerOf(each) } : {}) };
}

function answerOf(each) {
  return each.answer.map(([text]) => text).join("");
}

function offered(rows, split, bench) {
  const columns = ["number", "text_", "truth", "answer", "quality", "sure"].map((key) => bench.word(key));
  const cells = (each) => [each.number + 1, each.text, each.truth, answerOf(each), each.quality, each.sure];
  return { columns, rows: rows.map(cells) };
}
