/**
 * A box for a picture of one's own, or a film: the server makes of the files what the model sees.
 *
 *   place.append(fileBox(bench, async () => ...));        it is in `bench.state.pixels` then, as questions take it
 *
 * A film is one animated picture (GIF, WebP, PNG), or a picture for each frame, in the order of their names.
 */

import { Complaint } from "../ask.js";
import { make } from "./dom.js";
import { asBase64 } from "./drawing.js";

const MOST_BYTES = 10 << 20; // of all files together, as the server takes them
const LONGEST_LINK = 40_000; // letters; a larger picture is not written into the address
const BY_NAME = new Intl.Collator("en", { numeric: true }); // frame2 comes before frame10

export function fileBox(bench, heard) {
  const film = bench.run.abilities.includes("films");
  const input = make("input", { type: "file", accept: "image/*", multiple: film, name: "upload", id: "control-upload" });
  input.addEventListener("change", async () => {
    try {
      if (!input.files.length) return;
      keepOwn(bench, await pixelsOf(bench, [...input.files]));
      await heard();
    } catch (error) {
      bench.fail(error);
    }
  });
  const name = bench.word(film ? "upload_film" : "upload");
  return make("label", { class: "control", for: "control-upload" }, make("span", { class: "name" }, name), input);
}

/** A picture that no number names: into the address if it is small, else only into memory, until another view is opened. */
export function keepOwn(bench, pixels) {
  bench.set({ pixels: isKept(pixels) ? pixels : "" });
  bench.state.pixels = pixels;
}

/** Whether the address has it. */
export function isKept(pixels) {
  return pixels.length <= LONGEST_LINK;
}

async function pixelsOf(bench, files) {
  if (files.reduce((sum, { size }) => sum + size, 0) > MOST_BYTES) throw new Complaint(bench.word("too_large"));
  const contents = [];
  for (const file of files.sort((one, other) => BY_NAME.compare(one.name, other.name)))
    contents.push(asBase64(new Uint8Array(await file.arrayBuffer())));
  const { values } = await bench.numbers("vit/upload", { run: bench.run.id, files: contents });
  return asBase64(values);
}
