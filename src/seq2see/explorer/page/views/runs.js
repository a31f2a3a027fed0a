/** The view "Runs": training curves of one or several runs, updated while they train, and sample outputs. */

import { curvesCode, samplesCode } from "../code/run_code.js";
import { row, slider, toggle } from "../parts/controls.js";
import { lineChart, swatch } from "../parts/chart.js";
import { LINE_COLORS } from "../parts/colors.js";
import { fill, coalesced, make } from "../parts/dom.js";
import { movingAverage } from "../parts/smoothing.js";

const strings = {
  en: {
    title: "Runs",
    hint: "Find the step where the dashed line stops falling: from there on the model overfits.",
    help_text:
      "The curves of training. Solid: the loss on the training data; dashed: the loss on the validation data. If the dashed " +
      "line rises while the solid one falls, the model overfits. A higher training loss is common, as dropout and label " +
      "smoothing are only used in training. Faint lines are the recorded values, bold lines their moving average. The curves " +
      "of a run in progress are updated. Below: the outputs for the same validation examples at every evaluation; " +
      "highlighted words are not in the reference.",
    overlay: "runs",
    loss: "loss (dashed: validation)",
    valid_accuracy: "validation accuracy",
    learning_rate: "learning rate",
    grad_norm: "gradient norm before clipping",
    tokens_per_second: "tokens per second",
    smoothing: "smoothing, % of the run",
    log: "logarithmic",
    step: "step",
    train: "train",
    valid: "valid",
    samples: "Sample outputs",
    at: "at step",
    source: "source",
    reference: "reference",
    output: "output",
    no_metrics: "No metrics are recorded yet.",
    downsampled: "{drawn} of {all} records are drawn: the minimum and the maximum of each metric in every interval.",
  },
  zh: {
    title: "训练过程",
    hint: "找到虚线不再下降的地方：从那里起，模型过拟合。",
    help_text:
      "训练曲线。实线：训练数据上的损失；虚线：验证数据上的损失。若虚线上升而实线下降，模型就过拟合了。" +
      "训练损失较高很常见，因为 dropout（暂退法）和标签平滑只用于训练。浅色线为记录的值，粗线为滑动平均。" +
      "正在进行的运行会继续更新。下方是每次评测时同一批验证样例的输出；标出的词不在参考译文中。",
    overlay: "显示的运行",
    loss: "损失（虚线为验证集）",
    valid_accuracy: "验证集准确率",
    learning_rate: "学习率",
    grad_norm: "梯度范数（裁剪之前）",
    tokens_per_second: "每秒词元数",
    smoothing: "平滑（占全程 %）",
    log: "对数坐标",
    step: "步",
    train: "训练",
    valid: "验证",
    samples: "样例输出",
    at: "第几步",
    source: "原文",
    reference: "参考",
    output: "输出",
    no_metrics: "尚无记录。",
    downsampled: "共 {all} 条记录，画出 {drawn} 条：每一小段中各项指标的最小值和最大值。",
  },
};

const POLL_INTERVAL = 3000; // milliseconds between two requests for the metrics of a run in progress
const MAX_LINES = 20_000; // cached records; beyond that, all metrics are requested again
const CHARTS = ["loss", "valid_accuracy", "learning_rate", "grad_norm", "tokens_per_second"];

export const view = {
  name: "runs",
  strings,
  state: { others: "", smoothing: 2, log: true, step: -1 },

  async show(container, app) {
    const panel = { curves: new Map(), charts: make("div", { class: "charts" }), samples: make("div", {}) };
    panel.step = make("div", {});
    const redraw = coalesced(() => redrawCharts(app, panel));
    const controls = row(
      slider(app, "smoothing", { name: app.t("smoothing"), from: 0, to: 20, redraw }),
      toggle(app, "log", { name: app.t("log"), redraw }),
    );
    const overlay = app.runs.length > 1 ? overlays(app, redraw) : "";
    fill(container, overlay, controls, panel.charts, make("h2", {}, app.t("samples")), panel.step, panel.samples);
    await redraw();
    await redrawSamples(app, panel);
    poll(app, panel, redraw);
  },
};

/** The run of the page, and the runs selected in addition. */
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

/** Request new records of a run; if the run was reset to an earlier step, the response contains all records. */
async function refresh(app, panel, run) {
  const cached = panel.curves.get(run.id);
  const response = await app.fetchJson("runs/metrics", { run: run.id, since: cached && cached.lines.length < MAX_LINES ? cached.next : 0 });
  const previous = response.first ? cached : { lines: [], meanLines: [] };
  const lines = [...previous.lines, ...response.lines];
  const meanLines = [...previous.meanLines, ...(response.means ?? response.lines)];
  panel.curves.set(run.id, { ...response, lines, meanLines, curves: curvesOf([...lines, ...response.timing]), means: curvesOf(meanLines) });
  return response.next !== cached?.next || response.finished !== cached?.finished;
}

