"""Metrics of dialogues: the choice among candidates, the variety of replies, and copies of the training data.

A question has many good answers, so no comparison of words measures whether a reply is good. These metrics test single
properties of replies, each with a bootstrap interval, and are computed for the human replies, too. Messages of one
dialogue are not independent, so whole dialogues are resampled.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator

CANDIDATES = 20
"""The number of candidates of hits@1: the reply and 19 replies of other dialogues (Zhang et al. 2018)."""
SAMPLES = 500
"""The number of bootstrap samples of an interval."""
WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|\\w+|[^\\w\\s]")
"""A Chinese or Japanese character, a word, or a symbol."""
GENERIC_ENGLISH = (
    "yes", "no", "ok", "okay", "i know", "i see", "sure", "of course", "thank you", "thanks", "right", "really", "oh",
    "maybe", "i do not know", "i don t know", "i m not sure", "that s right", "that is right", "me too", "all right",
    "well", "not really", "i hope so", "good", "great", "hello", "hi", "bye", "goodbye",
)  # fmt: skip
GENERIC_CHINESE = (
    "好", "好的", "是的", "对", "不", "不是", "是", "嗯", "嗯嗯", "谢谢", "谢谢你", "我不知道", "不知道", "当然",
    "没错", "没问题", "真的吗", "也许", "我也是", "哦", "你好", "再见", "好吧", "我明白了",
)  # fmt: skip
GENERIC = frozenset([*GENERIC_ENGLISH, *GENERIC_CHINESE])
"""Replies that fit nearly every message, without case and punctuation."""


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def words_in(text: str) -> list[str]:
    """The words of a text in lower case, Chinese characters as words.

    >>> words_in("Well, 你好!")
    ['well', ',', '你', '好', '!']
    """
    return WORD.findall(text.lower())


def normalized_reply(text: str) -> str:
    """A text without case, punctuation and repeated spaces, for comparisons.

    >>> normalized_reply("I don't know !")
    'i don t know'
    """
    return " ".join(word for word in words_in(text) if word[0].isalnum())


def ratio_interval(
    numerators: Sequence[float],
    denominators: Sequence[float],
    dialogues: Sequence[int],
    *,
    seed: int,
    scale: float = 1.0,
) -> Interval:
    """The ratio of two sums over replies, and its interval over samples of whole dialogues."""
    groups = _group_sums(numerators, denominators, dialogues)
    counts = _draws(len(groups), seed)
    sums = np.vstack([groups.sum(axis=0), counts @ groups])
    ratios = scale * sums[:, 0] / np.maximum(sums[:, 1], 1e-12)
    low, high = np.quantile(ratios[1:], [0.025, 0.975])
    return Interval(float(ratios[0]), float(low), float(high))


def _group_sums(first: Sequence[float], second: Sequence[float], dialogues: Sequence[int]) -> NDArray[np.float64]:
    """(dialogue, 2): the sums of each dialogue."""
    _, group = np.unique(np.asarray(dialogues), return_inverse=True)
    sums = np.zeros((int(group.max(initial=-1)) + 1, 2))
    np.add.at(sums[:, 0], group, np.asarray(first, dtype=np.float64))
    np.add.at(sums[:, 1], group, np.asarray(second, dtype=np.float64))
    return sums


def _draws(groups: int, seed: int, samples: int = SAMPLES) -> NDArray[np.int64]:
    """(sample, dialogue): how often each dialogue is drawn."""
    return generator(seed, "bootstrap of dialogues").multinomial(groups, np.full(groups, 1 / groups), size=samples)


def share_interval(flags: Sequence[bool], dialogues: Sequence[int], *, seed: int) -> Interval:
    """The percentage of replies with a property."""
    return ratio_interval([float(each) for each in flags], [1.0] * len(flags), dialogues, seed=seed, scale=100)


# --- variety ---


def ngrams_of(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """The n-grams of a text."""
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


def distinct(replies: Sequence[Sequence[str]], order: int) -> float:
    """The number of different n-grams, divided by the number of all (Li et al. 2016, distinct-1 and distinct-2).

    >>> distinct([["a", "b"], ["a", "c"]], 1)
    0.75
    """
    ngrams = [each for words in replies for each in ngrams_of(words, order)]
    return len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def distinct_interval(texts: Sequence[str], dialogues: Sequence[int], order: int, *, seed: int) -> Interval:
    """Distinct-n with an interval.

    A bootstrap sample contains some dialogues twice, which by itself makes its n-grams less distinct. So the interval
    is the value of the set plus the deviations of the samples from their mean.
    """
    replies = [words_in(text) for text in texts]
    value = distinct(replies, order)
    _, group = np.unique(np.asarray(dialogues), return_inverse=True)
    members: list[list[int]] = [[] for _ in range(int(group.max(initial=-1)) + 1)]
    for reply, each in enumerate(group.tolist()):
        members[each].append(reply)
    samples = []
    for draw in _draws(len(members), seed, SAMPLES // 5):
        rows = [replies[reply] for number, count in enumerate(draw) for reply in members[number] * int(count)]
        samples.append(distinct(rows, order))
    low, high = np.quantile(samples, [0.025, 0.975]) - np.mean(samples)
    return Interval(value, value + min(0.0, float(low)), value + max(0.0, float(high)))


def self_bleu(texts: Sequence[str], max_order: int = 4) -> list[float]:
    """For each reply its BLEU with all other replies as references (Zhu et al. 2018).

    It is high if replies resemble each other. The counts of an n-gram are clipped to its largest count in another
    reply, of which the two largest suffice.
    """
    replies = [words_in(text) for text in texts]
    lengths = Counter(map(len, replies))
    logs = np.zeros(len(replies))
    for order in range(1, max_order + 1):
        counts = [Counter(ngrams_of(words, order)) for words in replies]
        largest: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        for number, own in enumerate(counts):
            for ngram, count in own.items():
                largest[ngram] = sorted([*largest.get(ngram, []), (count, number)], reverse=True)[:2]
        for number, own in enumerate(counts):
            matches = sum(min(count, _elsewhere(largest[ngram], number)) for ngram, count in own.items())
            # Orders without a match count as half a match, as in sacreBLEU's smoothing "exp".
            precision = (matches or 0.5) / max(1, own.total())
            logs[number] += math.log(precision) / max_order
    return [_brevity_penalty(len(words), lengths) * math.exp(log) for words, log in zip(replies, logs, strict=True)]


def _elsewhere(largest: list[tuple[int, int]], number: int) -> int:
    return max((count for count, owner in largest if owner != number), default=0)


def _brevity_penalty(length: int, lengths: Counter[int]) -> float:
    """The brevity penalty of BLEU, with the reference length that is closest to this length."""
    others = lengths.copy()
    others[length] -= 1
    closest = min(
        (each for each, count in others.items() if count), key=lambda each: abs(each - length), default=length
    )
    return 1.0 if length >= closest else math.exp(1 - closest / max(length, 1))


def repeats_ngram(text: str, order: int = 4) -> bool:
    """Whether an n-gram occurs twice in a reply, as in a generation that repeats itself.

    >>> repeats_ngram("a b c d a b c d"), repeats_ngram("a b c d")
    (True, False)
    """
    ngrams = ngrams_of(words_in(text), order)
    return len(set(ngrams)) < len(ngrams)


def is_generic(text: str) -> bool:
    """Whether a reply fits nearly every message.

    >>> is_generic("I don't know."), is_generic("I live in Rome.")
    (True, False)
    """
    plain = normalized_reply(text)
    return plain in GENERIC or plain.replace(" ", "") in GENERIC


# --- hits@1 ---


def draw_candidates(texts: Sequence[str], dialogues: Sequence[int], seed: int) -> list[list[int]]:
    """For each reply the indices of its candidates, its own first; the others are different replies of other dialogues.

    They depend on the seed and the index alone, so that all systems choose among the same candidates.
    """
    drawn = []
    for index, text in enumerate(texts):
        order = generator(seed, "candidates", index).permutation(len(texts)).tolist()
        chosen, present = [index], {normalized_reply(text)}
        for other in order:
            plain = normalized_reply(texts[other])
            if dialogues[other] != dialogues[index] and plain not in present:
                chosen.append(other)
                present.add(plain)
            if len(chosen) == CANDIDATES:
                break
        drawn.append(chosen)
    return drawn


def hit(scores: Sequence[float]) -> float:
    """1 if the first candidate has the highest score, 1 / n if n candidates share the highest score.

    >>> hit([2.0, 1.0]), hit([1.0, 2.0]), hit([1.0, 1.0])
    (1.0, 0.0, 0.5)
    """
    best = max(scores)
    return 1 / list(scores).count(best) if scores[0] == best else 0.0


class TfIdf:
    """Cosine similarity of texts as bags of words, each word weighted by its rarity (Salton & Buckley 1988)."""

    def __init__(self, documents: Sequence[str]):
        counts = Counter(word for text in documents for word in set(words_in(text)))
        self.idf = {word: math.log((1 + len(documents)) / (1 + count)) + 1 for word, count in counts.items()}
        self.default = math.log(1 + len(documents)) + 1

    def vector(self, text: str) -> dict[str, float]:
        """The weights of the words of a text, of length 1."""
        return self.weighted_vector([text], [1.0])

    def weighted_vector(self, texts: Sequence[str], factors: Sequence[float]) -> dict[str, float]:
        """The weights of the words of several texts, each text with a factor, of length 1."""
        weights: dict[str, float] = {}
        for text, factor in zip(texts, factors, strict=True):
            for word, count in Counter(words_in(text)).items():
                weights[word] = weights.get(word, 0.0) + factor * count * self.idf.get(word, self.default)
        norm = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / norm for word, weight in weights.items()}

    def similarity(self, first: dict[str, float], second: dict[str, float]) -> float:
        """The cosine of two vectors."""
        return sum(weight * second.get(word, 0.0) for word, weight in first.items())


def reply_properties(
    texts: Sequence[str], dialogues: Sequence[int], train_replies: Sequence[str], *, seed: int
) -> dict[str, Interval]:
    """The properties of a set of replies, of a model or of humans."""
    copies = {normalized_reply(each) for each in train_replies}
    shares: dict[str, Callable[[str], bool]] = {
        "copied": lambda text: normalized_reply(text) in copies,
        "repeated_4gram": repeats_ngram,
        "generic": is_generic,
    }
    ones = [1.0] * len(texts)
    return {
        "distinct_1": distinct_interval(texts, dialogues, 1, seed=seed),
        "distinct_2": distinct_interval(texts, dialogues, 2, seed=seed),
        "self_bleu": ratio_interval(self_bleu(texts), ones, dialogues, seed=seed, scale=100),
        **{name: share_interval(list(map(check, texts)), dialogues, seed=seed) for name, check in shares.items()},
    }
