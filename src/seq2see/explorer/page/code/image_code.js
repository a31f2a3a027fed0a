/** Python code for the view "Images": attention maps, rollout, and predictions. */

import { assignCall, loadModel, number, numbers, python, withComment, SEQ2SEE, text } from "./python.js";
import { imageCode } from "./input_code.js";
import { comment } from "./comments.js";

const IMPORT_WITHOUT_POSITIONS = "from seq2see.runs.reordering import without_position_embeddings";
const IMPORT_POSITION_SIMILARITY =
  "from seq2see.inspection.position_encodings import find_position_encoding, position_similarity";

/** Lines that load the model, with or without position embeddings, and the `image` with moved and covered patches. */
function imageModelCode(view) {
  const { app: { run, state: { off } }, info: { patch_size } } = view;
  const { order, cover, ...source } = view.params();
  const { imports, lines } = editedImage(run, imageCode(run, source), { order, cover, patch_size });
  return {
    imports: [...imports, off ? IMPORT_WITHOUT_POSITIONS : null],
    lines: [lines[0], off ? "model = without_position_embeddings(model)" : null, ...lines.slice(1)],
  };
}

/** The image with moved and covered patches; for a video, frames. */
function editedImage(run, { imports, lines }, { order, cover, patch_size }) {
  if (run.capabilities.includes("videos"))
    return { imports: [SEQ2SEE, ...imports], lines: [loadModel(run), ...lines, editedFrames(order, cover)] };
  const names = [cover.length ? "mask_patches" : null, order.length ? "reorder_patches" : null].filter(Boolean).join(", ");
  return {
    imports: [SEQ2SEE, ...imports, names ? `from seq2see.inspection.patch_editing import ${names}` : null],
    lines: [loadModel(run), ...lines,
      order.length ? assignCall("image", "reorder_patches", ["image", numbers(order), String(patch_size)]) : null,
      cover.length ? assignCall("image", "mask_patches", ["image", numbers(cover), String(patch_size)]) : null],
  };
}

/** Lines that move and cover the frames of a video. */
function editedFrames(order, cover) {
  return [order.length ? `image = image[${numbers(order)}]` : null,
    cover.length ? ["image = image.copy()", `image[${numbers(cover)}] = 128`] : null];
}

/** The overlay: `heat`, a number for each patch. `query` is a patch, or -1 for the class token or the mean. */
export function heatCode(view, { query, prefixCount, gridWidth, patches }) {
  const { run, state: { overlay, layer, head, fusion, discard } } = view.app;
  const position = query < 0 ? "" : `${Math.floor(query / gridWidth) + 1},${(query % gridWidth) + 1}`;
  const name = query >= 0 ? comment("patch", { position }) : comment(prefixCount ? "class_token" : "all_patches");
  const row = query >= 0 || prefixCount ? `maps[${query >= 0 ? prefixCount + query : 0}, ${prefixCount}:]`
    : `maps.mean(axis=0)[${prefixCount}:]`;
  const end = [withComment(`heat = ${row}`, name), `print(heat.reshape(${patches / gridWidth}, ${gridWidth}).round(3))`];
  if (overlay === "position")
    return python([SEQ2SEE, IMPORT_POSITION_SIMILARITY], [
      loadModel(run), "encoding = find_position_encoding(model.module.source, model.module.encoder)",
      `maps = position_similarity(encoding, ${gridWidth})`, end,
    ]);
  const { imports, lines } = imageModelCode(view);
  const trace = ["record = model.trace(image)", 'layers = [each.values for each in record.of("attention", "source")]'];
  if (overlay === "rollout")
    return python([...imports, "from seq2see.inspection.attention_measures import rollout"], [
      lines, trace, `maps = rollout(layers, "${fusion}"${discard ? `, discard_ratio=${number(discard)}` : ""})`, end,
    ]);
  return python(imports, [lines, trace, `maps = layers[${layer}]${head < 0 ? ".mean(axis=0)" : `[${head}]`}`, end]);
}

/** The attention map of one token of a caption: `heat`, a number for each patch or frame. */
export function regionCode(view, { word, patches }) {
  const { imports, lines } = imageModelCode(view);
  const { text: caption, tokens } = view.prediction;
  return python(imports, [
    lines,
    assignCall("record", "model.trace", ["image", text(caption)]),
    'layers = [each.values for each in record.of("attention") if each.is_cross_attention]',
    withComment(`heat = layers[-1].mean(axis=0)[${word}, -${patches}:]`, comment("caption_token", { word: tokens[word].text })),
    "print(heat.round(3))",
  ]);
}

/** The prediction for the image: `prediction`. */
export function predictImageCode(view) {
  const { imports, lines } = imageModelCode(view);
  const { generates } = view.info;
  const call = generates ? "model(image)" : "model(image, top_k=10)";
  return python(imports, [
    lines,
    `prediction = ${call}`,
    generates ? "print(prediction.text, prediction.outputs[0].tokens)" : "print(prediction.text, prediction.candidates[0])",
  ]);
}