/** Each metric that is drawn, as steps and values. */
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
  const metrics = [...CHARTS, "valid_loss"].filter((name) => selectedRuns(app).some((run) => panel.curves.get(run.id).curves[name]));
  app.showCode({ name: app.t("title"), python: curvesCode(selectedRuns(app), metrics, app.state.smoothing) });
  fill(panel.charts, ...(charts.length ? charts : [make("p", { class: "note" }, app.t("no_metrics"))]), downsamplingNote(app, panel));
}

/** A note for a run with more records than are drawn. */
function downsamplingNote(app, panel) {
  const { next, lines } = panel.curves.get(app.run.id);
  const [all, drawnCount] = [next, lines.length].map((count) => count.toLocaleString("en"));
  return next > lines.length ? make("p", { class: "note" }, app.t("downsampled", { all, drawn: drawnCount })) : null;
}

function chartOf(app, panel, name) {
  const lines = selectedRuns(app).flatMap((run) => linesOf(app, panel.curves.get(run.id), run, name));
  if (!lines.length) return null;
  const title = app.t(name);
  const log = app.state.log && (name === "loss" || name === "grad_norm");
  const chart = lineChart({ name: title, lines, xName: app.t("step"), log, from: name === "tokens_per_second" ? 0 : null });
  chart.svg.dataset.metric = name;
  app.addDownload({ name: title, figure: chart.svg, table: chart.table });
  return chart.element;
}

function linesOf(app, cached, run, name) {
  const color = colorOf(app, run);
  const lines = [];
  const curve = cached.curves[name];
  if (curve) {
    const noisy = name === "loss" || name === "grad_norm";
    const meanLines = noisy && app.state.smoothing ? cached.means[name] : curve;
    const values = noisy ? movingAverage(meanLines.values, app.state.smoothing) : curve.values;
    if (noisy && app.state.smoothing) lines.push({ name: run.name, x: curve.steps, y: curve.values, color, faint: true });
    lines.push({ name: name === "loss" ? `${run.name} ${app.t("train")}` : run.name, x: meanLines.steps, y: values, color });
  }
  const valid = name === "loss" && cached.curves.valid_loss;
  if (valid) lines.push({ name: `${run.name} ${app.t("valid")}`, x: valid.steps, y: valid.values, color, dashed: true });
  return lines;
}

/** Draw the sample outputs of one evaluation, and a slider over all evaluations. */
async function redrawSamples(app, panel) {
  const steps = panel.curves.get(app.run.id).samples;
  if (!steps.length) return void fill(panel.samples, make("p", { class: "note" }, app.t("no_metrics")));
  const sliderApp = { state: { index: Math.max(steps.indexOf(app.state.step), 0) }, showError: app.showError };
  if (app.state.step < 0) sliderApp.state.index = steps.length - 1;
  sliderApp.set = ({ index }) => {
    sliderApp.state.index = index;
    app.set({ step: steps[index] });
  };
  const redraw = coalesced(() => drawSamples(app, panel, steps[sliderApp.state.index]));
  const formatStep = (index) => steps[index].toLocaleString("en");
  fill(panel.step, row(slider(sliderApp, "index", { name: app.t("at"), to: steps.length - 1, format: formatStep, redraw })));
  await redraw();
}

async function drawSamples(app, panel, step) {
  const { rows, marked } = await app.fetchJson("runs/samples", { run: app.run.id, step });
  app.showCode({ name: app.t("samples"), python: samplesCode(app.run, step) });
  const headers = ["source", "reference", "output"].map((key) => make("th", {}, app.t(key)));
  const lines = rows.map(([source, reference], index) => {
    const output = marked[index].map(([text, isNew]) => (isNew ? make("mark", {}, text) : text));
    return make("tr", {}, make("td", {}, source), make("td", {}, reference), make("td", {}, ...output));
  });
  const table = make("table", { class: "samples" }, make("tr", {}, ...headers), ...lines);
  fill(panel.samples, make("div", { class: "scroll" }, table));
  app.addDownload({ name: app.t("samples"), figure: table, table: { columns: headers.map((head) => head.textContent), rows } });
}

/** Request new metrics every few seconds while a selected run is in progress and this view is open. */
async function poll(app, panel, redraw) {
  while (!app.signal.aborted) {
    const training = selectedRuns(app).filter((run) => !panel.curves.get(run.id)?.finished);
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
    if (app.signal.aborted || document.hidden || !training.length) continue;
    try {
      const previous = panel.curves.get(app.run.id).samples.length;
      const news = await Promise.all(training.map((run) => refresh(app, panel, run)));
      if (news.some(Boolean)) await redraw();
      if (panel.curves.get(app.run.id).samples.length > previous) await redrawSamples(app, panel);
    } catch (error) {
      return app.showError(error);
    }
  }
}
