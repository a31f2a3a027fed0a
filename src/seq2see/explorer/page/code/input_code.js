/**
 * The input of a model in Python code: a text, an image or a recording of the test split, or an uploaded file.
 *
 *   const { imports, lines, args } = inputCode(app.run, input.params());
 *   assignCall("record", "model.trace", args)
 */

import { takesImages } from "../parts/input_box.js";
import { comment } from "./comments.js";
import { call, withComment, text } from "./python.js";

export const IMPORT_FIND_RUN = "from seq2see.runs.run_folder import find_run";
export const IMPORT_TASK_OF = "from seq2see.tasks.task import task_of";
const BASE64_WIDTH = 80; // characters of base64 on a line
const MAX_BASE64_LENGTH = 8_000; // characters of an image that is part of a snippet
const SOURCE = "source = model.config.model.source"; // size and channels of images

/** `params` are the fields of a request: `{text | number | pixels | sound, target}`. */
export function inputCode(run, params) {
  const value = params.target || (run.encoder === null ? "" : null); // a language model has its text as input
  const target = value === null ? null : text(value);
  if (run.capabilities.includes("sounds")) return { ...recordingCode(run, params), args: ["sound", target] };
  if (!takesImages(run)) return { imports: [], lines: [], args: [text(params.text), target] };
  const { imports, lines } = imageCode(run, params);
  return { imports, lines, args: ["image", target] };
}

/** Lines that assign `image`: of the test split, or from the page; videos and large images are read from a file. */
export function imageCode(run, { number, pixels }) {
  const video = run.capabilities.includes("videos");
  if (pixels && (video || pixels.length > MAX_BASE64_LENGTH)) return fileCode(video);
  const shape = [SOURCE, "shape = (source.image_size, source.image_size, source.channels)"];
  if (pixels) {
    const parts = pixels.match(new RegExp(`.{1,${BASE64_WIDTH}}`, "g")).map((each) => `    "${each}"\n`);
    const lines = [`pixels = base64.b64decode(\n${parts.join("")})`, ...shape, "image = np.frombuffer(pixels, np.uint8).reshape(shape)"];
    return { imports: ["import base64", "import numpy as np"], lines };
  }
  if (!run.capabilities.includes("curves")) // pretrained weights
    return { imports: ["import numpy as np"], lines: [...shape, withComment("image = np.full(shape, 128, np.uint8)", comment("gray"))] };
  const lines = [recipeOf(run), `image = task_of(recipe).evaluation_examples(recipe).pixels[${number}]`];
  return { imports: [IMPORT_FIND_RUN, IMPORT_TASK_OF], lines };
}

/** Lines that assign `sound`: the samples of a recording of the test split, or the name of a file. */
function recordingCode(run, { number = 0, sound }) {
  if (sound) return { imports: [], lines: [withComment('sound = "recording.wav"', comment("own_recording"))] };
  if (!run.capabilities.includes("curves")) // pretrained weights
    return { imports: [], lines: [withComment("sound = model.task.example_input(model.config.model)", comment("tone"))] };
  const lines = [recipeOf(run), `sound = task_of(recipe).evaluation_examples(recipe).samples[${number}]`];
  return { imports: [IMPORT_FIND_RUN, IMPORT_TASK_OF], lines };
}

/** Lines that read a file of the user. */
function fileCode(video) {
  const load = video ? "image, _ = load_video(path, source.image_size, source.channels, source.frames)"
    : "image = decode_image(path, image_size=source.image_size, channels=source.channels)";
  const path = video ? withComment('path = Path("video.gif")', comment("own_video"))
    : withComment('path = Path("image.png")', comment("own_file"));
  const loader = video ? "from seq2see.data.readers.video_decoding import load_video"
    : "from seq2see.data.readers.image_files import decode_image";
  return { imports: ["from pathlib import Path", loader], lines: [path, SOURCE, load] };
}

/** A line that reads the recipe of a run. */
export function recipeOf(run) {
  return call("find_run", [text(run.load_name)], { before: "recipe = ", after: ".recipe()" });
}
