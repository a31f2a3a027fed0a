/** How training went: the curves of one run or several over each other, live while they train, and their samples. */

import { curvesCode, samplesCode } from "../code/tables.js";
import { row, slider, toggle } from "../parts/controls.js";
import { lineChart, swatch } from "../parts/chart.js";
import { LINES } from "../parts/colours.js";
import { fill, latest, make } from "../parts/dom.js";
import { smoothed } from "../parts/smoothing.js";

const words = {
  en: {
    title: "Runs",
    look_for: "Find where the dashed line stops falling: from there on the model only learns its examples by heart.",
    help_text:
      "How training went, step by step. The loss is what training makes small: solid on the training data, dashed on " +
      "validation data that the model is not trained on. When the dashed line rises while the solid one falls, the model " +
      "learns its examples by heart; that the solid one lies higher is usual, as dropout and smoothed labels make " +
      "training harder than the test. Faint lines are the figures as noted, bold ones their moving mean. A run that is " +
      "still training goes on growing here. Below: the same validation examples at every evaluation; marked words are " +
      "not in the reference.",
    overlay: "runs shown",
    loss: "loss (dashed: validation)",
    valid_accuracy: "right guesses on validation data",
    rate: "learning rate",
    gradient_norm: "gradient norm, before clipping",
    tokens_per_second: "tokens per second",
    smooth: "smoothing, % of the run",
    log: "logarithmic",
    step: "step",
    train: "train",
    valid: "valid",
    samples: "The same examples, step by step",
    at: "at step",
    source: "source",
    reference: "reference",
    output: "output",
    nothing: "Nothing is noted yet.",
    thinned: "Of {all} lines that were noted, {kept} are drawn: of every stretch the lowest and the highest of each figure.",
  },
  zh: {
    title: "训练过程",
    look_for: "找到虚线不再下降的地方：从那里起，模型只是在死记训练样例。",
    help_text:
      "训练一步步进行的情况。训练要减小的是损失：实线为训练数据，虚线为不参与训练的验证数据。若虚线上升而实线下降，" +
      "模型就是在死记硬背；实线更高并不奇怪：随机失活和标签平滑使训练比考试更难。浅色线为记录的原值，粗线为滑动平均。仍在训练的会在这里继续增长。下方是每次评测时的同一批验证样例；" +
      "标出的词不在参考译文中。",
    overlay: "显示的训练",
    loss: "损失（虚线为验证集）",
    valid_accuracy: "验证集上猜对的比例",
    rate: "学习率",
    gradient_norm: "梯度范数（裁剪之前）",
    tokens_per_second: "每秒词元数",
    smooth: "平滑（占全程 %）",
    log: "对数坐标",
    step: "步",
    train: "训练",
    valid: "验证",
    samples: "同样的例子，不同的阶段",
    at: "第几步",
    source: "原文",
    reference: "参考",
    output: "输出",
    nothing: "尚无记录。",
    thinned: "共记录 {all} 行，图中画出 {kept} 行：每一小段中各项指标的最低和最高值。",
  },
};

const PAUSE = 3000; // milliseconds between two looks at a run that is training
const MOST = 20_000; // lines: a run that has grown by so many while one looked is asked for as a whole again
const CHARTS = ["loss", "valid_accuracy", "rate", "gradient_norm", "tokens_per_second"];

export const view = {
  name: "runs",
  words,
  state: { others: "", smooth: 2, log: true, step: -1 },

  async show(place, bench) {
    const shown = { curves: new Map(), charts: make("div", { class: "charts" }), samples: make("div", {}) };
    shown.step = make("div", {});
    const redraw = latest(() => redrawCharts(bench, shown));
    const controls = row(
      slider(bench, "smooth", { name: bench.word("smooth"), from: 0, to: 20, redraw }),
      toggle(bench, "log", { name: bench.word("log"), redraw }),
    );
    const overlay = bench.runs.length > 1 ? overlays(bench, redraw) : "";
    fill(place, overlay, controls, shown.charts, make("h2", {}, bench.word("samples")), shown.step, shown.samples);
    await redraw();
    await redrawSamples(bench, shown);
    follow(bench, shown, redraw);
  },
};

/** The run of the page first, then those laid over it. */
function chosen(bench) {
  const others = bench.state.others.split(",");
  return [bench.run, ...bench.runs.filter((run) => run !== bench.run && others.includes(run.id))];
}

function colourOf(bench, run) {
  return LINES[bench.runs.indexOf(run) % LINES.length];
}

function overlays(bench, redraw) {
  const boxes = bench.runs.map((run) => {
    const input = make("input", { type: "checkbox", name: `over-${run.id}`, disabled: run === bench.run });
    input.checked = chosen(bench).includes(run);
    input.addEventListener("change", () => {
      const others = new Set(bench.state.others.split(",").filter(Boolean));
      if (input.checked) others.add(run.id);
      else others.delete(run.id);
      bench.set({ others: [...others].join() });
      redraw().catch(bench.fail);
    });
    return make("label", { class: "control toggle" }, input, swatch(colourOf(bench, run)), run.name);
  });
  return make("fieldset", { class: "legend" }, make("legend", {}, bench.word("overlay")), ...boxes);
}

/** Ask what a run has noted since the last time; a run that was taken back to an earlier step tells all again. */
async function refresh(bench, shown, run) {
  const known = shown.curves.get(run.id);
  const answer = await bench.ask("runs/metrics", { run: run.id, since: known && known.lines.length < MOST ? known.next : 0 });
  const before = answer.first ? known : { lines: [], even: [] };
  const lines = [...before.lines, ...answer.lines];
  const even = [...before.even, ...(answer.means ?? answer.lines)];
  shown.curves.set(run.id, { ...answer, lines, even, curves: curvesOf([...lines, ...answer.timing]), means: curvesOf(even) });
  return answer.next !== known?.next || answer.finished !== known?.finished;
}

