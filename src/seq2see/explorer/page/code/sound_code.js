/** Python code for the view "Speech": the letters of a recording, its spectrogram, the probabilities of CTC, and attention. */

import { inputCode } from "./input_code.js";
import { loadModel, python, SEQ2SEE } from "./python.js";

const LINES = {
  letters: ["data = recording_data(model, sound)", "print(data.text)", "for letter in data.letters:",
    "    print(letter.text, letter.start, letter.end, letter.probability)"],
  spectrogram: ["spectrogram = model.encode_sound(sound).features", "print(spectrogram.shape, spectrogram)"],
  probabilities: ["probabilities = np.exp(model.frame_scores(sound))", "best = probabilities.argmax(axis=1)",
    "print(model.tokenizers.target.tokens(best), probabilities.max(axis=1))"],
  attention: ["attention = model(sound).attention", "print(attention.target, attention.matrix.round(3))"],
};
const IMPORTS = {
  letters: "from seq2see.tasks.speech_figures import recording_data",
  probabilities: "import numpy as np",
};

/** One part of the figure for a recording of the test split, or for a file: `data`, `spectrogram`, ... */
export function soundCode(run, params, part) {
  const { imports, lines } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, IMPORTS[part]], [loadModel(run), lines, LINES[part]]);
}
