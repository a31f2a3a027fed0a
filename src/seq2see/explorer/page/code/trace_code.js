/** Python for the views that look inside while one example is read: attention, one head by hand, recurrent states. */

import { assignCall, loadModel, assignText, number, python, withComment, SEQ2SEE, text } from "./python.js";
import { IMPORT_FIND_RUN, IMPORT_TEST_EXAMPLES, inputCode, recipeOf } from "./input_code.js";
import { comment } from "./comments.js";

const NUMPY = "import numpy as np";

/** Lines that open the model and trace what it reads, by the name `record`. */
function traceCode(run, params, kinds = null) {
  const { imports, lines, args } = inputCode(run, params);
  return { imports: [SEQ2SEE, ...imports], lines: [loadModel(run), ...lines, assignCall("record", "model.trace", [...args, kinds])] };
}

/** What the view "Attention" shows: the weights of one head, or of all fused, as `weights`; and where one token looks. */
export function attentionCode({ app: { run, state }, params, about, layers, place_: { layer: place, head }, shown }, query) {
  const { imports, lines } = traceCode(run, params);
  const { name, rows, columns } = layers[place];
  const isHidden = (side) => state.hide_special && about.special[side]?.some(Boolean);
  const heads = state.heads === "all" && !shown.all ? "one" : state.heads;
  const fused = { mean: "look.values.mean(axis=0)", max: "look.values.max(axis=0)", all: "look.values" }[heads];
  const taken = fused ? `weights = ${fused}` : `weights = look.values[${head}]`;
  const note = heads === "all" ? comment("all_heads") : heads === "one" ? comment("head", { number: head + 1 }) : "";
  const kept = (side) => `[not each for each in record.special[${text(side)}]]`;
  return python(imports, [
    lines,
    assignCall("look", "record.find", [text(name), '"attention"']),
    note ? withComment(taken, note) : taken,
    isHidden(rows) ? `weights = weights[..., ${kept(rows)}, :]` : null,
    isHidden(columns) ? `weights = weights[..., ${kept(columns)}]` : null,
    state.transposed && state.shows === "matrix" ? withComment("weights = weights.T", comment("queries_down")) : null,
    "print(record.written(look), record.tokens[look.looks_at])",
    "print(weights.round(3))",
    withComment(`print(look.values[:, ${query}].round(3))`, comment("one_token", { token: about.tokens[rows][query] })),
  ]);
}

