/** Python for words as points: the map, neighbours, sums, and one word in several sentences. */

import { assigned, loaded, python, SEQ2SEE, text, texts } from "./python.js";

function known(run, lines) {
  return python([SEQ2SEE, "from seq2see.workbench.embeddings import Words"], [loaded(run), "words = Words.of(model)", ...lines]);
}

/** Where words lie: `found`. */
export function mapCode(run, count) {
  return known(run, [`found = words.map(${count})`, "print(found.shares)", "print(list(zip(found.pieces, found.places.tolist()))[:20])"]);
}

/** Who is near a word: `near`. */
export function nearCode(run, word, count) {
  return known(run, [assigned("near", "words.neighbours", [text(word), String(count)]), "print(near)"]);
}

/** first − second + third: `everything`, and `others` than the three. */
export function sumCode(run, three, count) {
  const given = [`(${three.map(text).join(", ")})`, String(count)];
  return known(run, [assigned("everything, others", "words.analogy", given), "print(others)"]);
}

/** One word in several sentences: `cosines` of each layer, a number for each two sentences. */
export function contextsOfCode(run, word, sentences) {
  return known(run, [
    assigned("found", "words.contexts", [text(word), texts(sentences)]), "cosines = found.cosines", "print(found.pairs, cosines)",
  ]);
}
