/** Python code for the view "Embeddings": the map, nearest neighbors, analogies, and one word in several sentences. */

import { assignCall, loadModel, python, SEQ2SEE, text, texts } from "./python.js";

function embeddingsCode(run, lines) {
  return python([SEQ2SEE, "from seq2see.runs.word_embeddings import WordEmbeddings"], [
    loadModel(run), "embeddings = WordEmbeddings.of(model)", ...lines,
  ]);
}

/** The coordinates of the words on the map: `word_map`. */
export function mapCode(run, count) {
  return embeddingsCode(run, [
    `word_map = embeddings.map(${count})`, "print(word_map.explained_variance_ratio)",
    "print(list(zip(word_map.tokens, word_map.points.tolist()))[:20])",
  ]);
}

/** The nearest neighbors of a word: `neighbors`. */
export function neighborsCode(run, word, count) {
  return embeddingsCode(run, [assignCall("neighbors", "embeddings.neighbors", [text(word), String(count)]), "print(neighbors)"]);
}

/** first − second + third: the nearest tokens, `everything`, and `others` without the three words. */
export function analogyCode(run, words, count) {
  const args = [`(${words.map(text).join(", ")})`, String(count)];
  return embeddingsCode(run, [assignCall("everything, others", "embeddings.analogy", args), "print(others)"]);
}

/** One word in several sentences: `cosines` of each layer, a number for each pair of sentences. */
export function wordContextsCode(run, word, sentences) {
  return embeddingsCode(run, [
    assignCall("contexts", "embeddings.contexts", [text(word), texts(sentences)]),
    "cosines = contexts.cosines",
    "print(contexts.pairs, cosines)",
  ]);
}
