/**
 * A recording over time: the wave, the spectrogram, the letters, their probabilities, and attention, under one cursor.
 *
 *   const figure = soundFigure({ t: app.t, onSeek: (seconds) => ..., onPlay: () => ... });
 *   container.append(figure.readout, figure.element);
 *   figure.show(sound)                     the fields are those of `transcript` in views/speech.py; rows without data are omitted
 *   figure.moveTo(1.5)                     move the cursor
 *   figure.playing = true                  the cursor follows the sound, and not the pointer
 *   app.addDownload({ name, figure: () => figure.drawing(["spectrogram"]), table })
 *
 * `figure.canvas.viewData = {spectrogram, probabilities, attention, letters, time}` has the numbers. The canvas is painted at
 * rest; the cursor is an element above it, so that it moves without painting.
 */

import { LINE_COLORS, colormap, palette } from "./colors.js";
import { ticks } from "./chart.js";
import { make } from "./dom.js";
import { imageOf, robustMax } from "./heat_paint.js";
import { formatNumber, formatPercent, formatTick } from "./number_format.js";
import { SvgContext } from "./svg_context.js";

const FAMILY = 'system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';
const [LABEL, TITLE, LETTER] = [`13px ${FAMILY}`, `bold 14px ${FAMILY}`, `bold 17px ${FAMILY}`];
const EDGE = { left: 76, right: 16 };
const [TITLE_HEIGHT, GAP, AXIS_HEIGHT, LETTER_LINE] = [22, 10, 24, 24];
const MIN_PIXELS_PER_SECOND = 60; // a longer recording is scrolled
const MAX_LINES = 3; // of letters that would overlap
const FREQUENCIES = [100, 250, 500, 1000, 2000, 4000, 8000, 16_000]; // Hz, labels
const MIN_PROBABILITY = 0.1; // tokens that are always less probable have no line
const MIN_PEAK = 0.01; // of the scale of the wave, so that silence looks silent
const MIN_SHOWN = 0.001; // the probability from which the second token is named
const BLANK = 0; // the index of the blank of CTC in the vocabulary

/** The rows from top to bottom: a height, and a function that paints the row. */
const ROWS = {
  wave: { height: () => 70, paint: paintWave, exists: ({ samples }) => samples },
  spectrogram: { height: () => 150, paint: paintSpectrogram, exists: ({ spectrogram }) => spectrogram },
  letters: { height: ({ levels }) => LETTER_LINE * (Math.max(...levels.letters, 0) + 1), paint: paintLetters("letters"),
    exists: ({ letters }) => letters?.length },
  reference: { height: ({ levels }) => LETTER_LINE * (Math.max(...levels.reference, 0) + 1), paint: paintLetters("reference"),
    exists: ({ reference }) => reference?.length },
  probabilities: { height: () => 110, paint: paintProbabilities,
    exists: ({ letters, probabilities }) => probabilities ?? letters?.length },
  attention: { height: ({ queries }) => queries.length * attentionCell(queries.length), paint: paintAttention,
    exists: ({ attention }) => attention },
};

export function soundFigure(options) {
  return new SoundFigure(options);
}

class SoundFigure {
  constructor({ t, onSeek, onPlay }) {
    Object.assign(this, { t, onSeek, onPlay, time: 0, sought: 0, playing: false });
    this.canvas = make("canvas", { tabindex: "0", role: "img", class: "sound-canvas" });
    this.cursor = make("div", { class: "sound-cursor" });
    this.plot = make("div", { class: "sound-plot" }, this.canvas, this.cursor);
    this.window = make("div", { class: "scroll" }, this.plot);
    this.readout = make("output", { class: "sound-readout" });
    this.element = make("div", { class: "sound-figure" }, this.window);
    this.listen();
  }

