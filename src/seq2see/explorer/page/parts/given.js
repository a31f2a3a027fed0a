/**
 * The one thing that a model is given, whatever it is: a text or numbers that are typed, or a picture or a film out of the
 * run's own test split, by its number. Every view that looks at what a model does asks for it here.
 *
 *   const given = givenBox(bench, { name: bench.word("source"), usual: "我有一支笔", redraw });
 *   place.append(row(...given.controls), given.element);
 *   await bench.ask("decode/tree", { run: bench.run.id, ...given.asked(), ... });
 *
 * asked()   the part of a question that says what is given: `{text}`, `{number}`, or `{pixels}` of a picture of one's own
 * truth()   what is truly said of it, where somebody knows; a promise
 * redraw()  what a view calls that has put something else into the box itself
 *
 * Below the controls stands what cannot be read in a box: the picture, the film as a row of its frames, or the series as a
 * curve with what the model said of each value.
 */

import { legend, lineChart } from "./chart.js";
import { LINES } from "./colours.js";
import { slider, textBox } from "./controls.js";
import { fill, latest, make } from "./dom.js";
import { fileBox } from "./file_box.js";
import { canvasOf } from "./picture.js";

export const AHEAD = 16; // values that a series goes on by
const IN_LINE = 16; // frames of a longer film begin another line

/** Whether a run's model looks at pictures, or at films. */
export function looksAt(run) {
  return run.abilities.includes("pictures") || run.abilities.includes("films");
}

export function givenBox(bench, { name, usual, redraw }) {
  if (looksAt(bench.run)) return pictureBox(bench, redraw);
  const told = make("div", { class: "given" });
  const text = () => bench.state.text || usual;
  const goesOn = bench.run.abilities.includes("series");
  const look = latest(() => tellSeries(bench, told, text()));
  const both = async () => {
    await redraw();
    await look();
  };
  const box = textBox(bench, "text", { name, placeholder: usual, redraw: goesOn ? both : redraw });
  if (goesOn) look().catch(bench.fail);
  const { example } = bench.run;
  return {
    controls: [box],
    element: told,
    redraw: goesOn ? both : redraw,
    asked: () => ({ text: text() }),
    truth: async () => (bench.state.text ? "" : example?.target ?? ""), // it belongs to the example alone
  };
}

/** Which picture a question is about, as all say it that ask for one. */
export function pictureAsked({ run, number, pixels }) {
  return { run, ...(pixels ? { pixels } : { number }), order: [], cover: [] };
}

/** A picture of the server as it is looked at; a film, which is as many times as wide as high, as a row of its frames. */
export function pictureOf(pixels, name) {
  const [height, width] = pixels.shape;
  const whole = canvasOf(pixels);
  const frames = Array.from({ length: Math.max(Math.round(width / height), 1) }, (_, frame) => {
    const canvas = make("canvas", { width: Math.min(height, width), height });
    canvas.getContext("2d").drawImage(whole, -frame * height, 0);
    return canvas;
  });
  const numbered = frames.map((canvas, frame) => make("span", {}, canvas, make("small", {}, frame + 1)));
  const looks = frames.length > 1 ? { class: "frames", style: { "--columns": Math.min(frames.length, IN_LINE) } } : { class: "frame" };
  const row = make("div", { ...looks, role: "img", "aria-label": name }, ...(frames.length > 1 ? numbered : frames));
  row.shown = { pixels: pixels.values, frames: frames.length };
  return row;
}

function pictureBox(bench, redraw) {
  const place = make("div", { class: "given" });
  const asked = () => (bench.state.pixels ? { pixels: bench.state.pixels } : { number: bench.state.number });
  const film = bench.run.abilities.includes("films");
  let [known, count] = [{ key: "" }, 1];
  const look = latest(async () => {
    const which = pictureAsked({ run: bench.run.id, ...asked() });
    const key = JSON.stringify(which);
    if (key === known.key) return known;
    const about = await bench.ask("vit/about", which);
    const pixels = await bench.numbers("vit/picture", which);
    known = { key, ...about };
    count = about.count;
    box.hidden = count < 2;
    box.querySelector("input").max = Math.max(count - 1, 0);
    box.set(bench.state.number);
    fill(place, pictureOf(pixels, about.name || bench.word(film ? "film" : "picture")), tellTruth(bench, about));
    return known;
  });
  const own = async () => {
    await look();
    await redraw();
  };
  const again = () => {
    bench.set({ pixels: "" }); // one that was drawn has no number
    return own();
  };
  const shown = (value) => `${value + 1} / ${count}`;
  const box = slider(bench, "number", { name: bench.word(film ? "film" : "picture"), to: bench.state.number, shown, redraw: again });
  look().catch(bench.fail);
  return { controls: [box, fileBox(bench, own)], element: place, redraw: again, asked, truth: async () => (await look()).truth };
}

function tellTruth(bench, { truth }) {
  return make("p", { class: "note" }, truth ? bench.word("truly", { truth }) : bench.word("no_truth_known"));
}

/** The values, what the model said of each from those before it, and how it goes on behind them. */
async function tellSeries(bench, place, text) {
  const { values, guesses, ahead } = await bench.ask("series/said", { run: bench.run.id, text, ahead: AHEAD });
  const times = (from, count) => Array.from({ length: count }, (_, time) => from + time);
  const end = values.length + 1;
  const lines = [
    { name: bench.word("series_values"), x: times(1, values.length), y: values, colour: LINES[0] },
    { name: bench.word("series_guesses"), x: times(2, guesses.length), y: guesses, colour: LINES[1] },
    { name: bench.word("series_ahead"), x: times(end, ahead.length), y: ahead, colour: LINES[1], dashed: true },
  ];
  const chart = lineChart({ name: bench.word("series"), lines, xName: bench.word("time") });
  fill(place, make("div", { class: "narrow" }, chart.element, legend(lines.slice(0, 2))));
  bench.offer({ name: bench.word("series"), picture: chart.svg, table: chart.table });
}
