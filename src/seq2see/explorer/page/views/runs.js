/** How training went: the curves of one run or several over each other, live while they train, and their samples. */

import { curvesCode, samplesCode } from "../code/run_code.js";
import { row, slider, toggle } from "../parts/controls.js";
import { lineChart, swatch } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { movingAverage } from "../parts/smoothing.js";

const strings = {
  en: {
    title: "Runs",
    hint: "Find where the dashed line stops falling: from there on the model only learns its examples by heart.",
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
    learning_rate: "learning rate",
    grad_norm: "gradient norm, before clipping",
    tokens_per_second: "tokens per second",
    smoothing: "smoothing, % of the run",
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
    hint: "找到虚线不再下降的地方：从那里起，模型只是在死记训练样例。",
    help_text:
      "训练一步步进行的情况。训练要减小的是损失：实线为训练数据，虚线为不参与训练的验证数据。若虚线上升而实线下降，" +
      "模型就是在死记硬背；实线更高并不奇怪：随机失活和标签平滑使训练比考试更难。浅色线为记录的原值，粗线为滑动平均。仍在训练的会在这里继续增长。下方是每次评测时的同一批验证样例；" +
      "标出的词不在参考译文中。",
    overlay: "显示的训练",
    loss: "损失（虚线为验证集）",
    valid_accuracy: "验证集上猜对的比例",
    learning_rate: "学习率",
    grad_norm: "梯度范数（裁剪之前）",
    tokens_per_second: "每秒词元数",
    smoothing: "平滑（占全程 %）",
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

const POLL_INTERVAL = 3000; // milliseconds between two looks at a run that is training
const MAX_LINES = 20_000; // lines: a run that has grown by so many while one looked is asked for as a whole again
const CHARTS = ["loss", "valid_accuracy", "learning_rate", "grad_norm", "tokens_per_second"];

export const view = {
  name: "runs",
  strings,
  state: { others: "", smoothing: 2, log: true, step: -1 },

  async show(place, app) {
    const panel = { curves: new Map(), charts: make("div", { class: "charts" }), samples: make("div", {}) };
    panel.step = make("div", {});
    const redraw = coalesced(() => redrawCharts(app, panel));
    const controls = row(
      slider(app, "smoothing", { name: app.t("smoothing"), from: 0, to: 20, redraw }),
      toggle(app, "log", { name: app.t("log"), redraw }),
    );
    const overlay = app.runs.length > 1 ? overlays(app, redraw) : "";
    fill(place, overlay, controls, panel.charts, make("h2", {}, app.t("samples")), panel.step, panel.samples);
    await redraw();
    await redrawSamples(app, panel);
    poll(app, panel, redraw);
  },
};

/** The run of the page first, then those laid over it. */
function selectedRuns(app) {
  const others = app.state.others.split(",");
  return [app.run, ...app.runs.filter((run) => run !== app.run && others.includes(run.id))];
}

function colorOf(app, run) {
  return LINE_COLORS[app.runs.indexOf(run) % LINE_COLORS.length];
}

function overlays(app, redraw) {
  const boxes = app.runs.map((run) => {
    const input = make("input", { type: "checkbox", name: `over-${run.id}`, disabled: run === app.run });
    input.checked = selectedRuns(app).includes(run);
    input.addEventListener("change", () => {
      const others = new Set(app.state.others.split(",").filter(Boolean));
      if (input.checked) others.add(run.id);
      else others.delete(run.id);
      app.set({ others: [...others].join() });
      redraw().catch(app.showError);
    });
    return make("label", { class: "control toggle" }, input, swatch(colorOf(app, run)), run.name);
  });
  return make("fieldset", { class: "legend" }, make("legend", {}, app.t("overlay")), ...boxes);
}

/** Ask what a run has noted since the last time; a run that was taken back to an earlier step tells all again. */
async function refresh(app, panel, run) {
  const known = panel.curves.get(run.id);
  const answer = await app.fetchJson("runs/metrics", { run: run.id, since: known && known.lines.length < MAX_LINES ? known.next : 0 });
  const before = answer.first ? known : { lines: [], meanLines: [] };
  const lines = [...before.lines, ...answer.lines];
  const meanLines = [...before.meanLines, ...(answer.means ?? answer.lines)];
  panel.curves.set(run.id, { ...answer, lines, meanLines, curves: curvesOf([...lines, ...answer.timing]), means: curvesOf(meanLines) });
  return answer.next !== known?.next || answer.finished !== known?.finished;
}

/** Each figure that is drawn, as steps and values. */
function curvesOf(lines) {
  const curves = {};
  for (const name of [...CHARTS, "valid_loss"]) {
    const recorded = lines.filter((line) => Number.isFinite(line[name]));
    if (recorded.length) curves[name] = { steps: recorded.map((line) => line.step), values: recorded.map((line) => line[name]) };
  }
  return curves;
}

async function redrawCharts(app, panel) {
  for (const run of selectedRuns(app)) if (!panel.curves.has(run.id)) await refresh(app, panel, run);
  const charts = CHARTS.map((name) => chartOf(app, panel, name)).filter(Boolean);
  const drawn = [...CHARTS, "valid_loss"].filter((name) => selectedRuns(app).some((run) => panel.curves.get(run.id).curves[name]));
  app.showCode({ name: app.t("title"), python: curvesCode(selectedRuns(app), drawn, app.state.smoothing) });
  fill(panel.charts, ...(charts.length ? charts : [make("p", { class: "note" }, app.t("nothing"))]), thinningNote(app, panel));
}

/** What is said of a run that has noted more than is drawn. */
function thinningNote(app, panel) {
  const { next, lines } = panel.curves.get(app.run.id);
  const [all, kept] = [next, lines.length].map((count) => count.toLocaleString("en"));
  return next > lines.length ? make("p", { class: "note" }, app.t("thinned", { all, kept })) : null;
}

function chartOf(app, panel, name) {
  const lines = selectedRuns(app).flatMap((run) => linesOf(app, panel.curves.get(run.id), run, name));
  if (!lines.length) return null;
  const title = app.t(name);
  const log = app.state.log && (name === "loss" || name === "grad_norm");
  const chart = lineChart({ name: title, lines, xName: app.t("step"), log, from: name === "tokens_per_second" ? 0 : null });
  chart.svg.dataset.curve = name;
  app.addDownload({ name: title, figure: chart.svg, table: chart.table });
  return chart.element;
}

function linesOf(app, known, run, name) {
  const color = colorOf(app, run);
  const lines = [];
  const curve = known.curves[name];
  if (curve) {
    const noisy = name === "loss" || name === "grad_norm";
    const meanLines = noisy && app.state.smoothing ? known.means[name] : curve;
    const values = noisy ? movingAverage(meanLines.values, app.state.smoothing) : curve.values;
    if (noisy && app.state.smoothing) lines.push({ name: run.name, x: curve.steps, y: curve.values, color, faint: true });
    lines.push({ name: name === "loss" ? `${run.name} ${app.t("train")}` : run.name, x: meanLines.steps, y: values, color });
  }
  const valid = name === "loss" && known.curves.valid_loss;
  if (valid) lines.push({ name: `${run.name} ${app.t("valid")}`, x: valid.steps, y: valid.values, color, dashed: true });
  return lines;
}

/** The examples of one evaluation, and a slider over all of them. */
async function redrawSamples(app, panel) {
  const steps = panel.curves.get(app.run.id).samples;
  if (!steps.length) return void fill(panel.samples, make("p", { class: "note" }, app.t("nothing")));
  const place = { state: { place: Math.max(steps.indexOf(app.state.step), 0) }, fail: app.showError };
  if (app.state.step < 0) place.state.place = steps.length - 1;
  place.set = ({ place: wanted }) => {
    place.state.place = wanted;
    app.set({ step: steps[wanted] });
  };
  const redraw = coalesced(() => drawSamples(app, panel, steps[place.state.place]));
  const told = (at) => steps[at].toLocaleString("en");
  fill(panel.step, row(slider(place, "place", { name: app.t("at"), to: steps.length - 1, panel: told, redraw })));
  await redraw();
}

async function drawSamples(app, panel, step) {
  const { rows, marked } = await app.fetchJson("runs/samples", { run: app.run.id, step });
  app.showCode({ name: app.t("samples"), python: samplesCode(app.run, step) });
  const heads = ["source", "reference", "output"].map((key) => make("th", {}, app.t(key)));
  const lines = rows.map(([source, reference], place) => {
    const output = marked[place].map(([text, isNew]) => (isNew ? make("mark", {}, text) : text));
    return make("tr", {}, make("td", {}, source), make("td", {}, reference), make("td", {}, ...output));
  });
  const table = make("table", { class: "samples" }, make("tr", {}, ...heads), ...lines);
  fill(panel.samples, make("div", { class: "scroll" }, table));
  app.addDownload({ name: app.t("samples"), figure: table, table: { columns: heads.map((head) => head.textContent), rows } });
}

/** Look again every few seconds while a run that is shown trains, and this view is open. */
async function poll(app, panel, redraw) {
  while (!app.signal.aborted) {
    const training = selectedRuns(app).filter((run) => !panel.curves.get(run.id)?.finished);
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
    if (app.signal.aborted || document.hidden || !training.length) continue;
    try {
      const before = panel.curves.get(app.run.id).samples.length;
      const news = await Promise.all(training.map((run) => refresh(app, panel, run)));
      if (news.some(Boolean)) await redraw();
      if (panel.curves.get(app.run.id).samples.length > before) await redrawSamples(app, panel);
    } catch (error) {
      return app.showError(error);
    }
  }
}