  show(sound) {
    this.sound = { reference: [], letters: [], ...sound, colors: colorsOf(sound) };
    this.canvas.setAttribute("aria-label", `${this.t("figure")}: ${sound.text ?? ""}`);
    const { spectrogram, probabilities, attention, letters, samples } = this.sound;
    this.canvas.viewData = { spectrogram, probabilities, attention, letters, samples: samples.values };
    this.layOut();
    this.moveTo(Math.min(this.time, sound.seconds));
  }

  layOut() {
    if (!this.sound) return;
    const width = Math.max(this.element.clientWidth || 600, EDGE.left + EDGE.right + this.sound.seconds * MIN_PIXELS_PER_SECOND);
    this.layout = layoutOf(this.sound, Math.floor(width), Object.keys(ROWS));
    const pixelRatio = window.devicePixelRatio || 1;
    const size = { width: this.layout.width, height: this.layout.height };
    for (const [name, value] of Object.entries(size)) {
      this.canvas[name] = Math.ceil(value * pixelRatio);
      this.canvas.style[name] = `${value}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    paint(context, this.layout, this.t);
    this.moveTo(this.time);
  }

  /** Some rows as SVG. */
  drawing(names = Object.keys(ROWS)) {
    const layout = layoutOf(this.sound, this.layout.width, names);
    const context = new SvgContext(layout.width, layout.height);
    paint(context, layout, this.t);
    return context.svg;
  }

  /** Move the cursor to a time, and show the values there. */
  moveTo(time, { follow = false } = {}) {
    const { sound, layout } = this;
    this.time = Math.min(Math.max(time, 0), sound.seconds);
    const left = layout.x(this.time);
    this.cursor.style.transform = `translateX(${left}px)`;
    this.cursor.style.height = `${layout.height - AXIS_HEIGHT}px`;
    this.readout.textContent = readoutOf(sound, this.time, this.t);
    this.canvas.viewData.time = this.time;
    const { scrollLeft, clientWidth } = this.window;
    if (follow && (left < scrollLeft + EDGE.left || left > scrollLeft + clientWidth - EDGE.right))
      this.window.scrollLeft = left - EDGE.left;
  }

  /** Move the cursor, and the position from which the sound is played. */
  seek(time) {
    this.moveTo(time, { follow: true });
    this.sought = this.time;
    this.onSeek(this.time);
  }

  listen() {
    const timeAt = (event) => this.layout.time(event.offsetX);
    this.canvas.addEventListener("pointermove", (event) => this.playing || this.moveTo(timeAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.playing || this.moveTo(this.sought));
    this.canvas.addEventListener("click", (event) => this.seek(timeAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (this.element.clientWidth === this.lastWidth) return;
      this.lastWidth = this.element.clientWidth;
      this.layOut();
    }).observe(this.element);
  }

  key(event) {
    const step = this.sound.vector?.step ?? 0.1;
    const targets = { ArrowLeft: this.time - step, ArrowRight: this.time + step, Home: 0, End: this.sound.seconds };
    if (event.key in targets) this.seek(targets[event.key]);
    else if (event.key === " " || event.key === "Enter") this.onPlay();
    else return;
    event.preventDefault();
  }
}

/** The positions of the rows, and the scale from seconds to pixels. */
function layoutOf(sound, width, names) {
  const scale = (width - EDGE.left - EDGE.right) / sound.seconds;
  const x = (time) => EDGE.left + time * scale;
  const time = (pixel) => (pixel - EDGE.left) / scale;
  const levels = { letters: levelsOf(sound.letters, x), reference: levelsOf(sound.reference, x) };
  const rows = [];
  let top = 0;
  for (const name of names.filter((each) => ROWS[each].exists(sound))) {
    const height = ROWS[name].height({ ...sound, levels });
    rows.push({ name, top: top + TITLE_HEIGHT, height });
    top += TITLE_HEIGHT + height + GAP;
  }
  return { sound, width, height: top + AXIS_HEIGHT, scale, x, time, rows, levels };
}

/** The line of each letter, so that letters close to each other do not overlap. */
function levelsOf(letters, x) {
  const context = make("canvas").getContext("2d");
  context.font = LETTER;
  const ends = Array(MAX_LINES).fill(-Infinity);
  return letters.map(({ text, start, end }) => {
    const half = context.measureText(text).width / 2 + 2;
    const middle = x((start + end) / 2);
    const free = ends.findIndex((right) => right <= middle - half);
    const level = free < 0 ? ends.indexOf(Math.min(...ends)) : free;
    ends[level] = middle + half;
    return level;
  });
}

/** A color for each token: in the order of the letters, then the other probable tokens. Gray is the color of the blank. */
function colorsOf({ letters = [], reference = [], probabilities, vocabulary = [] }) {
  const probable = probabilities ? vocabulary.filter((_, token) => token !== BLANK && isProbable(probabilities, token)) : [];
  const texts = new Set([...letters, ...reference].map(({ text }) => text).concat(probable));
  return new Map([...texts].map((text, index) => [text, LINE_COLORS[index % (LINE_COLORS.length - 1)]]));
}

function isProbable({ shape: [vectors, tokens], values }, token) {
  for (let vector = 0; vector < vectors; vector += 1) if (values[vector * tokens + token] >= MIN_PROBABILITY) return true;
  return false;
}

function paint(context, layout, t) {
  const colors = palette();
  context.fillStyle = colors.background;
  context.fillRect(0, 0, layout.width, layout.height);
  paintAxis(context, layout, colors, t);
  for (const row of layout.rows) {
    context.textBaseline = "middle";
    const at = { x: EDGE.left, y: row.top - TITLE_HEIGHT / 2 };
    write(context, t(titleOf(row.name, layout.sound)), { ...at, font: TITLE, color: colors.foreground });
    ROWS[row.name].paint(context, { ...row, bottom: row.top + row.height }, layout, colors, t);
  }
}

function titleOf(name, { probabilities }) {
  return name === "probabilities" && !probabilities ? "row_letter_probabilities" : `row_${name}`;
}

function write(context, text, { x, y, font = LABEL, color, align = "left" }) {
  Object.assign(context, { font, fillStyle: color, textAlign: align });
  context.fillText(text, x, y);
}

function line(context, points) {
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
}

/** Label the time in seconds, and rule all rows. */
function paintAxis(context, { sound, x, width, height, rows }, colors, t) {
  const y = height - AXIS_HEIGHT / 2 - 2;
  context.textBaseline = "middle";
  write(context, t("seconds"), { x: EDGE.left - 8, y, color: colors.muted, align: "right" });
  for (const tick of ticks(0, sound.seconds, Math.max(2, Math.floor((width - EDGE.left) / 110)))) {
    write(context, formatTick(tick), { x: x(tick), y, color: colors.muted, align: "center" });
    Object.assign(context, { strokeStyle: colors.border, lineWidth: 1, globalAlpha: 0.7 });
    for (const { name, top, height: rowHeight } of rows) {
      if (name === "spectrogram" || name === "attention") continue;
      line(context, [[x(tick), top], [x(tick), top + rowHeight]]);
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

/** The smallest and the largest sample of every pixel; the last sample of the pixel before closes gaps. */
function paintWave(context, { top, height }, { sound, x, scale }, colors) {
  const samples = sound.samples.values;
  const perPixel = sound.rate / scale;
  const count = Math.min(Math.floor(samples.length / perPixel), Math.ceil(sound.seconds * scale));
  const [highs, lows] = [[], []];
  let peak = MIN_PEAK;
  for (let pixel = 0; pixel < count; pixel += 1) {
    let [low, high] = [Infinity, -Infinity];
    const [first, end] = [Math.floor(pixel * perPixel), Math.max((pixel + 1) * perPixel, pixel * perPixel + 1)];
    for (let index = Math.max(first - 1, 0); index < end; index += 1) {
      low = Math.min(low, samples[index] ?? 0);
      high = Math.max(high, samples[index] ?? 0);
    }
    lows.push(low);
    highs.push(high);
    peak = Math.max(peak, -low, high);
  }
  const y = (value) => top + height / 2 - (value / peak) * (height / 2 - 1);
  const point = (value, pixel) => [x(pixel / scale), y(value)];
  line(context, [...highs.map(point), ...lows.map(point).reverse().map(([left, at]) => [left, at + 0.7])]);
  context.fillStyle = LINE_COLORS[0];
  if (count) context.fill();
  Object.assign(context, { strokeStyle: colors.border, lineWidth: 1 });
  line(context, [[EDGE.left, top + height / 2], [x(sound.seconds), top + height / 2]]);
  context.stroke();
}

/** An image whose columns are frames or vectors; the first row is at the top. */
function paintImage(context, { top, height }, { sound, x, scale }, { values, rows, columns, min, max, steps }) {
  const numbered = (count) => Array.from({ length: count }, (_, index) => index);
  const image = imageOf({ rows: numbered(rows), columns: numbered(columns), values, min, max, diverging: false }, colormap(false));
  context.save();
  context.beginPath();
  context.rect(x(0), top, sound.seconds * scale, height);
  context.clip();
  context.imageSmoothingEnabled = steps.step * scale < 1;
  context.drawImage(image, x(steps.first - steps.step / 2), top, columns * steps.step * scale, height);
  context.restore();
}

function paintSpectrogram(context, row, layout, colors) {
  const { sound } = layout;
  const { shape: [frames, bands], values } = sound.spectrogram;
  const flipped = new Float32Array(values.length); // high frequencies at the top
  for (let frame = 0; frame < frames; frame += 1)
    for (let band = 0; band < bands; band += 1) flipped[(bands - 1 - band) * frames + frame] = values[frame * bands + band];
  const range = { min: -0.5, max: robustMax(values) };
  paintImage(context, row, layout, { values: flipped, rows: bands, columns: frames, ...range, steps: sound.frame });
  let previous = Infinity;
  for (const frequency of FREQUENCIES) {
    const band = bandOf(sound.frequencies, frequency);
    const y = row.bottom - ((band + 0.5) / bands) * row.height;
    if (band < 0 || previous - y < 15) continue;
    write(context, `${formatTick(frequency)} Hz`, { x: EDGE.left - 6, y, color: colors.muted, align: "right" });
    previous = y;
  }
}

/** The position of a frequency among the peaks of the bands; -1 if it lies beyond them. */
function bandOf(frequencies, frequency) {
  const above = frequencies.findIndex((each) => each >= frequency);
  if (above < 0 || (above === 0 && frequencies[0] > frequency)) return -1;
  return above === 0 ? 0 : above - (frequencies[above] - frequency) / (frequencies[above] - frequencies[above - 1]);
}

/** Letters at their times: a colored box from start to end, with the letter in its middle. */
function paintLetters(name) {
  return (context, { top }, { sound, x, levels }, colors) => {
    sound[name].forEach(({ text, start, end }, index) => {
      const y = top + levels[name][index] * LETTER_LINE;
      Object.assign(context, { fillStyle: sound.colors.get(text), globalAlpha: 0.3 });
      context.fillRect(x(start), y, Math.max(x(end) - x(start), 2), LETTER_LINE);
      context.globalAlpha = 1;
      const center = { x: x((start + end) / 2), y: y + LETTER_LINE / 2 };
      write(context, text, { ...center, font: LETTER, color: colors.foreground, align: "center" });
    });
  };
}

/** The probabilities of the tokens over time; without CTC, one line for each letter. */
function paintProbabilities(context, { top, height, bottom }, { sound, x }, colors) {
  const y = (value) => bottom - value * height;
  for (const value of [0, 0.5, 1]) {
    write(context, `${100 * value} %`, { x: EDGE.left - 6, y: y(value), color: colors.muted, align: "right" });
    Object.assign(context, { strokeStyle: colors.border, lineWidth: 1 });
    line(context, [[EDGE.left, y(value)], [x(sound.seconds), y(value)]]);
    context.stroke();
  }
  if (sound.probabilities) return paintLines(context, { sound, x, y }, colors);
  for (const { text, start, end, probability } of sound.letters) {
    const middle = x((start + end) / 2);
    Object.assign(context, { strokeStyle: sound.colors.get(text), fillStyle: sound.colors.get(text), lineWidth: 3 });
    line(context, [[middle, bottom], [middle, y(probability)]]);
    context.stroke();
    context.beginPath();
    context.arc(middle, y(probability), 4, 0, 2 * Math.PI);
    context.fill();
  }
  return undefined;
}

function paintLines(context, { sound, x, y }, colors) {
  const { probabilities: { shape: [vectors, tokens], values }, vector, vocabulary } = sound;
  const points = (token) => Array.from({ length: vectors }, (_, index) =>
    [x(Math.min(vector.first + index * vector.step, sound.seconds)), y(values[index * tokens + token])]);
  Object.assign(context, { strokeStyle: colors.muted, lineWidth: 1.5 });
  context.setLineDash([4, 3]);
  line(context, points(BLANK));
  context.stroke();
  context.setLineDash([]);
  vocabulary.forEach((text, token) => {
    if (token === BLANK || !isProbable(sound.probabilities, token)) return;
    Object.assign(context, { strokeStyle: sound.colors.get(text), lineWidth: 2 });
    line(context, points(token));
    context.stroke();
  });
}

function attentionCell(count) {
  return Math.min(Math.max(240 / count, 14), 22);
}

function paintAttention(context, row, layout, colors) {
  const { sound } = layout;
  const { shape: [rows, columns], values } = sound.attention;
  paintImage(context, row, layout, { values, rows, columns, min: 0, max: null, steps: sound.vector });
  sound.queries.forEach((text, index) => {
    const y = row.top + (index + 0.5) * (row.height / rows);
    write(context, text, { x: EDGE.left - 6, y, color: colors.foreground, align: "right" });
  });
}

/** The values at a time: the letter, the most probable tokens of CTC, and the letter with the largest attention weight. */
function readoutOf(sound, time, t) {
  const parts = [`${time.toFixed(2)} s`];
  const letter = sound.letters.find(({ start, end }) => start <= time && time < end);
  if (letter) parts.push(`“${letter.text}” ${formatPercent(letter.probability)}`);
  const nearest = () => Math.round((time - sound.vector.first) / sound.vector.step);
  const column = ({ shape }, axis) => Math.min(Math.max(nearest(), 0), shape[axis] - 1);
  if (sound.probabilities) {
    const { shape: [, tokens], values } = sound.probabilities;
    const start = column(sound.probabilities, 0) * tokens;
    const pairs = Array.from({ length: tokens }, (_, token) => [values[start + token], token]);
    const best = pairs.sort(([one], [other]) => other - one).slice(0, 2)
      .filter(([value], rank) => !rank || value >= MIN_SHOWN);
    const nameOf = (token) => (token === BLANK ? t("blank") : sound.vocabulary[token]);
    parts.push(`CTC: ${best.map(([value, token]) => `${nameOf(token)} ${formatPercent(value)}`).join(", ")}`);
  }
  if (sound.attention) {
    const { shape: [rows, columns], values } = sound.attention;
    const at = column(sound.attention, 1);
    const weights = Array.from({ length: rows }, (_, index) => values[index * columns + at]);
    const largest = Math.max(...weights);
    parts.push(t("attends", { text: sound.queries[weights.indexOf(largest)], weight: formatNumber(largest) }));
  }
  return parts.join(" · ");
}
