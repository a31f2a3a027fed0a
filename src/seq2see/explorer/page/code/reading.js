/**
 * What a model is given to read, in Python: a text, or a picture of the run's own test split, or one from the page.
 *
 *   const { imports, lines, given } = readBy(bench.run, input.asked());
 *   assigned("record", "model.trace", given)
 */

import { looksAt } from "../parts/given.js";
import { remark } from "./remarks.js";
import { call, remarked, text } from "./python.js";

export const FIND_RUN = "from seq2see.workbench.run_folder import find_run";
export const JUDGED_ON = "from seq2see.workbench.prepare import judged_on";
const LETTERS = 80; // of base64 on a line

/** `asked` is what the page asks the server: `{text | number | pixels, target}`. */
export function readBy(run, asked) {
  const answer = asked.target || (run.encoder === null ? "" : null); // running text is looked at as it stands
  const target = answer === null ? null : text(answer);
  if (!looksAt(run)) return { imports: [], lines: [], given: [text(asked.text), target] };
  const { imports, lines } = pictureOf(run, asked);
  return { imports, lines, given: ["picture", target] };
}

/** Lines that end with a variable `picture`; `pixels` is null where the page has a picture that no link can hold. */
export function pictureOf(run, { number, pixels }) {
  if (pixels === null) return { imports: [], lines: [remarked('picture = "picture.png"', remark("own_file"))] };
  const shape = ["source = model.config.model.source", "shape = (source.side, source.side, source.channels)"];
  if (pixels) {
    const parts = pixels.match(new RegExp(`.{1,${LETTERS}}`, "g")).map((each) => `    "${each}"\n`);
    const lines = [`pixels = base64.b64decode(\n${parts.join("")})`, ...shape, "picture = np.frombuffer(pixels, np.uint8).reshape(shape)"];
    return { imports: ["import base64", "import numpy as np"], lines };
  }
  if (!run.abilities.includes("curves")) // real weights
    return { imports: ["import numpy as np"], lines: [...shape, remarked("picture = np.full(shape, 128, np.uint8)", remark("grey"))] };
  return { imports: [FIND_RUN, JUDGED_ON], lines: [recipeOf(run), `picture = judged_on(recipe).pixels[${number}]`] };
}

/** The recipe that a run was made from. */
export function recipeOf(run) {
  return call("find_run", [text(run.loads)], { before: "recipe = ", after: ".recipe()" });
}
