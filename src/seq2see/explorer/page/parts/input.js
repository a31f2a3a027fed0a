/**
 * What a model is given and what it shall write, for views that look inside.
 *
 *   const input = inputBoxes(bench, { examples: await examplesOf(bench), redraw });
 *   place.append(input.element);
 *   await bench.ask("attention/layers", input.asked());
 *
 * The target is what the model shall write; left empty it is its own answer. Models that only read have none. What is
 * given may be a text, a series, a picture or a film: `given.js` knows.
 */

import { make } from "./dom.js";
import { row, textBox } from "./controls.js";
import { givenBox, looksAt } from "./given.js";

/** A text to begin with: of the run's own, where it has any. */
export function exampleText(bench) {
  return bench.run.example?.text ?? "";
}

/** The numbers of the tokens that were chosen one by one, as the link keeps them. */
export function takenTokens(bench) {
  return bench.state.taken.split(".").filter(Boolean).map(Number);
}

/** Whether a model reads one thing and writes another; a language model goes on with what it is given. */
export function answers(run) {
  return run.task === "translate" || run.task === "caption";
}

/** Sentences of the run's own test data, to begin with; pictures are found by their numbers. */
export async function examplesOf(bench) {
  if (looksAt(bench.run)) return [];
  return (await bench.ask("examples", { run: bench.run.id, most: 12 })).examples;
}

export function inputBoxes(bench, { examples, redraw }) {
  const usual = examples[0]?.source || exampleText(bench);
  const given = givenBox(bench, { name: bench.word(bench.run.abilities.includes("series") ? "series" : "text"), usual, redraw });
  const boxes = [...given.controls, ...targetBox(bench, redraw)];
  const element = make("div", {}, row(...boxes));
  if (examples.length) element.append(row(exampleBox(bench, examples, boxes, given.redraw)));
  element.append(given.element);
  const asked = () => ({ run: bench.run.id, ...given.asked(), target: bench.state.target || null });
  return { element, asked };
}

function targetBox(bench, redraw) {
  if (!answers(bench.run)) return [];
  return [textBox(bench, "target", { name: bench.word("target"), placeholder: bench.word("own_answer"), redraw })];
}

/** A choice that fills both boxes; where the true alignment is known, a star says so. */
export function exampleBox(bench, examples, boxes, redraw) {
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
