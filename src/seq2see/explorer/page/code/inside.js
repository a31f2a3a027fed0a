/** Python for the views that look inside while one example is read: attention, one head by hand, recurrent states. */

import { assigned, loaded, named, number, python, remarked, SEQ2SEE, text } from "./python.js";
import { FIND_RUN, JUDGED_ON, readBy, recipeOf } from "./reading.js";
import { remark } from "./remarks.js";

const NUMPY = "import numpy as np";

/** Lines that open the model and trace what it reads, by the name `record`. */
function traced(run, asked, kinds = null) {
  const { imports, lines, given } = readBy(run, asked);
  return { imports: [SEQ2SEE, ...imports], lines: [loaded(run), ...lines, assigned("record", "model.trace", [...given, kinds])] };
}

/** What the view "Attention" shows: the weights of one head, or of all fused, as `weights`; and where one token looks. */
export function attentionCode({ bench: { run, state }, asked, about, layers, place_: { layer: place, head }, shown }, query) {
  const { imports, lines } = traced(run, asked);
  const { name, rows, columns } = layers[place];
  const isHidden = (side) => state.hide && about.special[side]?.some(Boolean);
  const heads = state.heads === "all" && !shown.all ? "one" : state.heads;
  const fused = { mean: "look.values.mean(axis=0)", max: "look.values.max(axis=0)", all: "look.values" }[heads];
  const taken = fused ? `weights = ${fused}` : `weights = look.values[${head}]`;
  const note = heads === "all" ? remark("all_heads") : heads === "one" ? remark("head", { number: head + 1 }) : "";
  const kept = (side) => `[not each for each in record.special[${text(side)}]]`;
  return python(imports, [
    lines,
    assigned("look", "record.find", [text(name), '"attention"']),
    note ? remarked(taken, note) : taken,
    isHidden(rows) ? `weights = weights[..., ${kept(rows)}, :]` : null,
    isHidden(columns) ? `weights = weights[..., ${kept(columns)}]` : null,
    state.transposed && state.shows === "matrix" ? remarked("weights = weights.T", remark("queries_down")) : null,
    "print(record.written(look), record.tokens[look.looks_at])",
    "print(weights.round(3))",
    remarked(`print(look.values[:, ${query}].round(3))`, remark("one_token", { token: about.tokens[rows][query] })),
  ]);
}

/** How spread every head looks, and how far: `measures`, one entry for each attention. */
export function measuresCode(run, asked, grid) {
  const { imports, lines } = traced(run, asked);
  const far = grid ? `patch_distance(look.values, record.grid)` : "distance(look.values)";
  return python([...imports, `from seq2see.inspection.measures import ${grid ? "entropy, patch_distance" : "distance, entropy"}`], [
    lines,
    "measures = {}",
    'for look in record.of("attention"):',
    "    measures[look.name] = [entropy(look.values).mean(-1)]",
    grid ? '    if look.side == "source" and not look.across:' : "    if not look.across:",
    `        measures[look.name].append(${far}.mean(-1))`,
    "print(measures)",
  ]);
}

/** How well every head that looks at the source aligns words: `errors`, by the true alignment of a test pair. */
export function alignmentCode(run, asked) {
  const { imports, lines } = traced(run, asked);
  return python([...imports, "from seq2see.inspection.measures import alignment_error", "from seq2see.metrics.alignment import Gold",
    FIND_RUN, JUDGED_ON], [
    lines,
    recipeOf(run),
    named("source", asked.text),
    named("target", asked.target),
    "pairs = [each for each in judged_on(recipe) if each.source == source]",
    "pair = next(each for each in pairs if each.target == target)",
    "truth = Gold.of(pair.links, pair.possible)",
    remarked("words = [", remark("whose_piece")),
    "    [*model.tokenisers.source.piece_words(pair.source, pair.source_words), None],",
    "    [*model.tokenisers.target.piece_words(pair.target, pair.target_words), None],",
    "]",
    "errors = {}",
    'for look in [each for each in record.of("attention") if each.across]:',
    "    errors[look.name] = [alignment_error(head, *words, truth) for head in look.values]",
    "print(errors)",
  ]);
}

