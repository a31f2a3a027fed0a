/**
 * What a model is given to read, in Python: a text, or an image of the run's own test split, or one from the page.
 *
 *   const { imports, lines, given } = readBy(app.run, input.asked());
 *   assigned("record", "model.trace", given)
 */

import { takesImages } from "../parts/input_box.js";
import { comment } from "./comments.js";
import { call, withComment, text } from "./python.js";

export const IMPORT_FIND_RUN = "from seq2see.workbench.run_folder import find_run";
export const IMPORT_TEST_EXAMPLES = "from seq2see.workbench.prepare import judged_on";
const LETTERS = 80; // of base64 on a line
const LONGEST = 8_000; // letters of base64 that are still written into a snippet
const SOURCE = "source = model.config.model.source"; // how a model sees images

/** `params` is what the page asks the server: `{text | number | pixels, target}`. */
export function inputCode(run, params) {
  const answer = params.target || (run.encoder === null ? "" : null); // running text is looked at as it stands
  const target = answer === null ? null : text(answer);
  if (!takesImages(run)) return { imports: [], lines: [], args: [text(params.text), target] };
  const { imports, lines } = imageCode(run, params);
  return { imports, lines, args: ["image", target] };
}

/** Lines that end with a variable `image`: one of the test split, or one of the page; of videos and large ones its file. */
export function imageCode(run, { number, pixels }) {
  const video = run.capabilities.includes("videos");
  if (pixels && (video || pixels.length > LONGEST)) return fileOf(video);
  const shape = [SOURCE, "shape = (source.image_size, source.image_size, source.channels)"];
  if (pixels) {
    const parts = pixels.match(new RegExp(`.{1,${LETTERS}}`, "g")).map((each) => `    "${each}"\n`);
    const lines = [`pixels = base64.b64decode(\n${parts.join("")})`, ...shape, "image = np.frombuffer(pixels, np.uint8).reshape(shape)"];
    return { imports: ["import base64", "import numpy as np"], lines };
  }
  if (!run.capabilities.includes("curves")) // real weights
    return { imports: ["import numpy as np"], lines: [...shape, withComment("image = np.full(shape, 128, np.uint8)", comment("gray"))] };
  return { imports: [IMPORT_FIND_RUN, IMPORT_TEST_EXAMPLES], lines: [recipeOf(run), `image = judged_on(recipe).pixels[${number}]`] };
}

/** A file as the model sees it: its learner knows where that lies. */
function fileOf(video) {
  const seen = video ? ["image, _ = see_video(path, source.image_size, source.channels, source.frames)"]
    : ["image = decode_image(path, side=source.image_size, channels=source.channels)"];
  const path = video ? withComment('path = Path("video.gif")', comment("own_video")) : withComment('path = Path("image.png")', comment("own_file"));
  const reads = video ? "from seq2see.sources.videos import see_video" : "from seq2see.sources.images import decode_image";
  return { imports: ["from pathlib import Path", reads], lines: [path, SOURCE, ...seen] };
}

/** The recipe that a run was made from. */
export function recipeOf(run) {
  return call("find_run", [text(run.load_name)], { before: "recipe = ", after: ".recipe()" });
}
