/** The view "Speech": a recording over time, with the letters of the model; from the test split, a file or the microphone. */

import { UserError, saved } from "../api.js";
import { soundCode } from "../code/sound_code.js";
import { button, row, slider } from "../parts/controls.js";
import { fill, make, serialQueue } from "../parts/dom.js";
import { matrixTable } from "../parts/downloads.js";
import { asBase64 } from "../parts/drawing_board.js";
import { concatenated, MicrophoneError, openMicrophone, wavFile } from "../parts/microphone.js";
import { formatPercent } from "../parts/number_format.js";
import { soundFigure } from "../parts/sound_figure.js";
import { tokenStrip } from "../parts/token_strip.js";
import { strings } from "./speech_strings.js";

const MAX_BYTES = 10 << 20; // of a file; the limit of the server
const MAX_SECONDS = 30; // of a recording; the limit of the server
const LIVE_SECONDS = 5; // the shortest time axis during a recording

/** The user's own recording of each run, until the page is closed: too large for the address. */
const ownSounds = new Map();

export const view = {
  name: "speech",
  strings,
  state: { own: false, at: 0 },
  show: (container, app) => new SpeechView(container, app).open(),
};

class SpeechView {
  constructor(container, app) {
    Object.assign(this, { container, app, microphone: null, audio: new Audio(), playUntil: Infinity });
    this.figure = soundFigure({ t: app.t, onSeek: (time) => this.onSeek(time), onPlay: () => this.togglePlay() });
    this.text = make("p", { class: "sound-text", "aria-live": "polite" });
    this.note = make("p", { class: "note" });
    this.strip = make("div", {});
    this.recordButton = button(app.t("record"), () => this.report(() => this.toggleRecording()));
    this.playButton = button(app.t("play"), () => this.togglePlay());
    this.redraw = serialQueue()(() => this.draw());
    app.signal.addEventListener("abort", () => this.close());
    for (const event of ["pause", "ended"]) this.audio.addEventListener(event, () => this.onPause());
    for (const event of ["dragover", "dragleave", "drop"]) container.addEventListener(event, (drag) => this.onDrag(drag));
  }

  async open() {
    const { app } = this;
    const sound = app.state.own ? ownSounds.get(app.run.id) : undefined;
    if (app.state.own && !sound) app.set({ own: false }); // after a reload the recording is gone
    this.sound = sound ?? "";
    await this.load();
    const { count } = this.info;
    const format = (value) => `${value + 1} / ${count}`;
    const samples = slider(app, "number", { name: app.t("recording"), to: Math.max(count - 1, 0), format, redraw: () => this.onNumber() });
    const own = saved ? [make("p", { class: "note" }, app.t("saved"))] : [this.recordButton, this.fileInput()];
    fill(this.container, row(count ? samples : null, ...own), this.text, this.note,
      make("div", { class: "sound-bar" }, this.playButton, this.figure.readout), this.figure.element, this.strip);
    this.show();
  }

  /** The fields of a request: a recording of the test split, or the user's own. */
  params(fields = {}, sound = this.sound) {
    const { run, state } = this.app;
    return { run: run.id, ...(sound ? { sound } : { number: state.number }), ...fields };
  }

  /** The letters of the recording, and all arrays of the figure. */
  async load(sound = this.sound) {
    const info = await this.app.fetchJson("speech/transcript", this.params({}, sound));
    const parts = {};
    for (const part of info.parts) parts[part] = await this.app.fetchArray("speech/part", this.params({ part }, sound));
    Object.assign(this, { sound, info: { ...info, ...parts } });
  }

  async draw() {
    await this.load();
    this.show();
  }

  show() {
    const { app, info } = this;
    const seconds = info.seconds.toFixed(2);
    fill(this.text, info.text || app.t("nothing"));
    const notes = [info.name ? app.t("sample", { name: info.name, seconds }) : app.t("own", { seconds }),
      info.truth ? app.t("reference", { truth: info.truth }) : "", this.sound ? app.t("not_kept") : "", ...info.warnings];
    this.note.textContent = notes.filter(Boolean).join(" ");
    this.figure.sought = Math.min(app.state.at, info.seconds);
    this.figure.show(info);
    this.figure.moveTo(this.figure.sought);
    this.audio.pause();
    URL.revokeObjectURL(this.audio.src);
    this.audio.src = URL.createObjectURL(new Blob([wavFile(info.samples.values, info.rate)], { type: "audio/wav" }));
    this.playButton.disabled = false;
    this.showLetters();
    this.addDownloads();
  }

