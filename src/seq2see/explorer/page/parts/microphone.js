/**
 * The microphone: samples as integers of 16 bits, and the WAV file of a recording.
 *
 *   const microphone = await openMicrophone((chunk) => ...);       an Int16Array of 200 ms, one channel
 *   await microphone.stop();                                       after the last chunk
 *   const bytes = wavFile(samples, microphone.rate);
 *
 * Browsers offer a microphone only to pages of a secure context: encrypted ones, localhost or 127.0.0.1, but not another address of
 * the local network. A `MicrophoneError` has the key of its text.
 */

const RATE = 16_000; // Hz; a browser that cannot resample records at the rate of the device
const HEADER_BYTES = 44;
const CONSTRAINTS = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const PROBLEMS = { NotAllowedError: "microphone_refused", NotFoundError: "no_microphone" };

export class MicrophoneError extends Error {
  constructor(key) {
    super(key);
    this.key = key;
  }
}

export async function openMicrophone(onChunk) {
  if (!window.isSecureContext || !navigator.mediaDevices) throw new MicrophoneError("not_secure");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: CONSTRAINTS });
  } catch (error) {
    throw new MicrophoneError(PROBLEMS[error.name] ?? "microphone_failed");
  }
  const stopTracks = () => stream.getTracks().forEach((track) => track.stop());
  try {
    return await record(stream, onChunk, stopTracks);
  } catch (error) {
    stopTracks();
    throw error;
  }
}

async function record(stream, onChunk, stopTracks) {
  const { context, source } = connected(stream);
  await context.audioWorklet.addModule("/page/parts/recorder_worklet.js");
  const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
  let onEnd;
  const ended = new Promise((resolve) => (onEnd = resolve));
  recorder.port.onmessage = ({ data }) => (data ? onChunk(data) : onEnd());
  source.connect(recorder);
  await context.resume();
  const stop = async () => {
    recorder.port.postMessage("end");
    await ended;
    stopTracks();
    await context.close();
  };
  return { rate: context.sampleRate, stop };
}

/** A context of 16 kHz with the microphone as source; some browsers only allow the rate of the device. */
function connected(stream) {
  const context = new AudioContext({ sampleRate: RATE });
  try {
    return { context, source: context.createMediaStreamSource(stream) };
  } catch {
    context.close();
    const native = new AudioContext();
    return { context: native, source: native.createMediaStreamSource(stream) };
  }
}

/** The bytes of a WAV file with one channel, of samples from -1 to 1 or of integers of 16 bits. */
export function wavFile(samples, rate) {
  const bytes = new Uint8Array(HEADER_BYTES + 2 * samples.length);
  const view = new DataView(bytes.buffer);
  const write = (at, text) => bytes.set(Array.from(text, (letter) => letter.charCodeAt(0)), at);
  write(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  write(8, "WAVEfmt ");
  const format = [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, 2 * rate, 4], [32, 2, 2], [34, 16, 2]]; // PCM, one channel
  for (const [at, value, size] of format) if (size === 4) view.setUint32(at, value, true); else view.setUint16(at, value, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  const scale = samples instanceof Int16Array ? 1 : 32767;
  samples.forEach((value, index) => view.setInt16(HEADER_BYTES + 2 * index, Math.round(scale * value), true));
  return bytes;
}

/** Several chunks of samples as one. */
export function concatenated(chunks) {
  const samples = new Int16Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const chunk of chunks) {
    samples.set(chunk, start);
    start += chunk.length;
  }
  return samples;
}
