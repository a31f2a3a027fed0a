/**
 * How likely each token is to be drawn, after a penalty for repeating, temperature, top-k and top-p, in this order.
 *
 *   const { chances, others, complete } = chancesOf(told, { temperature: 0.7, top_k: 40, top_p: 0.9, repetition: 1.2 });
 *
 * `candidates` is what the server says of one place: `ids` and `scores` (log-probabilities) of the most probable tokens and of
 * all that were `already_generated`; and of the `rest` how many there are, the highest score, and the logarithm of the sum of
 * p^(1/temperature) at each temperature that can be set. `probabilities` stand in the order of `ids`, 0 for what is cut off;
 * `restProbability` is what is left for the rest.
 *
 * It is the arithmetic of decoding/samplers.py and decoding/logits_processors.py. Only where top-k or top-p reach beyond the listed
 * tokens it cannot be done from here: then `complete` is false, and the whole vocabulary must be asked for.
 */

export function tokenProbabilities(candidates, { temperature = 1, top_k = 0, top_p = 1, repetition_penalty = 1 }) {
  const { ids, rest } = candidates;
  const scores = candidates.scores.map((score, index) => (candidates.already_generated[index] ? score * repetition_penalty : score));
  // The best score is moved to 0 first, so that dividing by a tiny temperature cannot overflow.
  const maxScore = Math.max(...scores, rest.highest ?? -Infinity);
  const weights = scores.map((score) => Math.exp((score - maxScore) / temperature));
  const byScore = (first, second) => scores[second] - scores[first] || ids[first] - ids[second];
  const order = scores.map((_, index) => index).sort(byScore);
  // So many tokens are surely more probable than every one that is not listed.
  const listedCount = rest.count ? order.filter((index) => scores[index] >= rest.highest).length : order.length;

  let candidates_ = order;
  let restProbability = rest.count ? Math.exp(logsumexpAt(rest, temperature) - maxScore / temperature) : 0;
  let complete = true;
  if (top_k > 0 && top_k < ids.length + rest.count) {
    complete = top_k <= listedCount;
    candidates_ = order.slice(0, top_k);
    restProbability = 0;
  }
  if (top_p < 1) {
    const count = nucleus(candidates_.map((index) => weights[index]), restProbability, top_p);
    if (restProbability > 0) complete = complete && count <= listedCount;
    candidates_ = candidates_.slice(0, count);
    restProbability = 0;
  }
  const total = candidates_.reduce((sum, index) => sum + weights[index], restProbability);
  const probabilities = new Array(ids.length).fill(0);
  for (const index of candidates_) probabilities[index] = weights[index] / total;
  return { probabilities, restProbability: restProbability / total, complete };
}

/**
 * The fewest of the most probable tokens that together reach a probability; one more than there are if they do not.
 * A token stays if those before it have not reached it yet, so that the first always does.
 */
function nucleus(weights, restProbability, mass) {
  const total = weights.reduce((sum, weight) => sum + weight, restProbability);
  let sum = 0;
  for (const [index, weight] of weights.entries()) {
    if (sum / total >= mass) return index;
    sum += weight;
  }
  return sum / total >= mass || restProbability === 0 ? weights.length : weights.length + 1;
}

/** The rest's sum at one of the temperatures that it is known for; the slider has no others. */
function logsumexpAt(rest, temperature) {
  const index = rest.temperatures.findIndex((each) => Math.abs(each - temperature) < 1e-9);
  if (index < 0) throw new RangeError(`the rest is not known at temperature ${temperature}`);
  return rest.sums[index] ?? -Infinity;
}
