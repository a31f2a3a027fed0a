/** Python for the view of pictures: where patches look, what reached the end, and what the model says. */

import { assigned, loaded, number, numbers, python, remarked, SEQ2SEE, text } from "./python.js";
import { pictureOf } from "./reading.js";
import { remark } from "./remarks.js";

/** Lines that open the model, as it is or told nothing of places, and make the picture, patches moved and covered: `picture`. */
function opened(view) {
  const { bench: { run, state: { off } }, seen: { patch } } = view;
  const { order, cover, ...which } = view.asked();
  const { imports, lines } = madeOf(run, pictureOf(run, which), { order, cover, patch });
  return {
    imports: [...imports, off ? "from seq2see.workbench.reordering import untold" : null],
    lines: [lines[0], off ? remarked("model = untold(model)", remark("untold")) : null, ...lines.slice(1)],
  };
}

function madeOf(run, { imports, lines }, { order, cover, patch }) {
  if (run.abilities.includes("films")) return { imports: [SEQ2SEE, ...imports], lines: [loaded(run), ...lines, frames(order, cover)] };
  const names = [cover.length ? "covered" : null, order.length ? "moved" : null].filter(Boolean).join(", ");
  return {
    imports: [SEQ2SEE, ...imports, names ? `from seq2see.inspection.patches import ${names}` : null],
    lines: [loaded(run), ...lines,
      order.length ? assigned("picture", "moved", ["picture", numbers(order), String(patch)]) : null,
      cover.length ? assigned("picture", "covered", ["picture", numbers(cover), String(patch)]) : null],
  };
}

/** The frames of a film, moved and covered. */
function frames(order, cover) {
  return [order.length ? `picture = picture[${numbers(order)}]` : null,
    cover.length ? ["picture = picture.copy()", `picture[${numbers(cover)}] = 128`] : null];
}

/** What lies over the picture: `heat`, a number for each patch. `asking` is a patch, or -1 for nobody. */
export function heatCode(view, { asking, front, across, patches }) {
  const { run, state: { shows, layer, head, fusion, discard } } = view.bench;
  const place = asking < 0 ? "" : `${Math.floor(asking / across) + 1},${(asking % across) + 1}`;
  const who = asking >= 0 ? remark("patch", { place }) : remark(front ? "class_token" : "every_patch");
  const row = asking >= 0 || front ? `maps[${asking >= 0 ? front + asking : 0}, ${front}:]` : `maps.mean(axis=0)[${front}:]`;
  const end = [remarked(`heat = ${row}`, who), `print(heat.reshape(${patches / across}, ${across}).round(3))`];
  if (shows === "position")
    return python([SEQ2SEE, "from seq2see.inspection.positions import alike, told_to"], [
      loaded(run), "told = told_to(model.module.source, model.module.encoder)", `maps = alike(told, ${across})`, end,
    ]);
  const { imports, lines } = opened(view);
  const whole = ["record = model.trace(picture)", 'layers = [each.values for each in record.of("attention", "source")]'];
  if (shows === "rollout")
    return python([...imports, "from seq2see.inspection.rollout import rollout"], [
      lines, whole, `maps = rollout(layers, "${fusion}"${discard ? `, discard=${number(discard)}` : ""})`, end,
    ]);
  return python(imports, [lines, whole, `maps = layers[${layer}]${head < 0 ? ".mean(axis=0)" : `[${head}]`}`, end]);
}

/** Where the model looked when it wrote one word of a caption: `heat`, a number for each patch or frame. */
export function regionCode(view, { word, patches }) {
  const { imports, lines } = opened(view);
  const { text: caption, pieces } = view.said;
  return python(imports, [
    lines,
    assigned("record", "model.trace", ["picture", text(caption)]),
    'looks = [each.values for each in record.of("attention") if each.across]',
    remarked(`heat = looks[-1].mean(axis=0)[${word}, -${patches}:]`, remark("word_looks", { word: pieces[word].text })),
    "print(heat.round(3))",
  ]);
}

/** What the model says of the picture: `said`. */
export function saysCode(view) {
  const { imports, lines } = opened(view);
  const { writes } = view.seen;
  const asked = writes ? "model(picture)" : "model(picture, top_k=10)";
  return python(imports, [
    lines,
    `said = ${asked}`,
    writes ? "print(said.text, said.answers[0].tokens)" : "print(said.text, said.guesses[0])",
  ]);
}
