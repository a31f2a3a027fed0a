/** Python for the views that ask what comes next: candidates, surprises, layers, searches, teacher forcing. */

import { assignCall, call, loadModel, number, numbers, python, withComment, SEQ2SEE, text } from "./python.js";
import { inputCode } from "./input_code.js";
import { comment } from "./comments.js";

/** Lines that open the model and say what it stands before: `before`. `params` is `{text | number | pixels, target, taken}`. */
function scorerCode(run, params) {
  const { target = "", taken = [] } = params;
  const { imports, lines, args: [read] } = inputCode(run, params);
  const strategy = run.task === "fill" ? "hiding" : "writing";
  const args = ["model", read, target ? text(target) : null, taken.length ? `taken=${numbers(taken)}` : null];
  return {
    imports: [SEQ2SEE, ...imports, `from seq2see.workbench.${strategy} import ${strategy}`],
    lines: [loadModel(run), ...lines, assignCall("before", strategy, args)],
  };
}

/** How likely each token is to be drawn at one place: `chances`, and the `count` likeliest as `best`. */
export function probabilitiesCode(run, params, { place, count, temperature, top_k: topK, top_p: topP, repetition_penalty }) {
  const { imports, lines } = scorerCode(run, params);
  const set = [temperature === 1 ? null : `temperature=${number(temperature)}`, topK ? `top_k=${topK}` : null,
    topP === 1 ? null : `top_p=${number(topP)}`].filter(Boolean);
  const factor = withComment(`scores[sorted(before.said(${place}))] *= ${number(repetition_penalty)}`, comment("repetition_penalty", { factor: repetition_penalty }));
  return python([...imports, set.length ? "from seq2see.decoding.choosers import Sample" : null], [
    lines,
    `scores = before.at(${place})`,
    repetition_penalty === 1 ? null : factor,
    set.length ? call("Sample", ["seed=0", ...set], { before: "sample = " }) : null,
    set.length ? "chances = sample.probabilities(scores[None])[0]" : "chances = scores.softmax(0)",
    `best = chances.topk(${count})`,
    "for piece, chance in zip(before.tokenizer.pieces(best.indices.tolist()), best.values):",
    '    print(f"{piece} {chance:.3%}")',
  ]);
}

/** How surprising each token of the text is, or how open the question was, in bits: `bits`. */
export function surprisalCode(run, params, paint) {
  const { imports, lines } = scorerCode(run, params);
  const entropy = paint === "entropy";
  return python([...imports, "import math", entropy ? "import torch" : null], [
    lines,
    "scores = before.along()",
    "ids = before.ids[: len(scores)]",
    entropy ? "bits = torch.distributions.Categorical(logits=scores).entropy() / math.log(2)"
      : "bits = -scores[range(len(ids)), ids] / math.log(2)",
    "print(list(zip(before.tokenizer.pieces(ids), bits.tolist())))",
  ]);
}

/** What every layer would say of the place: `scores` (layer, token). */
export function logitLensCode(run, params, place) {
  const { imports, lines } = scorerCode(run, params);
  return python([...imports, "from seq2see.workbench.layers import layers_before"], [
    lines,
    `scores = layers_before(before, ${place})`,
    "for layer, row in enumerate(scores.exp()):",
    "    best = row.topk(4)",
    "    print(layer, before.tokenizer.pieces(best.indices.tolist()), best.values.tolist())",
  ]);
}

const PENALTIES = { none: "NoPenalty", average: "Average", gnmt: "GNMT" };

/** What is set of every search: how long an answer may be, and how lengths are made up for. */
function limitsCode({ length_penalty, alpha, max_new_tokens }) {
  const kind = PENALTIES[length_penalty];
  const made = kind ? `length_penalty=${kind}(${kind === "NoPenalty" ? "" : `alpha=${number(alpha)}`})` : null;
  return { imports: [kind ? `from seq2see.decoding.penalties import ${kind}` : null],
    settings: ["num_return_sequences=1", `max_new_tokens=${max_new_tokens}`, made] };
}

/** What is set where tokens are drawn. */
function samplingCode({ temperature, top_k: topK, top_p: topP }) {
  return ["num_beams=1", "do_sample=True", `temperature=${number(temperature)}`, `top_k=${topK}`, `top_p=${number(topP)}`];
}

/** The whole search: `tree`, and its `answer`. */
export function searchCode(run, params, chosen) {
  const { imports, lines } = scorerCode(run, params);
  const { strategy, num_beams: beams, seed } = chosen;
  const limits = limitsCode(chosen);
  const settings = [...(strategy === "sample" ? samplingCode(chosen) : [`num_beams=${beams}`, "do_sample=False"]), ...limits.settings];
  return python([...imports, ...limits.imports], [
    lines,
    assignCall("decoding", "model.config.decoding.with_", settings),
    `tree = before.search(decoding${way === "sample" ? `, seed=${seed}` : ""})`,
    "for each in tree.nodes:",
    "    piece = before.tokenizer.pieces([each.token])[0]",
    "    print(each.time, piece, round(each.total, 3), round(each.score, 3), each.outcome)",
    "answer = tree.hypotheses[0]",
    "print(before.tokenizer.decode(answer.tokens), answer.score)",
  ]);
}

/** The answers of several widths of the beam, and of two seeds: `answers`. */
export function strategiesCode(run, params, chosen, widths) {
  const { imports, lines } = scorerCode(run, params);
  const limits = limitsCode(chosen);
  return python([...imports, ...limits.imports], [
    lines,
    assignCall("decoding", "model.config.decoding.with_", limits.settings),
    `beams = [decoding.with_(num_beams=count, do_sample=False) for count in ${numbers(widths)}]`,
    assignCall("samplingCode", "decoding.with_", samplingCode(chosen)),
    `searches = [*((each, 0) for each in beams), (drawn, ${chosen.seed}), (drawn, ${chosen.seed + 1})]`,
    "answers = [before.search(each, seed).hypotheses[0] for each, seed in searches]",
    "for each in answers:",
    "    print(before.tokenizer.decode(each.tokens), each.log_probability, each.score)",
  ]);
}

/** Teacher forcing against free running: `found`. */
export function exposureBiasCode(run, params, target) {
  const { imports, lines } = scorerCode(run, params);
  return python([...imports, "from seq2see.workbench.exposure import exposure"], [
    lines,
    assignCall("found", "exposure", ["before", text(target)]),
    "print(found.truth, found.forced_loss)",
    "print(found.free, found.free_loss)",
    "print(found.truth_after_own_loss, found.divergence)",
  ]);
}
