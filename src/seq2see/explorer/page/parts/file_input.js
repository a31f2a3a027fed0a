/**
 * A box for an image of one's own, or a video: the server makes of the files what the model sees.
 *
 *   place.append(fileBox(bench, async () => ...));        it is in `app.state.pixels` then, as questions take it
 *
 * A video is one animated image (GIF, WebP, PNG), or an image for each frame, in the order of their names.
 */

import { UserError } from "../ask.js";
import { make } from "./dom.js";
import { asBase64 } from "./drawing.js";

const MOST_BYTES = 10 << 20; // of all files together, as the server takes them
const MAX_LINK_LENGTH = 40_000; // letters; a larger image is not written into the address
const BY_NAME = new Intl.Collator("en", { numeric: true }); // frame2 comes before frame10

export function fileInput(app, onFile) {
  const video = app.run.capabilities.includes("videos");
  const input = make("input", { type: "file", accept: "image/*", multiple: video, name: "upload", id: "control-upload" });
  input.addEventListener("change", async () => {
    try {
      if (!input.files.length) return;
      storePixels(app, await pixelsOf(app, [...input.files]));
      await onFile();
    } catch (error) {
      app.fail(error);
    }
  });
  const name = app.word(video ? "upload_video" : "upload");
  return make("label", { class: "control", for: "control-upload" }, make("span", { class: "name" }, name), input);
}

/** An image that no number names: into the address if it is small, else only into memory, until another view is opened. */
export function storePixels(app, pixels) {
  app.set({ pixels: fitsInLink(pixels) ? pixels : "" });
  app.state.pixels = pixels;
}

/** Whether the address has it. */
export function fitsInLink(pixels) {
  return pixels.length <= MAX_LINK_LENGTH;
}

async function pixelsOf(app, files) {
  if (files.reduce((sum, { size }) => sum + size, 0) > MOST_BYTES) throw new UserError(app.word("too_large"));
  const contents = [];
  for (const file of files.sort((one, other) => BY_NAME.compare(one.name, other.name)))
    contents.push(asBase64(new Uint8Array(await file.arrayBuffer())));
  const { values } = await app.numbers("vit/upload", { run: app.run.id, files: contents });
  return asBase64(values);
}
