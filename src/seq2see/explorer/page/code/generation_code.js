/** Python code for the views "Next token" and "Decode step by step": probabilities, surprisal, logit lens, search. */

import { assignCall, call, loadModel, number, numbers, python, withComment, SEQ2SEE, text } from "./python.js";
import { inputCode } from "./input_code.js";
import { comment } from "./comments.js";

/** Lines that load the model and assign its `context`. `params` are `{text | number | pixels, target, forced_ids}`. */
function contextCode(run, params) {
  const { target = "", forced_ids = [] } = params;
  const { imports, lines, args: [input] } = inputCode(run, params);
  const token_ids = forced_ids.length ? `token_ids=${numbers(forced_ids)}` : null;
  const args = [input, target ? text(target) : null, token_ids];
  return {
    imports: [SEQ2SEE, ...imports],
    lines: [loadModel(run), ...lines, assignCall("context", "model.token_context", args)],
  };
}

/** The sampling probabilities at one position: `probabilities`, and the `count` largest as `best`. */
export function probabilitiesCode(run, params, settings) {
  const { position, count, temperature, top_k: topK, top_p: topP, repetition_penalty } = settings;
  const { imports, lines } = contextCode(run, params);
  const sampling = [temperature === 1 ? null : `temperature=${number(temperature)}`, topK ? `top_k=${topK}` : null,
    topP === 1 ? null : `top_p=${number(topP)}`].filter(Boolean);
  const penalty = withComment(`scores[sorted(context.previous_tokens(${position}))] *= ${number(repetition_penalty)}`,
    comment("repetition_penalty", { factor: repetition_penalty }));
  return python([...imports, sampling.length ? "from seq2see.decoding.samplers import RandomSampler" : null], [
    lines,
    `scores = context.scores_at(${position})`,
    repetition_penalty === 1 ? null : penalty,
    sampling.length ? call("RandomSampler", ["seed=0", ...sampling], { before: "sampler = " }) : null,
    sampling.length ? "probabilities = sampler.probabilities(scores[None])[0]" : "probabilities = scores.softmax(0)",
    `best = probabilities.topk(${count})`,
    "tokens = context.tokenizer.tokens(best.indices.tolist())",
    "for token, probability in zip(tokens, best.values):",
    '    print(f"{token} {probability:.3%}")',
  ]);
}

/** The surprisal of each token of the text, or the entropy of its distribution: `bits`. */
export function surprisalCode(run, params, measure) {
  const { imports, lines } = contextCode(run, params);
  const entropy = measure === "entropy";
  return python([...imports, "import math", entropy ? "import torch" : null], [
    lines,
    "scores = context.position_scores()",
    "ids = context.ids[: len(scores)]",
    entropy ? "bits = torch.distributions.Categorical(logits=scores).entropy() / math.log(2)"
      : "bits = -scores[range(len(ids)), ids] / math.log(2)",
    "print(list(zip(context.tokenizer.tokens(ids), bits.tolist())))",
  ]);
}

/** The logit lens at one position: `scores` (layer, token). */
export function logitLensCode(run, params, position) {
  const { imports, lines } = contextCode(run, params);
  return python([...imports, "from seq2see.tasks.token_context import layer_predictions"], [
    lines,
    `scores = layer_predictions(context, ${position})`,
    "for layer, row in enumerate(scores.exp()):",
    "    best = row.topk(4)",
    "    print(layer, context.tokenizer.tokens(best.indices.tolist()), best.values.tolist())",
  ]);
}

const PENALTIES = { none: "NoPenalty", average: "Average", gnmt: "GNMT" };

/** The settings of all strategies: maximum length and length penalty. */
function limitsCode({ length_penalty, alpha, max_new_tokens }) {
  const kind = PENALTIES[length_penalty];
  const penalty = kind ? `length_penalty=${kind}(${kind === "NoPenalty" ? "" : `alpha=${number(alpha)}`})` : null;
  return { imports: [kind ? `from seq2see.decoding.samplers import ${kind}` : null],
    settings: ["num_return_sequences=1", `max_new_tokens=${max_new_tokens}`, penalty] };
}

/** The settings of sampling. */
function samplingCode({ temperature, top_k: topK, top_p: topP }) {
  return ["num_beams=1", "do_sample=True", `temperature=${number(temperature)}`, `top_k=${topK}`, `top_p=${number(topP)}`];
}

/** A search: its `tree` and the best `hypothesis`. */
export function searchCode(run, params, settings) {
  const { imports, lines } = contextCode(run, params);
  const { strategy, num_beams: beams, seed } = settings;
  const limits = limitsCode(settings);
  const search = strategy === "sample" ? samplingCode(settings) : [`num_beams=${beams}`, "do_sample=False"];
  return python([...imports, ...limits.imports], [
    lines,
    assignCall("decoding", "model.config.decoding.with_", [...search, ...limits.settings]),
    `tree = context.search(decoding${strategy === "sample" ? `, seed=${seed}` : ""})`,
    "for each in tree.nodes:",
    "    token = context.tokenizer.tokens([each.token])[0]",
    "    print(each.time, token, round(each.total, 3), round(each.score, 3), each.outcome)",
    "hypothesis = tree.hypotheses[0]",
    "print(context.tokenizer.decode(hypothesis.tokens), hypothesis.score)",
  ]);
}

/** The outputs of several beam widths, and of two seeds: `hypotheses`. */
export function strategiesCode(run, params, settings, widths) {
  const { imports, lines } = contextCode(run, params);
  const limits = limitsCode(settings);
  return python([...imports, ...limits.imports], [
    lines,
    assignCall("decoding", "model.config.decoding.with_", limits.settings),
    `beams = [decoding.with_(num_beams=count, do_sample=False) for count in ${numbers(widths)}]`,
    assignCall("sampled", "decoding.with_", samplingCode(settings)),
    `searches = [*((each, 0) for each in beams), (sampled, ${settings.seed}), (sampled, ${settings.seed + 1})]`,
    "hypotheses = [context.search(each, seed).hypotheses[0] for each, seed in searches]",
    "for each in hypotheses:",
    "    print(context.tokenizer.decode(each.tokens), each.log_probability, each.score)",
  ]);
}

/** Teacher forcing compared with free running: `result`. */
export function exposureBiasCode(run, params, target) {
  const { imports, lines } = contextCode(run, params);
  return python([...imports, "from seq2see.tasks.token_context import exposure_bias"], [
    lines,
    assignCall("result", "exposure_bias", ["context", text(target)]),
    "print(result.truth, result.forced_loss)",
    "print(result.free_running, result.free_loss)",
    "print(result.truth_after_free_loss, result.divergence)",
  ]);
}