/** Each figure that is drawn, as steps and values. */
function curvesOf(lines) {
  const curves = {};
  for (const name of [...CHARTS, "valid_loss"]) {
    const noted = lines.filter((line) => Number.isFinite(line[name]));
    if (noted.length) curves[name] = { steps: noted.map((line) => line.step), values: noted.map((line) => line[name]) };
  }
  return curves;
}

async function redrawCharts(bench, shown) {
  for (const run of chosen(bench)) if (!shown.curves.has(run.id)) await refresh(bench, shown, run);
  const charts = CHARTS.map((name) => chartOf(bench, shown, name)).filter(Boolean);
  const drawn = [...CHARTS, "valid_loss"].filter((name) => chosen(bench).some((run) => shown.curves.get(run.id).curves[name]));
  bench.code({ name: bench.word("title"), python: curvesCode(chosen(bench), drawn, bench.state.smooth) });
  fill(shown.charts, ...(charts.length ? charts : [make("p", { class: "note" }, bench.word("nothing"))]), thinning(bench, shown));
}

/** What is said of a run that has noted more than is drawn. */
function thinning(bench, shown) {
  const { next, lines } = shown.curves.get(bench.run.id);
  const [all, kept] = [next, lines.length].map((count) => count.toLocaleString("en"));
  return next > lines.length ? make("p", { class: "note" }, bench.word("thinned", { all, kept })) : null;
}

function chartOf(bench, shown, name) {
  const lines = chosen(bench).flatMap((run) => linesOf(bench, shown.curves.get(run.id), run, name));
  if (!lines.length) return null;
  const title = bench.word(name);
  const log = bench.state.log && (name === "loss" || name === "gradient_norm");
  const chart = lineChart({ name: title, lines, xName: bench.word("step"), log, from: name === "tokens_per_second" ? 0 : null });
  chart.svg.dataset.curve = name;
  bench.offer({ name: title, picture: chart.svg, table: chart.table });
  return chart.element;
}

function linesOf(bench, known, run, name) {
  const colour = colourOf(bench, run);
  const lines = [];
  const curve = known.curves[name];
  if (curve) {
    const noisy = name === "loss" || name === "gradient_norm";
    const even = noisy && bench.state.smooth ? known.means[name] : curve;
    const values = noisy ? smoothed(even.values, bench.state.smooth) : curve.values;
    if (noisy && bench.state.smooth) lines.push({ name: run.name, x: curve.steps, y: curve.values, colour, faint: true });
    lines.push({ name: name === "loss" ? `${run.name} ${bench.word("train")}` : run.name, x: even.steps, y: values, colour });
  }
  const valid = name === "loss" && known.curves.valid_loss;
  if (valid) lines.push({ name: `${run.name} ${bench.word("valid")}`, x: valid.steps, y: valid.values, colour, dashed: true });
  return lines;
}

/** The examples of one evaluation, and a slider over all of them. */
async function redrawSamples(bench, shown) {
  const steps = shown.curves.get(bench.run.id).samples;
  if (!steps.length) return void fill(shown.samples, make("p", { class: "note" }, bench.word("nothing")));
  const place = { state: { place: Math.max(steps.indexOf(bench.state.step), 0) }, fail: bench.fail };
  if (bench.state.step < 0) place.state.place = steps.length - 1;
  place.set = ({ place: wanted }) => {
    place.state.place = wanted;
    bench.set({ step: steps[wanted] });
  };
  const redraw = latest(() => tellSamples(bench, shown, steps[place.state.place]));
  const told = (at) => steps[at].toLocaleString("en");
  fill(shown.step, row(slider(place, "place", { name: bench.word("at"), to: steps.length - 1, shown: told, redraw })));
  await redraw();
}

async function tellSamples(bench, shown, step) {
  const { rows, marked } = await bench.ask("runs/samples", { run: bench.run.id, step });
  bench.code({ name: bench.word("samples"), python: samplesCode(bench.run, step) });
  const heads = ["source", "reference", "output"].map((key) => make("th", {}, bench.word(key)));
  const lines = rows.map(([source, reference], place) => {
    const output = marked[place].map(([text, isNew]) => (isNew ? make("mark", {}, text) : text));
    return make("tr", {}, make("td", {}, source), make("td", {}, reference), make("td", {}, ...output));
  });
  const table = make("table", { class: "samples" }, make("tr", {}, ...heads), ...lines);
  fill(shown.samples, make("div", { class: "scroll" }, table));
  bench.offer({ name: bench.word("samples"), picture: table, table: { columns: heads.map((head) => head.textContent), rows } });
}

/** Look again every few seconds while a run that is shown trains, and this view is open. */
async function follow(bench, shown, redraw) {
  while (!bench.signal.aborted) {
    const training = chosen(bench).filter((run) => !shown.curves.get(run.id)?.finished);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (bench.signal.aborted || document.hidden || !training.length) continue;
    try {
      const before = shown.curves.get(bench.run.id).samples.length;
      const news = await Promise.all(training.map((run) => refresh(bench, shown, run)));
      if (news.some(Boolean)) await redraw();
      if (shown.curves.get(bench.run.id).samples.length > before) await redrawSamples(bench, shown);
    } catch (error) {
      return bench.fail(error);
    }
  }
}
