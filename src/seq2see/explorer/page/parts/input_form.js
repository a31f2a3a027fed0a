/**
 * The input and the target of a model, for views that show its hidden states.
 *
 *   const input = inputForm(app, { examples: await examplesOf(app), redraw });
 *   container.append(input.element);
 *   await app.fetchJson("attention/layers", input.params());
 *
 * The target is the decoder's input; an empty target stands for the model's own output. Encoder-only models have none.
 * The input may be a text, a series, an image or a video, see `input_box.js`.
 */

import { make } from "./dom.js";
import { row, textBox } from "./controls.js";
import { inputBox, takesImages } from "./input_box.js";

/** The initial text: an example of the run, "" if there is none. */
export function exampleText(app) {
  return app.run.example?.text ?? "";
}

/** The ids of the forced tokens, as stored in the link. */
export function forcedIds(app) {
  return app.state.forced.split(".").filter(Boolean).map(Number);
}

/** Whether a model has a source and a target; a language model continues its input. */
export function isSeq2Seq(run) {
  return run.capabilities.includes("target");
}

/** Sentences of the run's test split; images are chosen by their numbers instead. */
export async function examplesOf(app) {
  if (takesImages(app.run)) return [];
  return (await app.fetchJson("examples", { run: app.run.id, max_examples: 12 })).examples;
}

export function inputForm(app, { examples, redraw }) {
  const defaultText = examples[0]?.source || exampleText(app);
  const input = inputBox(app, { name: app.t(app.run.capabilities.includes("series") ? "series" : "text"), defaultText, redraw });
  const boxes = [...input.controls, ...targetBox(app, redraw)];
  const element = make("div", {}, row(...boxes));
  if (examples.length) element.append(row(exampleBox(app, examples, boxes, input.redraw)));
  element.append(input.element);
  const params = () => ({ run: app.run.id, ...input.params(), target: app.state.target || null });
  return { element, params };
}

function targetBox(app, redraw) {
  if (!isSeq2Seq(app.run)) return [];
  return [textBox(app, "target", { name: app.t("target"), placeholder: app.t("own_output"), redraw })];
}

/** A dropdown that fills both boxes; a star marks examples with a gold alignment. */
export function exampleBox(app, examples, boxes, redraw) {
  const options = examples.map(({ source, gold }, index) => make("option", { value: index }, `${gold ? "★ " : ""}${source}`));
  const select = make("select", { name: "examples", id: "control-examples" }, make("option", { value: "" }, "–"), ...options);
  select.addEventListener("change", async () => {
    const { source, target } = examples[select.value] ?? { source: "", target: "" };
    app.set({ text: source, ...(boxes.length > 1 ? { target } : {}) });
    boxes[0].set(source);
    boxes[1]?.set(target);
    try {
      await redraw();
    } catch (error) {
      app.showError(error);
    }
  });
  return make("label", { class: "control", for: select.id }, make("span", { class: "name" }, app.t("examples")), select);
}
