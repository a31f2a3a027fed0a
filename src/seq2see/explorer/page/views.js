/** Every view, in the order of the menu. A new view is imported and listed here. */

import { view as adapter } from "./views/adapter.js";
import { view as architecture } from "./views/architecture.js";
import { view as attention } from "./views/attention.js";
import { view as compare } from "./views/compare.js";
import { view as decode } from "./views/decode.js";
import { view as embeddings } from "./views/embeddings.js";
import { view as mistakes } from "./views/mistakes.js";
import { view as nextToken } from "./views/next_token.js";
import { view as singleHead } from "./views/single_head.js";
import { view as positions } from "./views/positions.js";
import { view as recurrent } from "./views/recurrent.js";
import { view as runs } from "./views/runs.js";
import { view as speech } from "./views/speech.js";
import { view as tokenize } from "./views/tokenize.js";
import { view as vit } from "./views/vit.js";

/** From training and architecture over inputs, hidden states and attention to outputs and their evaluation. */
export const VIEWS = [
  runs, architecture, adapter, tokenize, embeddings, positions, recurrent, vit, speech, attention, singleHead, nextToken, decode, compare,
  mistakes,
];
