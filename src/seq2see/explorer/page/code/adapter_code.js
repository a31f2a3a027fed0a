/** Python code for the view "Adapter". */

import { assignCall, python, text } from "./python.js";

/** The changed matrices of an adapter: `matrices`. */
export function adapterCode(run) {
  return python(["from seq2see.runs.experts import adapted_matrices", "from seq2see.runs.load import read_adapted_model",
    "from seq2see.runs.run_folder import find_model"], [
    assignCall("stored", "read_adapted_model", [`find_model(${text(run.load_name)})`]),
    "matrices = adapted_matrices(stored.module)",
    "for each in matrices:",
    "    print(each.name, each.change, each.factors.round(3))",
  ]);
}
