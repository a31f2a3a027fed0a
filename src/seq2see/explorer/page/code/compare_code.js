/** Python for two sides beside each other: their answers, how both read one target, where both look; and two forecasts. */

import { assignCall, call, loadModel, assignText, python, SEQ2SEE, text } from "./python.js";
import { inputCode } from "./input_code.js";

/** What one side is given, in Python. */
function args(side, place, sides) {
  const { imports, lines, args: [read, target] } = inputCode(side.run, side.input);
  return { imports, lines: [place && side.run === sides[0].run ? null : loadModel(side.run), ...lines], read, target };
}

/** Both answers, and how probable each token of the common target is: `answers` and `read`. */
export function compareCode(sides) {
  const writes = sides.every(({ run }) => run.capabilities.includes("decode"));
  const each = sides.map((side, place) => {
    const { imports, lines, read } = args(side, place, sides);
    const likely = { fill: "top_k=8", classify: "top_k=0", tag: "top_k=0" }[side.run.task];
    return { imports, lines: [
      lines,
      call("model", [read, likely], { before: "answers.append(", after: ")" }),
      writes ? assignCall("reading", "model.reading", [read, text(side.input.target ?? "")]) : null,
      writes ? "read.append(forced(model, reading))" : null,
    ] };
  });
  return python([SEQ2SEE, each.map(({ imports }) => imports), writes ? "from seq2see.workbench.forcing import forced" : null].flat(2), [
    writes ? "answers, read = [], []" : "answers = []",
    each.map(({ lines }) => lines),
    "print([each.text for each in answers])",
    writes ? "print(read)" : "print([each.guesses for each in answers])",
  ]);
}

/** Both maps and their difference: `weights` and `difference`. */
export function mapsCode(sides, same) {
  return python([SEQ2SEE, ...sides.flatMap((side, place) => args(side, place, sides).imports)], [
    "weights = []",
    sides.map((side, place) => {
      const { lines, read, target } = args(side, place, sides);
      return [
        lines, assignCall("record", "model.trace", [read, target]),
        assignCall("look", "record.find", [text(side.name), '"attention"']),
        `weights.append(look.values${side.heads === "mean" ? ".mean(axis=0)" : `[${side.head}]`})`,
      ];
    }),
    same ? "difference = weights[1] - weights[0]" : null,
    same ? "print(difference.round(3))" : "print(weights)",
  ]);
}

/** What both sides said of every next value, how far off they were, and how they go on: `said`, `errors`, `ahead`. */
export function forecastsCode(sides, count) {
  const own = sides[0].run !== sides[1].run;
  return python([SEQ2SEE, "import numpy as np", "from seq2see.sequences.series import numbers_of"], [
    "said, errors, ahead = [], [], []",
    sides.map(({ run, text: read }, place) => [
      place && !own ? null : loadModel(run),
      place && read === sides[0].text ? null : assignText("text", read),
      "guesses = np.array(model.along(text))",
      "values = np.array(numbers_of(text)[-len(guesses) :])",
      "said.append(guesses)",
      "errors.append(np.abs(guesses[:-1] - values[1:]))",
      `ahead.append(numbers_of(model(text, max_new_tokens=${count}).text))`,
    ]),
    "print([each.mean() for each in errors])",
    "print(ahead)",
  ]);
}
