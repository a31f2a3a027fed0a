/** Python code for the view "Positions": position encodings, and the same tokens in another order. */

import { assignCall, loadModel, numbers, python, SEQ2SEE, text } from "./python.js";

const NAMES = "find_position_encoding, position_similarity, position_table";

/** The text in another order: the prediction (`output`), and the changes of the vectors (`distances`). */
export function orderCode(run, value, { order, off }) {
  const names = off ? "reordering, without_position_embeddings" : "reordering";
  return python([SEQ2SEE, `from seq2see.runs.reordering import ${names}`], [
    loadModel(run),
    off ? "model = without_position_embeddings(model)" : null,
    assignCall("reordered", "reordering", ["model", text(value), order.length ? numbers(order) : null]),
    "output, candidates = reordered.predict()",
    "print(output, candidates)",
    "distances = reordered.distances()",
    "print(reordered.tokens, distances.round(3))",
  ]);
}

/** The position encodings of one side (`table`), and the similarity of every two positions (`similarity`). */
export function positionTableCode(run, { side, length, head }) {
  const body = { source: "encoder", target: "decoder" }[side];
  const args = [String(length), head ? String(head) : null];
  return python([SEQ2SEE, `from seq2see.inspection.position_encodings import ${NAMES}`], [
    loadModel(run),
    `encoding = find_position_encoding(model.module.${side}, model.module.${body})`,
    assignCall("table", "position_table", ["encoding", ...args]),
    assignCall("similarity", "position_similarity", ["encoding", ...args]),
    "print(encoding.kind, table.round(3), similarity.round(3))",
  ]);
}
