/**
 * An AudioWorklet module: it runs in the audio thread of the browser, and sends the samples of the microphone to the page
 * in chunks of 200 ms, as integers of 16 bits. A message from the page ends the recording with a last, shorter chunk.
 */

const CHUNK_SECONDS = 0.2;

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.chunk = new Int16Array(Math.round(CHUNK_SECONDS * sampleRate));
    this.count = 0;
    this.ended = false;
    this.port.onmessage = () => {
      this.send();
      this.port.postMessage(null);
      this.ended = true;
    };
  }

  /** Called for every 128 samples; a microphone that is not connected yet has no channel. */
  process([[channel = []] = []]) {
    for (const value of channel) {
      this.chunk[this.count] = Math.round(32767 * Math.min(Math.max(value, -1), 1));
      this.count += 1;
      if (this.count === this.chunk.length) this.send();
    }
    return !this.ended;
  }

  send() {
    this.port.postMessage(this.chunk.slice(0, this.count));
    this.count = 0;
  }
}

registerProcessor("recorder", Recorder);
