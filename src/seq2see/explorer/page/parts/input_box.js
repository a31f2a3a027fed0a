/**
 * The input of a model, for all views: a typed text or series of numbers, or an image or video of the run's test split,
 * chosen by its number.
 *
 *   const input = inputBox(app, { name: app.t("source"), defaultText: "我有一支笔", redraw });
 *   container.append(row(...input.controls), input.element);
 *   await app.fetchJson("decode/search-tree", { run: app.run.id, ...input.params(), ... });
 *
 * params()  the fields of a request that specify the input: `{text}`, `{number}`, or `{pixels}` of an uploaded image
 * truth()   a promise of the reference output, "" if there is none
 * redraw()  to be called by a view that changes the input by itself
 *
 * `element` shows the image, the frames of the video, or the series as a curve with the predictions of the model.
 */

import { legend, lineChart } from "./chart.js";
import { LINE_COLORS } from "./colors.js";
import { slider, textBox } from "./controls.js";
import { fill, coalesced, make } from "./dom.js";
import { fileInput } from "./file_input.js";
import { canvasOf } from "./patch_image.js";

export const HORIZON = 16; // forecast values of a series
const FRAMES_PER_ROW = 16; // frames of a video in one row

/** Whether the input of a run's model is an image or a video. */
export function takesImages(run) {
  return run.capabilities.includes("images") || run.capabilities.includes("videos");
}

export function inputBox(app, { name, defaultText, redraw }) {
  if (takesImages(app.run)) return imageBox(app, redraw);
  const container = make("div", { class: "model-input" });
  const text = () => app.state.text || defaultText;
  const isSeries = app.run.capabilities.includes("series");
  const drawInput = coalesced(() => drawSeries(app, container, text()));
  const redrawAll = async () => {
    await redraw();
    await drawInput();
  };
  const box = textBox(app, "text", { name, placeholder: defaultText, redraw: isSeries ? redrawAll : redraw });
  if (isSeries) drawInput().catch(app.showError);
  const { example } = app.run;
  return {
    controls: [box],
    element: container,
    redraw: isSeries ? redrawAll : redraw,
    params: () => ({ text: text() }),
    truth: async () => (app.state.text ? "" : example?.target ?? ""), // only the example has a reference
  };
}

/** The fields of a request that specify an image. */
export function imageRequest({ run, number, pixels }) {
  return { run, ...(pixels ? { pixels } : { number }), order: [], cover: [] };
}

/** An image of the server as an element; a video, whose frames lie side by side in the pixels, as a row of frames. */
export function imageElement(pixels, name) {
  const [height, width] = pixels.shape;
  const image = canvasOf(pixels);
  const frames = Array.from({ length: Math.max(Math.round(width / height), 1) }, (_, frame) => {
    const canvas = make("canvas", { width: Math.min(height, width), height });
    canvas.getContext("2d").drawImage(image, -frame * height, 0);
    return canvas;
  });
  const numbered = frames.map((canvas, frame) => make("span", {}, canvas, make("small", {}, frame + 1)));
  const columns = Math.min(frames.length, FRAMES_PER_ROW);
  const attributes = frames.length > 1 ? { class: "frames", style: { "--columns": columns } } : { class: "frame" };
  const row = make("div", { ...attributes, role: "img", "aria-label": name }, ...(frames.length > 1 ? numbered : frames));
  row.viewData = { pixels: pixels.values, frames: frames.length };
  return row;
}

function imageBox(app, redraw) {
  const container = make("div", { class: "model-input" });
  const params = () => (app.state.pixels ? { pixels: app.state.pixels } : { number: app.state.number });
  const video = app.run.capabilities.includes("videos");
  let [shown, count] = [{ key: "" }, 1];
  const drawInput = coalesced(async () => {
    const body = imageRequest({ run: app.run.id, ...params() });
    const key = JSON.stringify(body);
    if (key === shown.key) return shown;
    const info = await app.fetchJson("vit/image-info", body);
    const pixels = await app.fetchArray("vit/image", body);
    shown = { key, ...info };
    count = info.count;
    box.hidden = count < 2;
    box.querySelector("input").max = Math.max(count - 1, 0);
    box.set(app.state.number);
    fill(container, imageElement(pixels, info.name || app.t(video ? "video" : "image")), truthNote(app, info));
    return shown;
  });
  const redrawAll = async () => {
    await drawInput();
    await redraw();
  };
  const onNumber = () => {
    app.set({ pixels: "" }); // an uploaded image is replaced by a numbered one
    return redrawAll();
  };
  const format = (value) => `${value + 1} / ${count}`;
  const box = slider(app, "number", { name: app.t(video ? "video" : "image"), to: app.state.number, format, redraw: onNumber });
  drawInput().catch(app.showError);
  const truth = async () => (await drawInput()).truth;
  return { controls: [box, fileInput(app, redrawAll)], element: container, redraw: onNumber, params, truth };
}

function truthNote(app, { truth }) {
  return make("p", { class: "note" }, truth ? app.t("reference", { truth }) : app.t("no_reference"));
}

/** The values, the one-step predictions of the model, and its forecast after the last value. */
async function drawSeries(app, container, text) {
  const { values, one_step_predictions, forecast } = await app.fetchJson("series/forecast", { run: app.run.id, text, horizon: HORIZON });
  const times = (from, count) => Array.from({ length: count }, (_, time) => from + time);
  const end = values.length + 1;
  const lines = [
    { name: app.t("series_values"), x: times(1, values.length), y: values, color: LINE_COLORS[0] },
    { name: app.t("series_predictions"), x: times(2, one_step_predictions.length), y: one_step_predictions, color: LINE_COLORS[1] },
    { name: app.t("series_forecast"), x: times(end, forecast.length), y: forecast, color: LINE_COLORS[1], dashed: true },
  ];
  const chart = lineChart({ name: app.t("series"), lines, xName: app.t("time") });
  fill(container, make("div", { class: "narrow" }, chart.element, legend(lines.slice(0, 2))));
  app.addDownload({ name: app.t("series"), figure: chart.svg, table: chart.table });
}
