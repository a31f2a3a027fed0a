/**
 * Sampling probabilities of the next token after repetition penalty, temperature, top-k and top-p, in this order.
 *
 *   const settings = { temperature: 0.7, top_k: 40, top_p: 0.9, repetition_penalty: 1.2 };
 *   const { probabilities, restProbability, complete } = tokenProbabilities(candidates, settings);
 *
 * `candidates` is the server's response for one position: `ids` and `scores` (log-probabilities) of the most probable tokens
 * and of all tokens that are `already_generated`; and for the `rest` of the vocabulary its size, its largest score, and the
 * logarithm of the sum of p^(1/temperature) for each temperature of the slider. `probabilities` are in the order of `ids`,
 * 0 for tokens that are cut off; `restProbability` is the total of the rest.
 *
 * This is the arithmetic of decoding/samplers.py. If top-k or top-p extend beyond the listed
 * tokens, `complete` is false, and the scores of the whole vocabulary must be requested.
 */

export function tokenProbabilities(candidates, { temperature = 1, top_k = 0, top_p = 1, repetition_penalty = 1 }) {
  const { ids, rest } = candidates;
  const scores = candidates.scores.map((score, index) => (candidates.already_generated[index] ? score * repetition_penalty : score));
  // Subtract the largest score first, so that a small temperature cannot cause an overflow.
  const maxScore = Math.max(...scores, rest.max_score ?? -Infinity);
  const weights = scores.map((score) => Math.exp((score - maxScore) / temperature));
  const byScore = (first, second) => scores[second] - scores[first] || ids[first] - ids[second];
  const order = scores.map((_, index) => index).sort(byScore);
  // The number of listed tokens that are more probable than every token of the rest.
  const listedCount = rest.count ? order.filter((index) => scores[index] >= rest.max_score).length : order.length;

  let remaining = order;
  let restProbability = rest.count ? Math.exp(logsumexpAt(rest, temperature) - maxScore / temperature) : 0;
  let complete = true;
  if (top_k > 0 && top_k < ids.length + rest.count) {
    complete = top_k <= listedCount;
    remaining = order.slice(0, top_k);
    restProbability = 0;
  }
  if (top_p < 1) {
    const count = nucleus(remaining.map((index) => weights[index]), restProbability, top_p);
    if (restProbability > 0) complete = complete && count <= listedCount;
    remaining = remaining.slice(0, count);
    restProbability = 0;
  }
  const total = remaining.reduce((sum, index) => sum + weights[index], restProbability);
  const probabilities = new Array(ids.length).fill(0);
  for (const index of remaining) probabilities[index] = weights[index] / total;
  return { probabilities, restProbability: restProbability / total, complete };
}

/**
 * The size of the nucleus: the smallest number of most probable tokens whose total probability reaches `mass`; one more
 * than the number of tokens if they do not reach it. The first token is always included.
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

/** The logsumexp of the rest at one of the temperatures of the slider. */
function logsumexpAt(rest, temperature) {
  const index = rest.temperatures.findIndex((each) => Math.abs(each - temperature) < 1e-9);
  if (index < 0) throw new RangeError(`no logsumexp for temperature ${temperature}`);
  return rest.logsumexps[index] ?? -Infinity;
}
