/**
 * The one thing that a model is given, whatever it is: a text or numbers that are typed, or an image or a video out of the
 * run's own test split, by its number. Every view that looks at what a model does asks for it here.
 *
 *   const given = givenBox(bench, { name: bench.word("source"), usual: "我有一支笔", redraw });
 *   place.append(row(...given.controls), given.element);
 *   await bench.ask("decode/tree", { run: bench.run.id, ...given.asked(), ... });
 *
 * asked()   the part of a question that says what is given: `{text}`, `{number}`, or `{pixels}` of an image of one's own
 * truth()   what is truly said of it, where somebody knows; a promise
 * redraw()  what a view calls that has put something else into the box itself
 *
 * Below the controls stands what cannot be read in a box: the image, the video as a row of its frames, or the series as a
 * curve with what the model said of each value.
 */

import { legend, lineChart } from "./chart.js";
import { LINE_COLORS } from "./colors.js";
import { slider, textBox } from "./controls.js";
import { fill, coalesced, make } from "./dom.js";
import { fileInput } from "./file_box.js";
import { canvasOf } from "./image.js";

export const HORIZON = 16; // values that a series goes on by
const FRAMES_PER_ROW = 16; // frames of a longer video begin another line

/** Whether a run's model looks at images, or at videos. */
export function takesImages(run) {
  return run.capabilities.includes("images") || run.capabilities.includes("videos");
}

export function inputBox(app, { name, usual, redraw }) {
  if (takesImages(app.run)) return imageBox(app, redraw);
  const told = make("div", { class: "model-input" });
  const text = () => app.state.text || usual;
  const goesOn = app.run.capabilities.includes("series");
  const look = coalesced(() => drawSeries(app, told, text()));
  const both = async () => {
    await redraw();
    await look();
  };
  const box = textBox(app, "text", { name, placeholder: usual, redraw: goesOn ? both : redraw });
  if (goesOn) look().catch(app.fail);
  const { example } = app.run;
  return {
    controls: [box],
    element: told,
    redraw: goesOn ? both : redraw,
    params: () => ({ text: text() }),
    truth: async () => (app.state.text ? "" : example?.target ?? ""), // it belongs to the example alone
  };
}

/** Which image a question is about, as all say it that ask for one. */
export function imageRequest({ run, number, pixels }) {
  return { run, ...(pixels ? { pixels } : { number }), order: [], cover: [] };
}

/** An image of the server as it is looked at; a video, which is as many times as wide as high, as a row of its frames. */
export function imageElement(pixels, name) {
  const [height, width] = pixels.shape;
  const whole = canvasOf(pixels);
  const frames = Array.from({ length: Math.max(Math.round(width / height), 1) }, (_, frame) => {
    const canvas = make("canvas", { width: Math.min(height, width), height });
    canvas.getContext("2d").drawImage(whole, -frame * height, 0);
    return canvas;
  });
  const numbered = frames.map((canvas, frame) => make("span", {}, canvas, make("small", {}, frame + 1)));
  const attributes = frames.length > 1 ? { class: "frames", style: { "--columns": Math.min(frames.length, FRAMES_PER_ROW) } } : { class: "frame" };
  const row = make("div", { ...attributes, role: "img", "aria-label": name }, ...(frames.length > 1 ? numbered : frames));
  row.viewData = { pixels: pixels.values, frames: frames.length };
  return row;
}

function imageBox(app, redraw) {
  const place = make("div", { class: "model-input" });
  const params = () => (app.state.pixels ? { pixels: app.state.pixels } : { number: app.state.number });
  const video = app.run.capabilities.includes("videos");
  let [known, count] = [{ key: "" }, 1];
  const look = coalesced(async () => {
    const which = imageRequest({ run: app.run.id, ...params() });
    const key = JSON.stringify(which);
    if (key === known.key) return known;
    const about = await app.ask("vit/image-info", which);
    const pixels = await app.numbers("vit/image", which);
    known = { key, ...about };
    count = about.count;
    box.hidden = count < 2;
    box.querySelector("input").max = Math.max(count - 1, 0);
    box.set(app.state.number);
    fill(place, imageElement(pixels, about.name || app.word(video ? "video" : "image")), truthNote(app, about));
    return known;
  });
  const own = async () => {
    await look();
    await redraw();
  };
  const again = () => {
    app.set({ pixels: "" }); // one that was drawn has no number
    return own();
  };
  const viewData = (value) => `${value + 1} / ${count}`;
  const box = slider(app, "number", { name: app.word(video ? "video" : "image"), to: app.state.number, viewData, redraw: again });
  look().catch(app.fail);
  return { controls: [box, fileInput(app, own)], element: place, redraw: again, params, truth: async () => (await look()).truth };
}

function truthNote(app, { truth }) {
  return make("p", { class: "note" }, truth ? app.word("reference", { truth }) : app.word("no_truth_known"));
}

/** The values, what the model said of each from those before it, and how it goes on behind them. */
async function drawSeries(app, place, text) {
  const { values, one_step_predictions, forecast } = await app.ask("series/forecast", { run: app.run.id, text, forecast: HORIZON });
  const times = (from, count) => Array.from({ length: count }, (_, time) => from + time);
  const end = values.length + 1;
  const lines = [
    { name: app.word("series_values"), x: times(1, values.length), y: values, color: LINE_COLORS[0] },
    { name: app.word("series_guesses"), x: times(2, one_step_predictions.length), y: one_step_predictions, color: LINE_COLORS[1] },
    { name: app.word("series_ahead"), x: times(end, forecast.length), y: forecast, color: LINE_COLORS[1], dashed: true },
  ];
  const chart = lineChart({ name: app.word("series"), lines, xName: app.word("time") });
  fill(place, make("div", { class: "narrow" }, chart.element, legend(lines.slice(0, 2))));
  app.offer({ name: app.word("series"), figure: chart.svg, table: chart.table });
}
