"""Sentences of the pocket world labeled with their tense.

English marks tense on the verb (went, is going, will go, did not go), Chinese by function words (了, 没有, 正在, 会).
Time adverbials (yesterday, 昨天), which would reveal the label, are omitted. Test and training sentences have no
content in common (see `pocket_corpus.py`). A few English sentences are ambiguous ("they cut bread"); none occurs with
both labels.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from seq2see.core.seeds import generator
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.generated.pocket.meaning import Clause
from seq2see.data.generated.pocket.pairing import LANGUAGES, LanguageCode
from seq2see.data.generated.pocket.pocket_corpus import SEED, split_of
from seq2see.data.generated.pocket.sample_sentences import SentenceSampler

LABELS = {"past": "past", "now": "now", "present": "usual", "future": "future"}
"""The label of each tense."""
HELD_OUT = 400
"""Sentences to validate on, and to test on."""


class PocketTense(Settings):
    """Sentences of the pocket world, labeled by tense: past, now, usual or future."""

    kind: Literal["tense"] = "tense"
    language: LanguageCode = "en"
    """The language of the sentences: zh or en."""
    size: int = Field(default=4000, ge=1, le=100_000)
    """The number of different training sentences; the other splits do not depend on it."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid and test; each label has a quarter of each."""
        language, sampler = LANGUAGES[self.language], SentenceSampler(generator(SEED, "pocket times"))
        target_sizes = {"train": self.size, "valid": HELD_OUT, "test": HELD_OUT}
        splits: dict[str, list[Example]] = {name: [] for name in target_sizes}
        remaining = {
            (name, label): -(-size // len(LABELS)) for name, size in target_sizes.items() for label in LABELS.values()
        }
        texts: set[str] = set()
        while any(len(splits[name]) < size for name, size in target_sizes.items()):
            meaning = sampler.sentence()
            if not isinstance(meaning, Clause):
                continue
            name, label = split_of(meaning), tense_label(meaning)
            if remaining.get((name, label), 0) and len(splits[name]) < target_sizes[name]:
                words = language.realize(meaning._replace(time=""))
                text = language.detokenize(words)
                if text not in texts and not any(
                    word.node.endswith(".time") for word in words
                ):  # the book I read today
                    texts.add(text)
                    remaining[name, label] -= 1
                    splits[name].append(Example(text, label))
        return splits


def tense_label(clause: Clause) -> str:
    """The label of a clause; "" for a copula or existence, a modal verb, or a question about the time."""
    if clause.verb in ("be", "exist") or clause.modal or clause.time == "when":
        return ""
    return LABELS[clause.tense]
