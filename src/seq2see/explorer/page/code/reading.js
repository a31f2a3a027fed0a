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
const LONGEST = 8_000; // letters of base64 that are still written into a snippet
const SOURCE = "source = model.config.model.source"; // how a model sees pictures

/** `asked` is what the page asks the server: `{text | number | pixels, target}`. */
export function readBy(run, asked) {
  const answer = asked.target || (run.encoder === null ? "" : null); // running text is looked at as it stands
  const target = answer === null ? null : text(answer);
  if (!looksAt(run)) return { imports: [], lines: [], given: [text(asked.text), target] };
  const { imports, lines } = pictureOf(run, asked);
  return { imports, lines, given: ["picture", target] };
}

/** Lines that end with a variable `picture`: one of the test split, or one of the page; of films and large ones its file. */
export function pictureOf(run, { number, pixels }) {
  const film = run.abilities.includes("films");
  if (pixels && (film || pixels.length > LONGEST)) return fileOf(film);
  const shape = [SOURCE, "shape = (source.side, source.side, source.channels)"];
  if (pixels) {
    const parts = pixels.match(new RegExp(`.{1,${LETTERS}}`, "g")).map((each) => `    "${each}"\n`);
    const lines = [`pixels = base64.b64decode(\n${parts.join("")})`, ...shape, "picture = np.frombuffer(pixels, np.uint8).reshape(shape)"];
    return { imports: ["import base64", "import numpy as np"], lines };
  }
  if (!run.abilities.includes("curves")) // real weights
    return { imports: ["import numpy as np"], lines: [...shape, remarked("picture = np.full(shape, 128, np.uint8)", remark("grey"))] };
  return { imports: [FIND_RUN, JUDGED_ON], lines: [recipeOf(run), `picture = judged_on(recipe).pixels[${number}]`] };
}

/** A file as the model sees it: its learner knows where that lies. */
function fileOf(film) {
  const seen = film ? ["picture, _ = see_film(path, source.side, source.channels, source.frames)"]
    : ["picture = decode_picture(path, side=source.side, channels=source.channels)"];
  const path = film ? remarked('path = Path("film.gif")', remark("own_film")) : remarked('path = Path("picture.png")', remark("own_file"));
  const reads = film ? "from seq2see.sources.films import see_film" : "from seq2see.sources.pictures import decode_picture";
  return { imports: ["from pathlib import Path", reads], lines: [path, SOURCE, ...seen] };
}

/** The recipe that a run was made from. */
export function recipeOf(run) {
  return call("find_run", [text(run.loads)], { before: "recipe = ", after: ".recipe()" });
}
