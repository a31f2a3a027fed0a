/** Python code for the view "Compare": outputs, scores of a common target, attention maps, and forecasts of two sides. */

import { assignCall, call, loadModel, assignText, python, SEQ2SEE, text } from "./python.js";
import { inputCode } from "./input_code.js";

/** Lines that load the model and the input of one side. */
function sideCode(side, index, sides) {
  const { imports, lines, args: [input, target] } = inputCode(side.run, side.input);
  return { imports, lines: [index && side.run === sides[0].run ? null : loadModel(side.run), ...lines], input, target };
}

/** Both outputs, and the probabilities of the common target's tokens: `predictions` and `scores`. */
export function compareCode(sides) {
  const generates = sides.every(({ run }) => run.capabilities.includes("decode"));
  const snippets = sides.map((side, index) => {
    const { imports, lines, input } = sideCode(side, index, sides);
    const settings = Object.entries(side.run.settings).map(([name, value]) => `${name}=${value}`);
    return { imports, lines: [
      lines,
      call("model", [input, ...settings], { before: "predictions.append(", after: ")" }),
      generates ? assignCall("named", "model.named_batch", [input, text(side.input.target ?? "")]) : null,
      generates ? "scores.append(model.score_tokens(named))" : null,
    ] };
  });
  return python([SEQ2SEE, ...snippets.flatMap(({ imports }) => imports)], [
    generates ? "predictions, scores = [], []" : "predictions = []",
    snippets.map(({ lines }) => lines),
    "print([each.text for each in predictions])",
    generates ? "print(scores)" : "print([each.candidates for each in predictions])",
  ]);
}

/** Both attention maps and their difference: `weights` and `difference`. */
export function mapsCode(sides, sameShape) {
  return python([SEQ2SEE, ...sides.flatMap((side, index) => sideCode(side, index, sides).imports)], [
    "weights = []",
    sides.map((side, index) => {
      const { lines, input, target } = sideCode(side, index, sides);
      return [
        lines, assignCall("record", "model.trace", [input, target]),
        assignCall("signal", "record.find", [text(side.name), '"attention"']),
        `weights.append(signal.values${side.heads === "mean" ? ".mean(axis=0)" : `[${side.head}]`})`,
      ];
    }),
    sameShape ? "difference = weights[1] - weights[0]" : null,
    sameShape ? "print(difference.round(3))" : "print(weights)",
  ]);
}

/** The one-step predictions of both sides, their errors, and the forecasts: `predictions`, `errors`, `forecasts`. */
export function forecastsCode(sides, count) {
  const twoRuns = sides[0].run !== sides[1].run;
  return python([SEQ2SEE, "import numpy as np", "from seq2see.data.series_dataset import parse_numbers"], [
    "predictions, errors, forecasts = [], [], []",
    sides.map(({ run, text: series }, index) => [
      index && !twoRuns ? null : loadModel(run),
      index && series === sides[0].text ? null : assignText("text", series),
      "one_step = np.array(model.one_step_forecasts(text))",
      "values = np.array(parse_numbers(text)[-len(one_step) :])",
      "predictions.append(one_step)",
      "errors.append(np.abs(one_step[:-1] - values[1:]))",
      `forecasts.append(parse_numbers(model(text, max_new_tokens=${count}).text))`,
    ]),
    "print([each.mean() for each in errors])",
    "print(forecasts)",
  ]);
}
