"""C33: is the formula of the notes BLEU?

The notes' formula weighs the precision of n-grams by 1/2ⁿ and scores a sentence; BLEU weighs four precisions by 1/4
each and scores a corpus (Papineni et al. 2002). Both score the same twenty systems: outputs that drop, repeat, swap or
replace words of generated English sentences, more or fewer of them. If the formula were BLEU, both scores would agree,
and so would their rankings (Kendall's τ).
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from seq2see.core.seeds import generator
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtMost, Effect, Verdict
from seq2see.metrics.bleu import d2l_bleu, standard_bleu

DAMAGES = ("drop", "repeat", "swap", "replace")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)


@cache
def references() -> list[list[str]]:
    """Generated English sentences as words."""
    return [example.target.split() for example in PocketCorpus(size=1).splits()["test"]]


def damage(words: list[str], kind: str, share: float, rng: np.random.Generator) -> list[str]:
    """A sentence in which each word is damaged with a probability."""
    output: list[str] = []
    for word in words:
        if rng.random() >= share:
            output.append(word)
        elif kind == "repeat":
            output += [word, word]
        elif kind == "swap":
            output.insert(max(0, len(output) - 1), word)
        elif kind == "replace":
            output.append("something")
    return output or ["something"]


def kendall_tau(first: list[float], second: list[float]) -> float:
    """The share of pairs that both rank alike, minus the share of the others (Kendall 1938)."""
    signs = [
        np.sign(first[a] - first[b]) * np.sign(second[a] - second[b]) for a, b in combinations(range(len(first)), 2)
    ]
    return float(np.mean(signs))


def measure(seed: int, sentences: int) -> Measurement:
    """Both scores of twenty systems on the same sentences."""
    rng = generator(seed, "damage")
    labels = [references()[index] for index in rng.choice(len(references()), sentences, replace=False)]
    notes, standard = [], []
    for kind in DAMAGES:
        for share in SHARES:
            outputs = [damage(label, kind, share, rng) for label in labels]
            notes.append(float(np.mean([d2l_bleu(*pair, orders=4) for pair in zip(outputs, labels, strict=True)])))
            standard.append(standard_bleu(outputs, labels))
    order = np.argsort(standard)
    lines = {"systems": ([standard[index] for index in order], [notes[index] for index in order])}
    difference = max(abs(first - second) for first, second in zip(notes, standard, strict=True))
    return Measurement({"difference": difference, "tau": kendall_tau(notes, standard)}, lines)


LABS = {
    "C33": Experiment(
        claim="C33",
        prediction=(
            "The scores differ by more than 0.1 for some systems. The rankings agree in most pairs, τ above 0.8.",
            "有的系统两种分数相差 0.1 以上；但多数系统对的排序一致，τ 大于 0.8。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost("difference", ("largest difference of the two scores (0 to 1)", "两种分数的最大差（0 到 1）"), 0.01),
        ),
        additional=(Effect("tau", ("Kendall's τ of the two rankings", "两种排序的肯德尔 τ"), 0.8),),
        measure=measure,
        seeds=10,
        size={"sentences": 200},
        tiny={"sentences": 5},
        would_change=(
            "nothing changes the formulas; rankings may agree although scores differ",
            "公式本身不会变；分数不同，排序也可以一致",
        ),
        axes=Axes(
            ("BLEU of the corpus", "标准 BLEU"), ("formula of the notes, mean of sentences", "笔记的公式（各句平均）")
        ),
    )
}
