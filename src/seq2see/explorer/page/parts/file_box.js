/**
 * A box for a picture file of one's own, which the server makes what the model sees.
 *
 *   place.append(fileBox(bench, async (pixels) => ...));        pixels: bytes in base64, as a question takes them
 */

import { make } from "./dom.js";
import { asBase64 } from "./drawing.js";

const LARGEST_FILE = 10 << 20;

export function fileBox(bench, heard) {
  const input = make("input", { type: "file", accept: "image/*", name: "upload", id: "control-upload" });
  input.addEventListener("change", async () => {
    try {
      if (input.files.length) await heard(await pixelsOf(bench, input.files[0]));
    } catch (error) {
      bench.fail(error);
    }
  });
  return make("label", { class: "control", for: "control-upload" }, make("span", { class: "name" }, bench.word("upload")), input);
}

async function pixelsOf(bench, file) {
  if (file.size > LARGEST_FILE) throw new Error(bench.word("too_large"));
  const content = new Uint8Array(await file.arrayBuffer());
  const { values } = await bench.numbers("vit/upload", { run: bench.run.id, file: asBase64(content) });
  return asBase64(values);
}