/** One head computed by hand: `weights` and `output` of one query. */
export function oneHeadCode({ bench: { run, state }, asked, layers, layer: place, query, own }, changes) {
  const { scaled, masked } = state;
  const layer = layers[place];
  const head = Math.min(Math.max(state.head, 0), layer.heads - 1);
  const { imports, lines } = traced(run, asked, "kinds=BY_HAND");
  const divide = layer.formula === "scaled-dot" && scaled ? " / np.sqrt(queries.shape[-1])" : "";
  const scores = layer.formula === "additive"
    ? 'scores = np.tanh(queries[query] + keys) @ parts["vector"]' : `scores = keys @ queries[query]${divide}`;
  const whole = (kind) => `${kind} = np.broadcast_to(parts["${kind}"], parts["attention"].shape)[${head}, query]`;
  const names = { q: "queries", k: "keys", v: "values" };
  return python([...imports, NUMPY, "from seq2see.inspection.trace import BY_HAND"], [
    lines,
    named("name", layer.name),
    "parts = {each.kind: each.values for each in record.signals if each.name == name}",
    `queries, keys, values = (parts[kind][${head}] for kind in ("query", "key", "value"))`,
    changes.map(({ part, row: line, column, value }) =>
      remarked(`${names[part]}[${line}, ${column}] = ${number(value)}`, remark("own_number"))),
    `query = ${query}`,
    layer.formula === "scaled-dot" && !scaled ? remarked(scores, remark("no_division", { size: layer.size })) : scores,
    own.lean.values.length ? [whole("lean"), "scores = scores + lean"] : null,
    masked ? [whole("allowed"), "scores = np.where(allowed > 0, scores, -np.inf)"] : `# ${remark("no_mask")}`,
    "weights = np.exp(scores - scores.max())",
    "weights = weights / weights.sum()",
    "output = weights @ values",
    "print(weights.round(4), output.round(4))",
  ]);
}

const SORTED = {
  mean: "-states.sum(axis=0)",
  change: "-np.abs(np.diff(states, axis=0)).sum(axis=0)",
  latest: "np.abs(states).argmax(axis=0)",
};

/** What one cell did at each time: `states` (time, unit), the units in the order that is shown. */
export function statesCode(run, asked, { cell, shows, sort }) {
  const { imports, lines } = traced(run, asked, 'kinds=("hidden", "gate")');
  const kind = ["hidden", "cell"].includes(shows) ? "hidden" : "gate";
  const part = shows === "hidden" ? null : text(shows);
  return python([...imports, sort in SORTED ? NUMPY : null], [
    lines,
    assigned("states", "record.find", [text(cell.name), text(kind), part], ".values"),
    sort in SORTED ? [`order = np.argsort(${SORTED[sort]}, kind="stable")`, "states = states[:, order]"] : null,
    `print(record.tokens[${text(cell.side)}])`,
    "print(states.T.round(3))",
  ]);
}

/** What is left of one word at each time: `left` (way, time). */
export function leftCode(run, asked, { cell, word }) {
  const { imports, lines, given } = readBy(run, asked);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.memories import LEFT, in_double, what_is_left"], [
    loaded(run),
    lines,
    assigned("reading", "model.reading", [given[0], given[1] ?? "None"]),
    remarked("module = in_double(model.module)", remark("in_double")),
    assigned("left", "what_is_left", ["module", "reading.batch", text(cell.name), String(word)]),
    "for way, values in zip(LEFT, left):",
    "    print(way, values.round(4))",
  ]);
}

/** One context vector against what attention gives at each step: `found`. */
export function contextsCode(run, asked) {
  const { imports, lines, given } = readBy(run, asked);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.memories import contexts"], [
    loaded(run),
    lines,
    assigned("reading", "model.reading", [given[0], given[1] ?? "None"]),
    "found = contexts(model.module, reading.batch)",
    'print(reading.tokens["written"])',
    "print(found.told.round(3), found.without.round(3))",
    "print(found.summary.round(3), found.steps.round(3))",
  ]);
}
