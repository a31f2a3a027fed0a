/** Python for the view of images: where patches look, what reached the end, and what the model says. */

import { assignCall, loadModel, number, numbers, python, withComment, SEQ2SEE, text } from "./python.js";
import { imageCode } from "./input_code.js";
import { comment } from "./comments.js";

/** Lines that open the model, as it is or told nothing of places, and make the image, patches moved and covered: `image`. */
function imageModelCode(view) {
  const { app: { run, state: { off } }, seen: { patch_size } } = view;
  const { order, cover, ...which } = view.params();
  const { imports, lines } = madeOf(run, imageCode(run, which), { order, cover, patch_size });
  return {
    imports: [...imports, off ? "from seq2see.workbench.reordering import untold" : null],
    lines: [lines[0], off ? withComment("model = untold(model)", comment("no_positions")) : null, ...lines.slice(1)],
  };
}

function madeOf(run, { imports, lines }, { order, cover, patch_size }) {
  if (run.capabilities.includes("videos")) return { imports: [SEQ2SEE, ...imports], lines: [loadModel(run), ...lines, frames(order, cover)] };
  const names = [cover.length ? "covered" : null, order.length ? "moved" : null].filter(Boolean).join(", ");
  return {
    imports: [SEQ2SEE, ...imports, names ? `from seq2see.inspection.patches import ${names}` : null],
    lines: [loadModel(run), ...lines,
      order.length ? assignCall("image", "moved", ["image", numbers(order), String(patch_size)]) : null,
      cover.length ? assignCall("image", "covered", ["image", numbers(cover), String(patch_size)]) : null],
  };
}

/** The frames of a video, moved and covered. */
function frames(order, cover) {
  return [order.length ? `image = image[${numbers(order)}]` : null,
    cover.length ? ["image = image.copy()", `image[${numbers(cover)}] = 128`] : null];
}

/** What lies over the image: `heat`, a number for each patch. `asking` is a patch, or -1 for nobody. */
export function heatCode(view, { asking, front, across, patches }) {
  const { run, state: { shows, layer, head, fusion, discard } } = view.app;
  const place = asking < 0 ? "" : `${Math.floor(asking / across) + 1},${(asking % across) + 1}`;
  const who = asking >= 0 ? comment("patch_size", { place }) : comment(front ? "class_token" : "every_patch");
  const row = asking >= 0 || front ? `maps[${asking >= 0 ? front + asking : 0}, ${front}:]` : `maps.mean(axis=0)[${front}:]`;
  const end = [withComment(`heat = ${row}`, who), `print(heat.reshape(${patches / across}, ${across}).round(3))`];
  if (shows === "position")
    return python([SEQ2SEE, "from seq2see.inspection.positions import alike, told_to"], [
      loadModel(run), "told = told_to(model.module.source, model.module.encoder)", `maps = alike(told, ${across})`, end,
    ]);
  const { imports, lines } = imageModelCode(view);
  const whole = ["record = model.trace(image)", 'layers = [each.values for each in record.of("attention", "source")]'];
  if (shows === "rollout")
    return python([...imports, "from seq2see.inspection.rollout import rollout"], [
      lines, whole, `maps = rollout(layers, "${fusion}"${discard ? `, discard=${number(discard)}` : ""})`, end,
    ]);
  return python(imports, [lines, whole, `maps = layers[${layer}]${head < 0 ? ".mean(axis=0)" : `[${head}]`}`, end]);
}

/** Where the model looked when it wrote one word of a caption: `heat`, a number for each patch or frame. */
export function regionCode(view, { word, patches }) {
  const { imports, lines } = imageModelCode(view);
  const { text: caption, pieces } = view.said;
  return python(imports, [
    lines,
    assignCall("record", "model.trace", ["image", text(caption)]),
    'looks = [each.values for each in record.of("attention") if each.across]',
    withComment(`heat = looks[-1].mean(axis=0)[${word}, -${patches}:]`, comment("word_looks", { word: pieces[word].text })),
    "print(heat.round(3))",
  ]);
}

/** What the model says of the image: `said`. */
export function predictImageCode(view) {
  const { imports, lines } = imageModelCode(view);
  const { generates } = view.seen;
  const params = generates ? "model(image)" : "model(image, top_k=10)";
  return python(imports, [
    lines,
    `said = ${params}`,
    generates ? "print(said.text, said.answers[0].tokens)" : "print(said.text, said.guesses[0])",
  ]);
}
