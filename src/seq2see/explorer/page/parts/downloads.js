/**
 * Taking home what is shown. Views call `bench.offer`, which puts the buttons of this file under the view.
 *
 *   bench.offer({ name: "attention", canvas, table: { columns: ["a", "b"], rows: [[1, 2]] } })
 *   bench.offer({ name: "curve", svg })
 *
 * `canvas`, `svg` and `table` may each be a function that makes it, called only when a button is pressed. Every picture
 * is offered both as PNG and as SVG: what was drawn in one way is turned into the other.
 */

import { paper } from "./colours.js";
import { draw, make } from "./dom.js";

const FINER = 2; // pixels of a PNG for each of a drawing, so that it can be printed

/** Buttons for one thing that is offered. */
export function downloads({ name, canvas, svg, table }) {
  const buttons = [
    canvas && button("PNG", () => pngOf(made(canvas)), name, "png"),
    !canvas && svg && button("PNG", async () => pngOf(await painted(made(svg))), name, "png"),
    (svg || canvas) && button("SVG", () => svgOf(made(svg ?? canvas.svg ?? (() => framed(made(canvas))))), name, "svg"),
    table && button("CSV", () => csvOf(made(table)), name, "csv"),
  ].filter(Boolean);
  return make("p", { class: "downloads" }, make("span", {}, name), ...buttons);
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

function button(kind, blobOf, name, ending) {
  const save = async () => {
    const address = URL.createObjectURL(await blobOf());
    make("a", { href: address, download: `${fileName(name)}.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return make("button", { type: "button", "aria-label": `${name} ${kind}`, on: { click: save } }, kind);
}

function made(thing) {
  return typeof thing === "function" ? thing() : thing;
}

function pngOf(canvas) {
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function svgOf(svg) {
  return new Blob([textOf(svg)], { type: "image/svg+xml" });
}

function textOf(svg) {
  return new XMLSerializer().serializeToString(svg);
}

/** A drawing as a canvas. */
async function painted(svg) {
  const { width, height } = svg.viewBox.baseVal;
  const sized = svg.cloneNode(true);
  for (const [name, value] of Object.entries({ width, height })) sized.setAttribute(name, value);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(sized))}`;
  await image.decode();
  const canvas = make("canvas", { width: FINER * width, height: FINER * height });
  const context = canvas.getContext("2d");
  context.fillStyle = paper().paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** A canvas as a drawing: the picture that it is, in a frame that drawing programs open. */
function framed(canvas) {
  const { width, height } = canvas;
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, draw("image", { href: canvas.toDataURL(), width, height }));
}

function csvOf(table) {
  return new Blob([csvText(table)], { type: "text/csv;charset=utf-8" });
}

/** A name that every file system takes. */
function fileName(name) {
  return name.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "seq2see";
}
