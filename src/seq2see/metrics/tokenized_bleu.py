"""BLEU on lower-cased text that was cut into words beforehand: the older way, needed to compare with papers.

Many papers on Multi30k (Wu et al. 2021, 41.02 on English to German, among them) score text that was first
lower-cased, then had its punctuation normalized, then was tokenized, all by the scripts of Moses (Koehn et
al. 2007). Such a BLEU is some points above a cased one on plain text (`bleu.py`), so the two are never to
be compared with each other; each carries its own signature.

The order matters. With the package `sacremoses` 0.2.0, lower-casing *before* tokenizing gives the 12,103
tokens that the German references of Multi30k's test_2016_flickr are known to have; tokenizing the cased
text gives 12,102, because a nonbreaking prefix is a matter of case, and splitting dashes gives 12,243.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from seq2see.core.errors import UserError
from seq2see.metrics.bleu import Score
from seq2see.metrics.checks import check_same_length

ADVICE = "The tokenized BLEU needs the package sacremoses: pip install 'seq2see[moses]'"


def has_moses() -> bool:
    """Whether the package that tokenizes is installed."""
    return importlib.util.find_spec("sacremoses") is not None


def moses_tokens(texts: Sequence[str], language: str) -> list[str]:
    """Each text lower-cased, with plain punctuation, its tokens between spaces."""
    if not has_moses():
        raise UserError("Text cannot be tokenized here.", hint=ADVICE)
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True, escape=False) for text in texts
    ]  # fmt: skip


def corpus_bleu_tokenized(outputs: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU of a whole test set, lower-cased and tokenized by Moses; both sides go the same way."""
    check_same_length(outputs, references)
    # sacrebleu is told that its input is lower-cased and cut already, so that its signature says so;
    # `force` stops it from warning that scoring such text is seldom what one wants.
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    cut = [moses_tokens(texts, language) for texts in (outputs, references)]
    value = metric.corpus_score(cut[0], [cut[1]]).score
    signature = f"{metric.get_signature()}|moses:lower+normalize+tokenize|lang:{language}|{_version()}"
    return Score("BLEU, lower-cased and tokenized", float(value), signature)


def _version() -> str:
    from importlib.metadata import version

    return f"sacremoses:{version('sacremoses')}"
