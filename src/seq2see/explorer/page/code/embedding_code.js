/** Python for words as points: the map, neighbors, sums, and one word in several sentences. */

import { assignCall, loadModel, python, SEQ2SEE, text, texts } from "./python.js";

function embeddingsCode(run, lines) {
  return python([SEQ2SEE, "from seq2see.workbench.embeddings import Words"], [loadModel(run), "words = Words.of(model)", ...lines]);
}

/** Where words lie: `found`. */
export function mapCode(run, count) {
  return embeddingsCode(run, [`found = words.map(${count})`, "print(found.shares)", "print(list(zip(found.pieces, found.places.tolist()))[:20])"]);
}

/** Who is near a word: `near`. */
export function neighborsCode(run, word, count) {
  return embeddingsCode(run, [assignCall("near", "words.neighbors", [text(word), String(count)]), "print(near)"]);
}

/** first − second + third: `everything`, and `others` than the three. */
export function analogyCode(run, three, count) {
  const args = [`(${three.map(text).join(", ")})`, String(count)];
  return embeddingsCode(run, [assignCall("everything, others", "words.analogy", args), "print(others)"]);
}

/** One word in several sentences: `cosines` of each layer, a number for each two sentences. */
export function wordContextsCode(run, word, sentences) {
  return embeddingsCode(run, [
    assignCall("found", "words.contexts", [text(word), texts(sentences)]), "cosines = found.cosines", "print(found.pairs, cosines)",
  ]);
}