  /** The letters with their probabilities: pointing at one moves the cursor, a click plays it. */
  showLetters() {
    const { app, info: { letters } } = this;
    const tokens = letters.map(({ text, probability }) => ({ text, note: formatPercent(probability) }));
    const strip = tokenStrip({ name: app.t("letters"), tokens,
      onPoint: (index) => this.figure.playing || this.figure.moveTo(index < 0 ? this.figure.sought : middle(letters[index])),
      onPick: (index) => this.play(letters[index].start, letters[index].end) });
    const help = make("p", { class: "note" }, app.t("strip_help"));
    fill(this.strip, ...(letters.length ? [make("h2", {}, app.t("letters")), help, strip] : []));
  }

  addDownloads() {
    const { app, info, figure } = this;
    const columns = ["letter", "start", "end", "probability"].map((each) => app.t(each));
    const rows = info.letters.map(({ text, start, end, probability }) => [text, start, end, probability]);
    app.addDownload({ key: "figure", name: app.t("title"), figure: () => figure.drawing(), table: { columns, rows } });
    app.showCode({ name: app.t("letters"), python: soundCode(app.run, this.params(), "letters") });
    const times = (axis, count) => Array.from({ length: count }, (_, index) => `${(axis.first + index * axis.step).toFixed(4)} s`);
    const bands = info.frequencies.map((frequency) => `${Math.round(frequency)} Hz`);
    const axes = {
      spectrogram: ({ shape }) => [times(info.frame, shape[0]), bands],
      probabilities: ({ shape }) => [times(info.vector, shape[0]), [app.t("blank"), ...info.vocabulary.slice(1)]],
      attention: ({ shape }) => [info.queries, times(info.vector, shape[1])],
    };
    for (const [part, axesOf] of Object.entries(axes)) {
      const name = app.t(`row_${part}`);
      const [rowNames, columnNames] = info[part] ? axesOf(info[part]) : [];
      const table = info[part] && (() => matrixTable({ rows: rowNames, columns: columnNames, values: info[part].values }));
      app.addDownload({ key: part, name, figure: () => figure.drawing([part]), table });
      app.showCode({ name, python: info[part] ? soundCode(app.run, this.params(), part) : null });
    }
  }

  onNumber() {
    this.sound = "";
    this.app.set({ own: false, at: 0 });
    return this.redraw();
  }

  // --- sound ---

  onSeek(time) {
    this.app.set({ at: Number(time.toFixed(2)) });
    this.audio.currentTime = time;
  }

  togglePlay() {
    if (!this.audio.paused) return this.audio.pause();
    const { sought } = this.figure;
    return this.play(sought < this.info.seconds - 0.05 ? sought : 0);
  }

  async play(from, until = Infinity) {
    this.playUntil = until;
    this.figure.playing = true;
    this.audio.currentTime = from;
    this.playButton.textContent = this.app.t("pause");
    await this.audio.play().catch(() => this.onPause()); // paused before it could begin
    this.followSound();
  }

  /** Move the cursor with the sound, until it is paused. */
  followSound() {
    if (this.audio.paused) return;
    this.figure.moveTo(this.audio.currentTime, { follow: true });
    if (this.audio.currentTime >= this.playUntil) this.audio.pause();
    requestAnimationFrame(() => this.followSound());
  }

  onPause() {
    this.figure.playing = false;
    this.playButton.textContent = this.app.t("play");
    this.figure.moveTo(this.figure.sought);
  }

  // --- files ---

  fileInput() {
    const input = make("input", { type: "file", accept: "audio/*,.wav", name: "upload", id: "control-upload" });
    input.addEventListener("change", () => input.files.length && this.report(() => this.upload(input.files[0])));
    return make("label", { class: "control", for: input.id }, make("span", { class: "name" }, this.app.t("upload")), input);
  }

