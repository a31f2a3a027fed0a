/**
 * A paper that is painted on like a canvas and remembers it as SVG: one painter makes both, and texts stay texts.
 *
 *   const paper = new SvgPaper(width, height);
 *   paintMap(paper, map);
 *   paper.svg
 *
 * It knows what the painter of heat maps uses, and no more.
 */

import { draw, make } from "./dom.js";

const ANCHORS = { left: "start", center: "middle", right: "end" };
const BASELINES = { middle: "central" };
let papers = 0; // a name for what each cuts off

export class SvgPaper {
  constructor(width, height) {
    this.svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    this.measure = make("canvas").getContext("2d");
    const colours = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, dash: null };
    this.pen = { group: this.svg, ...colours, font: "", textAlign: "left", textBaseline: "" };
    this.kept = [];
    papers += 1;
    this.name = `seen-${papers}`;
  }

  save() {
    this.kept.push({ ...this.pen });
  }

  restore() {
    this.pen = this.kept.pop();
  }

  beginPath() {}

  rect(x, y, width, height) {
    this.outline = { x, y, width, height };
  }

  clip() {
    this.svg.append(draw("clipPath", { id: this.name }, draw("rect", this.outline)));
    this.within({ "clip-path": `url(#${this.name})` });
  }

  translate(x, y) {
    this.within({ transform: `translate(${x} ${y})` });
  }

  rotate(angle) {
    this.within({ transform: `rotate(${(angle * 180) / Math.PI})` });
  }

  /** What comes next is done in a group of its own, until the pen of before is taken up again. */
  within(properties) {
    const group = draw("g", properties);
    this.pen.group.append(group);
    this.pen.group = group;
  }

  fillRect(x, y, width, height) {
    this.pen.group.append(draw("rect", { x, y, width, height, fill: this.pen.fillStyle }));
  }

  strokeRect(x, y, width, height) {
    const { strokeStyle: stroke, lineWidth, dash } = this.pen;
    const looks = { fill: "none", stroke, "stroke-width": lineWidth, "stroke-dasharray": dash };
    this.pen.group.append(draw("rect", { x, y, width, height, ...looks }));
  }

  setLineDash(lengths) {
    this.pen.dash = lengths.length ? lengths.join(" ") : null;
  }

  drawImage(image, x, y, width, height) {
    const properties = { href: image.toDataURL("image/png"), preserveAspectRatio: "none", "image-rendering": "pixelated" };
    this.pen.group.append(draw("image", { ...properties, x, y, width, height }));
  }

  fillText(text, x, y) {
    const [, size, family] = /^([\d.]+)px (.*)$/.exec(this.pen.font) ?? ["", 15, "sans-serif"];
    const looks = { "font-size": size, "font-family": family, fill: this.pen.fillStyle };
    const places = { "text-anchor": ANCHORS[this.pen.textAlign], "dominant-baseline": BASELINES[this.pen.textBaseline] };
    this.pen.group.append(draw("text", { x, y, ...looks, ...places }, text));
  }

  measureText(text) {
    this.measure.font = this.pen.font;
    return this.measure.measureText(text);
  }
}

/** What a canvas calls its pen is set here as there. */
for (const name of ["fillStyle", "strokeStyle", "lineWidth", "font", "textAlign", "textBaseline"]) {
  Object.defineProperty(SvgPaper.prototype, name, {
    get() {
      return this.pen[name];
    },
    set(value) {
      this.pen[name] = value;
    },
  });
}
