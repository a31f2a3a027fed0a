/**
 * Downloads of figures and tables. Views call `app.addDownload`, which adds the buttons of this file below the view.
 *
 *   app.addDownload({ name: "attention", figure: map.figure, table: { columns: ["a", "b"], rows: [[1, 2]] } })
 *   app.addDownload({ name: "curve", figure: chart.svg, table: chart.table })
 *   app.addDownload({ name: "tokens", figure: strip, table })
 *
 * `figure` is a function that draws an <svg>, an <svg> of the page (with a method `redraw` that draws it anew), or any other
 * element of the page; without a figure the table is drawn. `table` may be a function, too. Files are made when a button
 * is pressed, always in the light theme, as they go into documents. There are three formats: PNG (pixels), SVG (vectors)
 * and CSV (numbers).
 */

import { withLightTheme, palette } from "./colors.js";
import { make } from "./dom.js";
import { elementToSvg, tableToSvg } from "./page_svg.js";

const PNG_SCALE = 2; // pixels of a PNG per pixel of a drawing, so that it can be printed
const MAX_PIXELS = 1e8; // of a PNG; the limit of a canvas in browsers
const MAX_SIDE = 16_000;

/** The buttons of one download; `replace` sets new contents. */
export class DownloadButtons {
  constructor(download) {
    this.title = make("span", {});
    const buttons = { PNG: () => this.png(), SVG: () => this.svg(), CSV: () => this.csv() };
    this.buttons = Object.entries(buttons).map(([kind, blobOf]) =>
      make("button", { type: "button", "data-kind": kind, on: { click: () => this.save(kind, blobOf) } }, kind));
    this.element = make("p", { class: "downloads" }, this.title, ...this.buttons);
    this.replace(download);
  }

  replace(download) {
    this.download = download;
    if (this.title.textContent === download.name) return;
    this.title.textContent = download.name;
    for (const button of this.buttons) button.setAttribute("aria-label", `${download.name} ${button.dataset.kind}`);
  }

  async save(kind, blobOf) {
    const url = URL.createObjectURL(await blobOf());
    make("a", { href: url, download: `${fileName(this.download.name)}.${kind.toLowerCase()}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  drawing() {
    return withLightTheme(() => drawingOf(this.download));
  }

  svg() {
    return new Blob([textOf(this.drawing())], { type: "image/svg+xml" });
  }

  async png() {
    const canvas = await rasterize(this.drawing());
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  csv() {
    return new Blob([csvText(resolved(this.download.table))], { type: "text/csv;charset=utf-8" });
  }
}

/** A table as CSV with a byte order mark, so that a spreadsheet reads Chinese text. */
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
  // A spreadsheet would evaluate a text that begins like a formula: an apostrophe prevents it.
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The value itself, or the result of a function. */
function resolved(value) {
  return typeof value === "function" ? value() : value;
}

function drawingOf({ figure, table }) {
  const drawing = resolved(figure?.redraw ?? figure) ?? tableToSvg(resolved(table));
  return drawing instanceof SVGElement ? drawing : elementToSvg(drawing);
}

function textOf(svg) {
  return new XMLSerializer().serializeToString(svg);
}

/** A drawing as a canvas with the light background. */
async function rasterize(svg) {
  const { width, height } = svg.viewBox.baseVal;
  const sized = svg.cloneNode(true);
  for (const [name, value] of Object.entries({ width, height })) sized.setAttribute(name, value);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(sized))}`;
  await image.decode();
  const scale = Math.min(PNG_SCALE, MAX_SIDE / Math.max(width, height), Math.sqrt(MAX_PIXELS / (width * height)));
  const canvas = make("canvas", { width: Math.round(scale * width), height: Math.round(scale * height) });
  const context = canvas.getContext("2d");
  context.fillStyle = withLightTheme(palette).background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** A name that is valid on every file system. */
function fileName(name) {
  return name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "seq2see";
}
