"""Decoding by CTranslate2 instead of our own loop, with our settings of decoding.

Where both engines mean the same by a setting it is handed on; what CTranslate2 cannot do is refused. Three
things had to be looked at closely:

* Its length penalty is our `average`. It counts the tokens it gives back, so it must give <eos> back, too.
* It stops when `num_beams * patience` answers are finished. With a patience of 1 that is our early stopping;
  with more patience than there can be answers it searches to the end, which finds what ours finds.
  Without any penalty it may stop at the first answer that beats all others, and loses nothing by it.
* It forbids tokens before the softmax, we after it: what is left shares the forbidden tokens' probability.
  Greedy decoding does not notice, but a beam search with `min_new_tokens` or `no_repeat_ngram_size` would
  compare other numbers than ours and give other answers. So that is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from seq2see.core.errors import UserError
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.decoding.length_penalties import Average, NoPenalty
from seq2see.decoding.settings import Decoding
from seq2see.interop.ctranslate2 import write_ct2
from seq2see.interop.exportable import ExportableModel
from seq2see.interop.position_embeddings import positions_needed
from seq2see.sequences.tokenizers import EOS

COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8_float32"}
MAX_BATCH_SIZE = 64
"""Sources decoded side by side."""
TINY_LENGTH_PENALTY = 1e-30
"""A length penalty that changes no score, but is not 0: at 0 it stops by another rule."""


class Ct2Engine:
    """A CTranslate2 twin of a model, on the processor."""

    def __init__(self, stored: ExportableModel, precision: str, threads: int):
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "ct2"
            write_ct2(stored, folder)
            self.translator = _translator(folder, precision, threads)
            self.source_tokens, self.target_tokens = _vocabularies(folder)
        self.token_ids = {piece: number for number, piece in enumerate(self.target_tokens)}
        self.max_positions = positions_needed(stored)

    def translate(self, sources: list[list[int]], decoding: Decoding) -> list[list[Hypothesis]]:
        """For each source, as the model reads it (with <eos>), a list of answers, best first."""
        options = translate_options(decoding)
        longest = max([decoding.max_new_tokens, *map(len, sources)])
        if longest > self.max_positions:
            what = f"CTranslate2 was given positions for {self.max_positions} tokens, and {longest} are asked for."
            raise UserError(
                what, hint=f"Set decoding.max_new_tokens={self.max_positions} or less, or leave out --engine."
            )
        # It puts <eos> behind each source by itself.
        pieces = [[self.source_tokens[number] for number in _without_eos(source)] for source in sources]
        results = self.translator.translate_batch(pieces, **options)
        return [
            [self._hypothesis(*found, decoding) for found in zip(result.hypotheses, result.scores, strict=True)]
            for result in results
        ]

    def _hypothesis(self, pieces: list[str], score: float, decoding: Decoding) -> Hypothesis:
        tokens = [self.token_ids[piece] for piece in pieces]
        finished = tokens[-1:] == [EOS]
        total = score * max(len(tokens), 1) ** _exponent(decoding)
        if decoding.num_beams == 1:
            score = float(decoding.length_penalty(torch.tensor(total), max(len(tokens), 1)))
        # CTranslate2 does not tell the probability of each token.
        return Hypothesis(tuple(tokens[: len(tokens) - finished]), score, total, (), finished)


def translate_options(decoding: Decoding) -> dict[str, Any]:
    """Our settings of decoding as CTranslate2's options; those it cannot follow are refused."""
    if decoding.do_sample:
        raise _unsupported("do_sample=true", "its draws do not follow our seeds", "Leave sampling to our own engine.")
    if decoding.num_beams > 1 and not isinstance(decoding.length_penalty, NoPenalty | Average):
        setting = f"length_penalty.kind={decoding.length_penalty.kind}"
        raise _unsupported(setting, "it divides by length ** alpha only", "Set decoding.length_penalty.kind=average.")
    if decoding.repetition_penalty != 1:
        setting = f"repetition_penalty={decoding.repetition_penalty:g}"
        raise _unsupported(setting, "it weighs scores before the softmax", "Leave that to our own engine.")
    for name in ("min_new_tokens", "no_repeat_ngram_size"):
        if decoding.num_beams > 1 and getattr(decoding, name):
            setting = f"num_beams={decoding.num_beams} and {name}={getattr(decoding, name)}"
            raise _unsupported(setting, "it scores what is left differently", "Set decoding.num_beams=1.")
    exponent = _exponent(decoding)
    if exponent < 0:
        raise _unsupported(f"length_penalty.alpha={exponent}", "it wants a number from 0 up")
    may_stop_first = exponent == 0 and not decoding.early_stopping and decoding.num_return_sequences == 1
    return {
        "beam_size": decoding.num_beams,
        "num_hypotheses": decoding.num_return_sequences,
        "length_penalty": 0 if may_stop_first else max(exponent, TINY_LENGTH_PENALTY),
        "patience": 1 if decoding.early_stopping or may_stop_first else decoding.max_new_tokens + 1,
        "max_decoding_length": decoding.max_new_tokens,
        "min_decoding_length": decoding.min_new_tokens,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "max_input_length": 0,
        "max_batch_size": MAX_BATCH_SIZE,
        "return_end_token": True,
        "return_scores": True,
    }


def _exponent(decoding: Decoding) -> float:
    """By which power of the length CTranslate2 divides; greedy decoding compares nothing and needs none."""
    penalty = decoding.length_penalty
    return penalty.alpha if decoding.num_beams > 1 and isinstance(penalty, Average) else 0.0


def _unsupported(setting: str, reason: str, hint: str = "") -> UserError:
    return UserError(f"CTranslate2 cannot decode with decoding.{setting}: {reason}.", hint=hint)


def _translator(folder: Path, precision: str, threads: int) -> Any:
    import ctranslate2

    kind = COMPUTE_TYPES[precision]
    if kind not in ctranslate2.get_supported_compute_types("cpu"):
        raise UserError(
            f"CTranslate2 cannot compute in {precision} on this processor.",
            hint="Set decoding.precision=float32, or decoding.precision=int8.",
        )
    # Each batch by one thread, several at a time: the products of a small model are too small to share out.
    return ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=threads, intra_threads=1)


def _vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The pieces of source and target by number, as CTranslate2 knows them."""
    shared = folder / "shared_vocabulary.json"
    paths = [shared] * 2 if shared.exists() else [folder / f"{side}_vocabulary.json" for side in ("source", "target")]
    source, target = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return source, target


def _without_eos(source: list[int]) -> list[int]:
    assert source[-1:] == [EOS], "a source ends with <eos>"
    return source[:-1]
