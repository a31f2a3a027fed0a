/**
 * A file input for an image or a video of the user: the server converts the files to the model's input.
 *
 *   container.append(fileInput(app, async () => ...));        the pixels are in `app.state.pixels`, as requests expect them
 *
 * A video is one animated image (GIF, WebP, PNG), or one image per frame, in the order of the file names.
 */

import { UserError } from "../api.js";
import { make } from "./dom.js";
import { asBase64 } from "./drawing_board.js";

const MAX_BYTES = 10 << 20; // of all files together; the limit of the server
const MAX_LINK_LENGTH = 40_000; // characters; larger images are not written into the address
const NATURAL_ORDER = new Intl.Collator("en", { numeric: true }); // frame2 before frame10

export function fileInput(app, onFile) {
  const video = app.run.capabilities.includes("videos");
  const input = make("input", { type: "file", accept: "image/*", multiple: video, name: "upload", id: "control-upload" });
  input.addEventListener("change", async () => {
    try {
      if (!input.files.length) return;
      storePixels(app, await pixelsOf(app, [...input.files]));
      await onFile();
    } catch (error) {
      app.showError(error);
    }
  });
  const name = app.t(video ? "upload_video" : "upload");
  return make("label", { class: "control", for: "control-upload" }, make("span", { class: "name" }, name), input);
}

/** Store an uploaded image: in the address if it is small, else only in memory, until another view is opened. */
export function storePixels(app, pixels) {
  app.set({ pixels: fitsInLink(pixels) ? pixels : "" });
  app.state.pixels = pixels;
}

/** Whether the pixels are small enough for the address. */
export function fitsInLink(pixels) {
  return pixels.length <= MAX_LINK_LENGTH;
}

async function pixelsOf(app, files) {
  if (files.reduce((sum, { size }) => sum + size, 0) > MAX_BYTES) throw new UserError(app.t("too_large"));
  const contents = [];
  for (const file of files.sort((first, second) => NATURAL_ORDER.compare(first.name, second.name)))
    contents.push(asBase64(new Uint8Array(await file.arrayBuffer())));
  const { values } = await app.fetchArray("vit/upload", { run: app.run.id, files: contents });
  return asBase64(values);
}
