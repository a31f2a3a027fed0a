/**
 * What a model is given and what it shall write, for views that look inside.
 *
 *   const input = inputBoxes(bench, { examples: await examplesOf(bench), redraw });
 *   place.append(input.element);
 *   await bench.ask("attention/layers", input.asked());
 *
 * The target is what the model shall write; left empty it is its own answer. Models that only read have none. What is
 * given may be a text, a series, an image or a video: `input.js` knows.
 */

import { make } from "./dom.js";
import { row, textBox } from "./controls.js";
import { inputBox, takesImages } from "./given.js";

/** A text to begin with: of the run's own, where it has any. */
export function exampleText(app) {
  return app.run.example?.text ?? "";
}

/** The numbers of the tokens that were chosen one by one, as the link keeps them. */
export function forcedIds(app) {
  return app.state.forced.split(".").filter(Boolean).map(Number);
}

/** Whether a model reads one thing and writes another; a language model goes on with what it is given. */
export function isSeq2Seq(run) {
  return run.task === "translate" || run.task === "caption";
}

/** Sentences of the run's own test data, to begin with; images are found by their numbers. */
export async function examplesOf(app) {
  if (takesImages(app.run)) return [];
  return (await app.ask("examples", { run: app.run.id, most: 12 })).examples;
}

export function inputForm(app, { examples, redraw }) {
  const usual = examples[0]?.source || exampleText(app);
  const input = inputBox(app, { name: app.word(app.run.capabilities.includes("series") ? "series" : "text"), usual, redraw });
  const boxes = [...input.controls, ...targetBox(app, redraw)];
  const element = make("div", {}, row(...boxes));
  if (examples.length) element.append(row(exampleBox(app, examples, boxes, input.redraw)));
  element.append(input.element);
  const params = () => ({ run: app.run.id, ...input.params(), target: app.state.target || null });
  return { element, params };
}

function targetBox(app, redraw) {
  if (!isSeq2Seq(app.run)) return [];
  return [textBox(app, "target", { name: app.word("target"), placeholder: app.word("own_answer"), redraw })];
}

/** A choice that fills both boxes; where the true alignment is known, a star says so. */
export function exampleBox(app, examples, boxes, redraw) {
  const named = examples.map(({ source, gold }, place) => make("option", { value: place }, `${gold ? "★ " : ""}${source}`));
  const select = make("select", { name: "examples", id: "control-examples" }, make("option", { value: "" }, "–"), ...named);
  select.addEventListener("change", async () => {
    const { source, target } = examples[select.value] ?? { source: "", target: "" };
    app.set({ text: source, ...(boxes.length > 1 ? { target } : {}) });
    boxes[0].set(source);
    boxes[1]?.set(target);
    try {
      await redraw();
    } catch (error) {
      app.fail(error);
    }
  });
  return make("label", { class: "control", for: select.id }, make("span", { class: "name" }, app.word("examples")), select);
}
