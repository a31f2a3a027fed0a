/**
 * A drawing context with the interface of a canvas that produces SVG, so that one paint function serves both.
 *
 *   const context = new SvgContext(width, height);
 *   paintMap(context, map);
 *   context.svg
 *
 * Only the methods that this page uses are implemented. An image of few pixels (the cells of a map, a small photograph)
 * becomes squares, which stay sharp in every program; a larger one stays an image.
 */

import { draw, make } from "./dom.js";

const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASELINES = { middle: "central" };
const MAX_SQUARES = 5000; // pixels of an image that is drawn as squares
let contextCount = 0; // for unique ids of clip paths

/** The attributes of a CSS color; its alpha becomes an opacity attribute, which all SVG programs support. */
export function svgColor(name, color, alpha = 1) {
  const [, red, green, blue, cssAlpha] = /^rgba\(([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+)\)$/.exec(color) ?? [];
  const opacity = alpha * Number(cssAlpha ?? 1);
  const opaque = cssAlpha === undefined ? color : `rgb(${red}, ${green}, ${blue})`;
  return opacity === 1 ? { [name]: opaque } : { [name]: opaque, [`${name}-opacity`]: Number(opacity.toFixed(3)) };
}

export class SvgContext {
  constructor(width, height) {
    this.svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    this.measure = make("canvas").getContext("2d");
    const colors = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, dash: null, globalAlpha: 1 };
    this.pen = { group: this.svg, ...colors, font: "", textAlign: "left", textBaseline: "" };
    this.stateStack = [];
    this.path = [];
    contextCount += 1;
    this.name = `clip-${contextCount}`;
  }

  save() {
    this.stateStack.push({ ...this.pen });
  }

  restore() {
    this.pen = this.stateStack.pop();
  }

  /** Not needed: a new drawing is empty. */
  clearRect() {}

  beginPath() {
    this.path = [];
  }

  moveTo(x, y) {
    this.path.push(`M${x} ${y}`);
  }

  lineTo(x, y) {
    this.path.push(`L${x} ${y}`);
  }

  rect(x, y, width, height) {
    this.path.push(`M${x} ${y}h${width}v${height}h${-width}z`);
  }

  /** A full circle; other arcs are not used. */
  arc(x, y, radius) {
    this.path.push(`M${x - radius} ${y}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`);
  }

  clip() {
    this.svg.append(draw("clipPath", { id: this.name }, draw("path", { d: this.path.join("") })));
    this.pushGroup({ "clip-path": `url(#${this.name})` });
  }

  translate(x, y) {
    this.pushGroup({ transform: `translate(${x} ${y})` });
  }

  rotate(angle) {
    this.pushGroup({ transform: `rotate(${(angle * 180) / Math.PI})` });
  }

  /** Append a group for all following elements, until `restore`. */
  pushGroup(properties) {
    const group = draw("g", properties);
    this.pen.group.append(group);
    this.pen.group = group;
  }

  get filling() {
    return svgColor("fill", this.pen.fillStyle, this.pen.globalAlpha);
  }

  get stroking() {
    const { strokeStyle, globalAlpha, lineWidth, dash } = this.pen;
    return { ...svgColor("stroke", strokeStyle, globalAlpha), "stroke-width": lineWidth, "stroke-dasharray": dash };
  }

  setLineDash(lengths) {
    this.pen.dash = lengths.length ? lengths.join(" ") : null;
  }

  fill() {
    this.pen.group.append(draw("path", { d: this.path.join(""), ...this.filling }));
  }

  stroke() {
    this.pen.group.append(draw("path", { d: this.path.join(""), fill: "none", ...this.stroking }));
  }

  fillRect(x, y, width, height) {
    this.pen.group.append(draw("rect", { x, y, width, height, ...this.filling }));
  }

  strokeRect(x, y, width, height) {
    this.pen.group.append(draw("rect", { x, y, width, height, fill: "none", ...this.stroking }));
  }

  drawImage(image, x, y, width, height) {
    if (image.width * image.height <= MAX_SQUARES) return this.squares(image, x, y, [width / image.width, height / image.height]);
    const properties = { href: image.toDataURL("image/png"), preserveAspectRatio: "none", "image-rendering": "pixelated" };
    this.pen.group.append(draw("image", { ...properties, x, y, width, height }));
  }

  /** An image as squares; neighboring pixels of one color in a row are one rectangle. */
  squares(image, x, y, [pixelWidth, pixelHeight]) {
    const { data } = image.getContext("2d").getImageData(0, 0, image.width, image.height);
    const colorAt = (index) => (data[4 * index + 3] ? `rgb(${data.slice(4 * index, 4 * index + 3).join(", ")})` : "none");
    const group = draw("g", { "shape-rendering": "crispEdges" });
    for (let row = 0; row < image.height; row += 1)
      for (let column = 0, end; column < image.width; column = end) {
        const fill = colorAt(row * image.width + column);
        for (end = column + 1; end < image.width && colorAt(row * image.width + end) === fill; ) end += 1;
        const size = { width: (end - column) * pixelWidth, height: pixelHeight };
        group.append(draw("rect", { x: x + column * pixelWidth, y: y + row * pixelHeight, ...size, fill }));
      }
    this.pen.group.append(group);
  }

  fillText(text, x, y) {
    this.write(text, x, y, this.filling);
  }

  strokeText(text, x, y) {
    this.write(text, x, y, { fill: "none", "stroke-linejoin": "round", ...this.stroking });
  }

  write(text, x, y, attributes) {
    const [, weight, size, family] = /^(bold )?([\d.]+)px (.*)$/.exec(this.pen.font) ?? ["", "", 15, "sans-serif"];
    const font = { "font-size": size, "font-family": family, ...(weight ? { "font-weight": "bold" } : {}) };
    const alignment = { "text-anchor": ANCHORS[this.pen.textAlign], "dominant-baseline": BASELINES[this.pen.textBaseline] };
    this.pen.group.append(draw("text", { x, y, ...font, ...attributes, ...alignment }, text));
  }

  measureText(text) {
    this.measure.font = this.pen.font;
    return this.measure.measureText(text);
  }
}

/** The properties of the drawing state, as in a canvas context. */
for (const name of ["fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "font", "textAlign", "textBaseline"]) {
  Object.defineProperty(SvgContext.prototype, name, {
    get() {
      return this.pen[name];
    },
    set(value) {
      this.pen[name] = value;
    },
  });
}
