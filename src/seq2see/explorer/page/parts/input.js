/**
 * What a model is given to read, for views that look inside: a text and a target, or a picture.
 *
 *   const input = inputBoxes(bench, { examples, redraw });
 *   place.append(input.element);
 *   await bench.ask("attention/layers", input.asked());
 *
 * The target is what the model shall write; left empty it is its own answer. Models that only read have none. A picture
 * is one of the run's own test pictures; one that was drawn or uploaded comes along in the link.
 */

import { make } from "./dom.js";
import { row, slider, textBox } from "./controls.js";

/** What is typed, or the run's own example; a language model can begin with nothing at all. */
export function typedText(bench) {
  return bench.state.text || exampleText(bench);
}

/** A text of the run's own, to begin with. */
export function exampleText(bench) {
  return bench.run.example?.text ?? "";
}

/** The numbers of the tokens that were chosen one by one, as the link keeps them. */
export function takenTokens(bench) {
  return bench.state.taken.split(".").filter(Boolean).map(Number);
}

/** The keys of the link that say what is read, with their defaults; `text` and `target` are every view's. */
export const INPUT = { number: 0, pixels: "" };

/** Whether a run has attention, and reads what a page can give it. */
export function looksInside({ abilities }) {
  return abilities.includes("attention") && (abilities.includes("text") || abilities.includes("pictures"));
}

/** Sentences or pictures of the run's own test data, to begin with. */
export async function examplesOf(bench) {
  return (await bench.ask("examples", { run: bench.run.id, most: 12 })).examples;
}

export function inputBoxes(bench, { examples, redraw }) {
  const looks = bench.run.abilities.includes("pictures");
  const usual = examples[0]?.source || bench.word("example");
  const boxes = [looks ? numberBox(bench, examples, redraw) : readBox(bench, usual, redraw), ...targetBox(bench, redraw)];
  const element = make("div", {}, row(...boxes));
  if (!looks && examples.length) element.append(row(exampleBox(bench, examples, boxes, redraw)));
  return { element, asked: () => askedOf(bench, looks, usual) };
}

function readBox(bench, usual, redraw) {
  return textBox(bench, "text", { name: bench.word("text"), placeholder: usual, redraw });
}

/** Of a model that reads one thing and writes another. */
function targetBox(bench, redraw) {
  if (bench.run.task !== "translate" && bench.run.task !== "caption") return [];
  return [textBox(bench, "target", { name: bench.word("target"), placeholder: bench.word("own_answer"), redraw })];
}

function numberBox(bench, examples, redraw) {
  const most = Math.max(examples.length - 1, 0);
  return slider(bench, "number", { name: bench.word("picture"), to: most, shown: (value) => `${value + 1} / ${most + 1}`, redraw });
}

/** A choice that fills both boxes; where the true alignment is known, a star says so. */
function exampleBox(bench, examples, boxes, redraw) {
  const named = examples.map(({ source, gold }, place) => make("option", { value: place }, `${gold ? "★ " : ""}${source}`));
  const select = make("select", { name: "examples", id: "control-examples" }, make("option", { value: "" }, "–"), ...named);
  select.addEventListener("change", async () => {
    const { source, target } = examples[select.value] ?? { source: "", target: "" };
    bench.set({ text: source, ...(boxes.length > 1 ? { target } : {}) });
    boxes[0].set(source);
    boxes[1]?.set(target);
    try {
      await redraw();
    } catch (error) {
      bench.fail(error);
    }
  });
  return make("label", { class: "control", for: select.id }, make("span", { class: "name" }, bench.word("examples")), select);
}

function askedOf(bench, looks, usual) {
  const { text, target, number, pixels } = bench.state;
  if (looks) return { run: bench.run.id, ...(pixels ? { pixels } : { number }), target: target || null };
  return { run: bench.run.id, text: text || usual, target: target || null };
}
