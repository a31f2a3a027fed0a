"""BLEU and chrF, computed by sacrebleu and reported with their signatures; and tokenized BLEU, as in many papers.

BLEU scores cannot be compared without their signatures (case, tokenization, smoothing, version; Post 2018), so a
`Score` always contains one. `d2l_bleu.py` contains the same computation in readable form.

Many papers on Multi30k (Wu et al. 2021, 41.02 on English to German, among them) score text that was first lower-cased,
then had its punctuation normalized, then was tokenized, all by the scripts of Moses (Koehn et al. 2007). This tokenized
BLEU is a few points higher than cased BLEU of detokenized text, so the two must not be compared with each other; each
has its own signature.

The order matters. With the package `sacremoses` 0.2.0, lower-casing *before* tokenizing gives 12,103 tokens for the
German references of Multi30k's test_2016_flickr, as reported for that set; tokenizing the cased text gives 12,102,
because nonbreaking prefixes depend on case, and splitting dashes gives 12,243.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from typing import Any, Literal

from seq2see.core.errors import UserError
from seq2see.metrics.accuracy import check_same_length

BleuTokenizer = Literal["13a", "zh", "char", "intl", "none"]
"""The tokenizers of sacrebleu: `13a` for languages with spaces, `zh` for Chinese targets."""


@dataclass(frozen=True)
class Score:
    """The name of a metric, its value between 0 and 100, and its signature, which defines the computation."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def _bleu(**options: Any) -> Any:
    from sacrebleu.metrics import BLEU  # imported here: it takes half a second, and training does not need it

    return BLEU(**options)


def _chrf() -> Any:
    from sacrebleu.metrics import CHRF  # imported here for the same reason

    return CHRF()


def corpus_bleu(
    outputs: Sequence[str],
    references: Sequence[str],
    tokenize: BleuTokenizer = "13a",
    all_references: Sequence[Sequence[str]] = (),
) -> Score:
    """BLEU of a test set (Papineni et al. 2002), cased, with one reference for each output or with `all_references`.

    >>> round(corpus_bleu(["The cat sat on the mat."], ["The cat sat on the mat."]).value, 9)
    100.0
    """
    check_same_length(outputs, references)
    metric = _bleu(tokenize=tokenize)
    if not all_references:
        return _score("BLEU", metric, outputs, references)
    check_same_length(outputs, all_references)
    sets = [list(each) for each in zip_longest(*all_references)]  # sacrebleu ignores missing references
    return Score("BLEU", float(metric.corpus_score(list(outputs), sets).score), str(metric.get_signature()))


def corpus_chrf(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 of a test set (Popović 2015): it counts n-grams of characters, so it needs no tokenizer."""
    check_same_length(outputs, references)
    return _score("chrF2", _chrf(), outputs, references)


def sentence_chrf(outputs: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each output, for sorting a table: BLEU needs 4-grams, which a short output does not contain."""
    check_same_length(outputs, references)
    metric = _chrf()
    pairs = zip(outputs, references, strict=True)
    return [metric.sentence_score(output, [reference]).score for output, reference in pairs]


def _score(name: str, metric: Any, outputs: Sequence[str], references: Sequence[str]) -> Score:
    # sacrebleu expects a list of reference sets; here each output has exactly one reference.
    value = metric.corpus_score(list(outputs), [list(references)]).score
    return Score(name, float(value), str(metric.get_signature()))


INSTALL_HINT = "The tokenized BLEU needs the package sacremoses: pip install 'seq2see[moses]'"


def has_moses() -> bool:
    """Whether the package `sacremoses` is installed."""
    return importlib.util.find_spec("sacremoses") is not None


def moses_tokens(texts: Sequence[str], language: str) -> list[str]:
    """Lower-case each text, normalize its punctuation, and separate its tokens by spaces."""
    if not has_moses():
        raise UserError("The text cannot be tokenized.", hint=INSTALL_HINT)
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True, escape=False) for text in texts
    ]  # fmt: skip


def corpus_bleu_tokenized(outputs: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU of a test set; outputs and references are lower-cased and tokenized by Moses."""
    check_same_length(outputs, references)
    # With these arguments the signature of sacrebleu contains that the text is lower-cased and tokenized; `force`
    # switches off its warning about tokenized text.
    metric = _bleu(tokenize="none", lowercase=True, force=True)
    tokenized = [moses_tokens(texts, language) for texts in (outputs, references)]
    value = metric.corpus_score(tokenized[0], [tokenized[1]]).score
    signature = f"{metric.get_signature()}|moses:lower+normalize+tokenize|lang:{language}|{_version()}"
    return Score("BLEU, lower-cased and tokenized", float(value), signature)


def _version() -> str:
    return f"sacremoses:{version('sacremoses')}"
