"""Tokenized BLEU: BLEU of text that was lower-cased and tokenized before scoring, for comparison with papers.

Many papers on Multi30k (Wu et al. 2021, 41.02 on English to German, among them) score text that was first lower-cased,
then had its punctuation normalized, then was tokenized, all by the scripts of Moses (Koehn et al. 2007). This BLEU is a
few points higher than cased BLEU of detokenized text (`bleu.py`), so they must not be compared with each other; each
has its own signature.

The order matters. With the package `sacremoses` 0.2.0, lower-casing *before* tokenizing gives 12,103 tokens for the
German references of Multi30k's test_2016_flickr, as reported for that set; tokenizing the cased text gives 12,102,
because nonbreaking prefixes depend on case, and splitting dashes gives 12,243.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from seq2see.core.errors import UserError
from seq2see.metrics.bleu import Score
from seq2see.metrics.checks import check_same_length

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
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    tokenized = [moses_tokens(texts, language) for texts in (outputs, references)]
    value = metric.corpus_score(tokenized[0], [tokenized[1]]).score
    signature = f"{metric.get_signature()}|moses:lower+normalize+tokenize|lang:{language}|{_version()}"
    return Score("BLEU, lower-cased and tokenized", float(value), signature)


def _version() -> str:
    from importlib.metadata import version

    return f"sacremoses:{version('sacremoses')}"