/** How spread every head looks, and how far: `measures`, one entry for each attention. */
export function measuresCode(run, params, grid) {
  const { imports, lines } = traceCode(run, params);
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
export function alignmentCode(run, params) {
  const { imports, lines } = traceCode(run, params);
  return python([...imports, "from seq2see.inspection.measures import alignment_error", "from seq2see.metrics.alignment import Gold",
    IMPORT_FIND_RUN, IMPORT_TEST_EXAMPLES], [
    lines,
    recipeOf(run),
    assignText("source", params.text),
    assignText("target", params.target),
    "pairs = [each for each in judged_on(recipe) if each.source == source]",
    "pair = next(each for each in pairs if each.target == target)",
    "truth = Gold.of(pair.links, pair.possible)",
    withComment("words = [", comment("word_of_token")),
    "    [*model.tokenizers.source.piece_words(pair.source, pair.source_words), None],",
    "    [*model.tokenizers.target.piece_words(pair.target, pair.target_words), None],",
    "]",
    "errors = {}",
    'for look in [each for each in record.of("attention") if each.across]:',
    "    errors[look.name] = [alignment_error(head, *words, truth) for head in look.values]",
    "print(errors)",
  ]);
}

/** One head computed by hand: `weights` and `output` of one query. */
export function singleHeadCode({ app: { run, state }, params, layers, layer: place, query, own }, changes) {
  const { scaled, masked } = state;
  const layer = layers[place];
  const head = Math.min(Math.max(state.head, 0), layer.heads - 1);
  const { imports, lines } = traceCode(run, params, "kinds=ATTENTION_INPUTS");
  const divide = layer.score_function === "scaled-dot" && scaled ? " / np.sqrt(queries.shape[-1])" : "";
  const scores = layer.score_function === "additive"
    ? 'scores = np.tanh(queries[query] + keys) @ parts["vector"]' : `scores = keys @ queries[query]${divide}`;
  const whole = (kind) => `${kind} = np.broadcast_to(parts["${kind}"], parts["attention"].shape)[${head}, query]`;
  const names = { q: "queries", k: "keys", v: "values" };
  return python([...imports, NUMPY, "from seq2see.inspection.trace import ATTENTION_INPUTS"], [
    lines,
    assignText("name", layer.name),
    "parts = {each.kind: each.values for each in record.signals if each.name == name}",
    `queries, keys, values = (parts[kind][${head}] for kind in ("query", "key", "value"))`,
    changes.map(({ part, row: line, column, value }) =>
      withComment(`${names[part]}[${line}, ${column}] = ${number(value)}`, comment("own_number"))),
    `query = ${query}`,
    layer.score_function === "scaled-dot" && !scaled ? withComment(scores, comment("no_division", { head_dim: layer.head_dim })) : scores,
    own.bias.values.length ? [whole("bias"), "scores = scores + lean"] : null,
    masked ? [whole("attention_mask"), "scores = np.where(allowed > 0, scores, -np.inf)"] : `# ${comment("no_mask")}`,
    "weights = np.exp(scores - scores.max())",
    "weights = weights / weights.sum()",
    "output = weights @ values",
    "print(weights.round(4), output.round(4))",
  ]);
}

const SORTED = {
  mean: "-states.sum(axis=0)",
  change: "-np.abs(np.diff(states, axis=0)).sum(axis=0)",
  coalesced: "np.abs(states).argmax(axis=0)",
};

/** What one cell did at each time: `states` (time, unit), the units in the order that is shown. */
export function statesCode(run, params, { cell, shows, sort }) {
  const { imports, lines } = traceCode(run, params, 'kinds=("hidden", "gate")');
  const kind = ["hidden", "cell"].includes(shows) ? "hidden" : "gate";
  const part = shows === "hidden" ? null : text(shows);
  return python([...imports, sort in SORTED ? NUMPY : null], [
    lines,
    assignCall("states", "record.find", [text(cell.name), text(kind), part], ".values"),
    sort in SORTED ? [`order = np.argsort(${SORTED[sort]}, kind="stable")`, "states = states[:, order]"] : null,
    `print(record.tokens[${text(cell.side)}])`,
    "print(states.T.round(3))",
  ]);
}

/** What is left of one word at each time: `left` (way, time). */
export function influenceCode(run, params, { cell, word }) {
  const { imports, lines, args } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.memories import LEFT, in_double, what_is_left"], [
    loadModel(run),
    lines,
    assignCall("reading", "model.reading", [args[0], args[1] ?? "None"]),
    withComment("module = in_double(model.module)", comment("in_double")),
    assignCall("left", "what_is_left", ["module", "reading.batch", text(cell.name), String(word)]),
    "for way, values in zip(LEFT, left):",
    "    print(way, values.round(4))",
  ]);
}

/** One context vector against what attention gives at each step: `found`. */
export function contextsCode(run, params) {
  const { imports, lines, args } = inputCode(run, params);
  return python([SEQ2SEE, ...imports, "from seq2see.inspection.memories import contexts"], [
    loadModel(run),
    lines,
    assignCall("reading", "model.reading", [args[0], args[1] ?? "None"]),
    "found = contexts(model.module, reading.batch)",
    'print(reading.tokens["written"])',
    "print(found.told.round(3), found.without.round(3))",
    "print(found.summary.round(3), found.steps.round(3))",
  ]);
}
