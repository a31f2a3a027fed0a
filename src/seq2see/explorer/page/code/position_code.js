/** Python for the view of positions: what a model is told of places, and the same tokens in another order. */

import { assignCall, loadModel, numbers, python, withComment, SEQ2SEE, text } from "./python.js";
import { comment } from "./comments.js";

/** The text in another order: what the model says (`answer`), and how far vectors move (`distances`). */
export function orderCode(run, read, { order, off }) {
  const names = off ? "reordering, untold" : "reordering";
  return python([SEQ2SEE, `from seq2see.workbench.reordering import ${names}`], [
    loadModel(run),
    off ? withComment("model = untold(model)", comment("no_positions")) : null,
    assignCall("turned", "reordering", ["model", text(read), order.length ? numbers(order) : null]),
    "answer, guesses = turned.answer()",
    "print(answer, guesses)",
    "distances = turned.distances()",
    "print(turned.tokens, distances.round(3))",
  ]);
}

/** What one side is told of its places (`table`), and how alike every two of them look (`near`). */
export function positionTableCode(run, { side, length, head }) {
  const body = { source: "encoder", target: "decoder" }[side];
  const more = [String(length), head ? String(head) : null];
  return python([SEQ2SEE, "from seq2see.inspection.positions import alike, table_of, told_to"], [
    loadModel(run),
    `told = told_to(model.module.${side}, model.module.${body})`,
    assignCall("table", "table_of", ["told", ...more]),
    assignCall("near", "alike", ["told", ...more]),
    "print(told.kind, table.round(3), near.round(3))",
  ]);
}
