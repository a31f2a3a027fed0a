/**
 * Taking home what is shown. Views call `app.offer`, which puts the buttons of this file under the view.
 *
 *   bench.offer({ name: "attention", figure: map.figure, table: { columns: ["a", "b"], rows: [[1, 2]] } })
 *   bench.offer({ name: "curve", figure: chart.svg, table: chart.table })
 *   bench.offer({ name: "tokens", figure: strip, table })
 *
 * `image` is a function that draws an <svg>, an <svg> of the page (which knows how to draw itself `redraw`), or any other
 * element of the page; without one the table itself is drawn. `table` may be a function, too. Nothing is made before a
 * button is pressed, and then on white paper, whatever the page looks like: it goes into a document. So everything can be
 * had in three ways: to be seen anywhere (PNG), to be enlarged and edited (SVG), and as numbers (CSV).
 */

import { withLightTheme, palette } from "./colors.js";
import { make } from "./dom.js";
import { elementToSvg, tableToSvg } from "./page_paper.js";

const PNG_SCALE = 2; // pixels of a PNG for each of a drawing, so that it can be printed
const MAX_PIXELS = 1e8; // of a PNG; browsers have no larger canvas
const MAX_SIDE = 16_000;

/** Buttons for one thing that is offered; it may be `replaced` by a newer one, and they give that. */
export class Downloads {
  constructor(message) {
    this.named = make("span", {});
    const buttons = { PNG: () => this.png(), SVG: () => this.svg(), CSV: () => this.csv() };
    this.buttons = Object.entries(buttons).map(([kind, blobOf]) =>
      make("button", { type: "button", "data-kind": kind, on: { click: () => this.save(kind, blobOf) } }, kind));
    this.element = make("p", { class: "downloads" }, this.named, ...this.buttons);
    this.replace(message);
  }

  replace(message) {
    this.message = message;
    if (this.named.textContent === message.name) return;
    this.named.textContent = message.name;
    for (const button of this.buttons) button.setAttribute("aria-label", `${message.name} ${button.dataset.kind}`);
  }

  async save(kind, blobOf) {
    const address = URL.createObjectURL(await blobOf());
    make("a", { href: address, download: `${fileName(this.message.name)}.${kind.toLowerCase()}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  drawing() {
    return withLightTheme(() => drawingOf(this.message));
  }

  svg() {
    return new Blob([textOf(this.drawing())], { type: "image/svg+xml" });
  }

  async png() {
    const canvas = await rasterize(this.drawing());
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  csv() {
    return new Blob([csvText(resolved(this.message.table))], { type: "text/csv;charset=utf-8" });
  }
}

/** A table as CSV with a byte order mark, so that a spreadsheet reads the Chinese in it. */
export function csvText({ columns, rows }) {
  const lines = [columns, ...rows].map((row) => row.map(cell).join(","));
  return `\ufeff${lines.join("\r\n")}\r\n`;
}

/** A matrix as a table: a column of row names, then the numbers. */
export function matrixTable({ rows, columns, values }) {
  const width = columns.length;
  return {
    columns: ["", ...columns],
    rows: rows.map((name, row) => [name, ...Array.from(values.slice(row * width, (row + 1) * width))]),
  };
}

function cell(value) {
  const text = typeof value === "number" ? String(value) : String(value ?? "");
  // A text that begins like a formula would be computed by a spreadsheet: an apostrophe keeps it a text.
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function made(thing) {
  return typeof thing === "function" ? thing() : thing;
}

function drawingOf({ figure, table }) {
  const found = made(figure?.again ?? figure) ?? tableDrawing(made(table));
  return found instanceof SVGElement ? found : pageDrawing(found);
}

function textOf(svg) {
  return new XMLSerializer().serializeToString(svg);
}

/** A drawing as a canvas, on white. */
async function painted(svg) {
  const { width, height } = svg.viewBox.baseVal;
  const sized = svg.cloneNode(true);
  for (const [name, value] of Object.entries({ width, height })) sized.setAttribute(name, value);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(sized))}`;
  await image.decode();
  const finer = Math.min(PNG_SCALE, MAX_SIDE / Math.max(width, height), Math.sqrt(MAX_PIXELS / (width * height)));
  const canvas = make("canvas", { width: Math.round(finer * width), height: Math.round(finer * height) });
  const context = canvas.getContext("2d");
  context.fillStyle = withLightTheme(palette).palette;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** A name that every file system takes. */
function fileName(name) {
  return name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "seq2see";
}
