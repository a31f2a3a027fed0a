"""BLEU and chrF, computed by sacrebleu and reported with their signatures; and tokenized BLEU, as in many papers.

BLEU scores cannot be compared without their signatures (case, tokenization, smoothing, version; Post 2018), so a
`Score` always contains one. `standard_bleu` is the same computation in readable form.

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
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from typing import Any, Literal

from seq2see.core.errors import UserError
from seq2see.metrics.classification import check_same_length

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


# --- Readable implementations: the variant of d2l (Dive into Deep Learning), and the standard form. Both use n-gram
# precisions with clipped counts and combine them differently. Results report `corpus_bleu`; a test checks that the
# standard form here is equal to it. The variant of d2l is for readers of the book: its values cannot be compared with
# published scores. ---


Tokens = Sequence[str]


def ngram_counts(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    """How often each n-gram of `order` tokens occurs.

    >>> ngram_counts("a b a b".split(), 2)[("a", "b")]
    2
    """
    starts = range(len(tokens) - order + 1)
    return Counter(tuple(tokens[start : start + order]) for start in starts)


def clipped_matches(prediction: Tokens, label: Tokens, order: int) -> tuple[int, int]:
    """The number of n-grams of the prediction that are in the label, and the number of all n-grams of the prediction.

    Counts are clipped (Papineni et al. 2002, section 2.1): an n-gram that occurs once in the label matches at most
    once. The formula of d2l for p_n does not mention this; without it "the the the" would have a perfect precision
    against "the cat".

    >>> clipped_matches("the the the".split(), "the cat".split(), 1)
    (1, 3)
    """
    predicted, expected = ngram_counts(prediction, order), ngram_counts(label, order)
    return (predicted & expected).total(), predicted.total()  # & is the minimum of the counts: the clipping


def brevity_penalty(label_length: int, prediction_length: int) -> float:
    """The brevity penalty as d2l writes it: exp(min(0, 1 - len_label / len_pred)).

    It equals the piecewise form: 1 if the prediction is longer, else exp(1 - r / c).
    """
    return math.exp(min(0.0, 1.0 - label_length / prediction_length)) if prediction_length else 0.0


def d2l_bleu(prediction: Tokens, label: Tokens, orders: int = 2) -> float:
    """BLEU of one sentence as in d2l, between 0 and 1: brevity · Π_{n=1..k} p_n^(1/2ⁿ).

    It differs from the standard: one sentence instead of a corpus, and exponents 1/2, 1/4, ... that are smaller for
    longer n-grams and do not sum to 1. A prediction of two words has no 3-grams (0 / 0), so the product stops at its
    length.

    >>> d2l_bleu("a b c".split(), "a b c".split())
    1.0
    """
    score = brevity_penalty(len(label), len(prediction))
    for order in range(1, min(orders, len(prediction)) + 1):
        matched, predicted = clipped_matches(prediction, label, order)
        score *= (matched / predicted) ** (1 / 2**order)
    return score


def standard_bleu(predictions: Sequence[Tokens], labels: Sequence[Tokens], orders: int = 4) -> float:
    """The standard BLEU of a corpus of tokens, between 0 and 1 (Papineni et al. 2002, section 2.3).

    BP · exp(Σ_n log p_n / 4): matches and lengths are summed over the whole corpus; then the geometric mean of the four
    precisions is computed. There is no smoothing: an order without matches makes the result 0.
    """
    check_same_length(predictions, labels)
    log_precision = 0.0
    for order in range(1, orders + 1):
        counts = [clipped_matches(*pair, order) for pair in zip(predictions, labels, strict=True)]
        matched, predicted = (sum(column) for column in zip(*counts, strict=True))
        if matched == 0:
            return 0.0
        log_precision += math.log(matched / predicted) / orders
    brevity = brevity_penalty(sum(map(len, labels)), sum(map(len, predictions)))
    return brevity * math.exp(log_precision)