  onDrag(event) {
    if (saved || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    this.container.classList.toggle("dropping", event.type === "dragover");
    const [file] = event.type === "drop" ? event.dataTransfer.files : [];
    if (file) this.report(() => this.upload(file));
  }

  async upload(file) {
    if (file.size > MAX_BYTES) throw new UserError(this.app.t("file_too_large"));
    await this.openOwn(asBase64(new Uint8Array(await file.arrayBuffer())));
  }

  /** Show a sound file of the user; if the server cannot read it, the view does not change. */
  async openOwn(sound) {
    await this.load(sound);
    ownSounds.set(this.app.run.id, sound);
    this.app.set({ own: true, at: 0 });
    this.show();
  }

  // --- microphone ---

  toggleRecording() {
    return this.microphone ? this.stopRecording() : this.startRecording();
  }

  async startRecording() {
    const { app } = this;
    this.audio.pause();
    this.recordButton.disabled = true;
    Object.assign(this, { chunks: [], sent: 0, sending: false, failed: false, name: randomName() });
    try {
      this.microphone = await openMicrophone((chunk) => this.onChunk(chunk));
    } catch (error) {
      throw error instanceof MicrophoneError ? new UserError(app.t(error.key)) : error;
    } finally {
      this.recordButton.disabled = false;
    }
    if (app.signal.aborted) return this.close(); // another view was opened meanwhile
    this.recordButton.textContent = app.t("stop");
    this.recordButton.classList.add("recording");
    this.playButton.disabled = true;
    fill(this.text);
    fill(this.strip);
    return this.showRecording();
  }

  onChunk(chunk) {
    if (!this.microphone) return;
    this.chunks.push(chunk);
    this.showRecording();
    if (this.info.live && !this.failed) this.report(() => this.sendChunks());
    if (this.recorded().length >= MAX_SECONDS * this.microphone.rate) this.report(() => this.stopRecording());
  }

  /** All samples so far, at most those of `MAX_SECONDS`. */
  recorded() {
    return concatenated(this.chunks).slice(0, MAX_SECONDS * this.microphone.rate);
  }

  showRecording() {
    const { app, microphone: { rate } } = this;
    const samples = this.recorded();
    const seconds = samples.length / rate;
    this.note.textContent = [app.t("recording_now", { seconds: seconds.toFixed(1), limit: MAX_SECONDS }),
      app.t(this.info.live ? "live" : "not_live")].join(" ");
    const values = Float32Array.from(samples, (value) => value / 32768);
    this.figure.show({ samples: { values }, rate, seconds: Math.max(seconds, LIVE_SECONDS) });
    this.figure.moveTo(seconds, { follow: true });
  }

  /** Send the samples that were not sent yet, one request after another: a slow server gets longer parts. */
  async sendChunks() {
    if (this.sending) return;
    this.sending = true;
    try {
      while (this.microphone && this.sent < this.recorded().length) {
        const samples = this.recorded().slice(this.sent);
        const body = { run: this.app.run.id, recording: this.name, rate: this.microphone.rate, start: this.sent,
          samples: asBase64(new Uint8Array(samples.buffer)) };
        const { text } = await this.app.fetchJson("speech/live", body);
        this.sent += samples.length;
        if (this.microphone) fill(this.text, text);
      }
    } catch (error) {
      this.failed = true; // the whole recording is sent at its end
      throw error;
    } finally {
      this.sending = false;
    }
  }

  async stopRecording() {
    const { microphone, app } = this;
    if (this.recordButton.disabled) return;
    this.recordButton.disabled = true;
    try {
      await microphone.stop();
      const samples = this.recorded();
      this.microphone = null;
      await this.openOwn(asBase64(wavFile(samples, microphone.rate)));
    } catch (error) {
      this.show(); // the recording before this one
      throw error;
    } finally {
      this.microphone = null;
      this.recordButton.disabled = false;
      this.recordButton.textContent = app.t("record");
      this.recordButton.classList.remove("recording");
    }
  }

  /** Another view is opened: end the sound and the recording. */
  close() {
    this.audio.pause();
    URL.revokeObjectURL(this.audio.src);
    this.microphone?.stop();
    this.microphone = null;
  }

  /** Run an asynchronous action, and show its errors. */
  report(action) {
    return action().catch(this.app.showError);
  }
}

function middle({ start, end }) {
  return (start + end) / 2;
}

/** 16 hexadecimal digits. */
function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
