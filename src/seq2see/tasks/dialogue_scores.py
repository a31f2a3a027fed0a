"""The evaluation of models of dialogues on the replies of the test dialogues, and the presentation of the scores.

Each reply is generated from the true history. The same metrics are computed for the true replies ("human"). In the
choice among candidates (hits@1) the baseline is tf-idf, which prefers candidates that share rare words with the
history.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from seq2see.data.dialogue import Dialogue, Message, RecallProbe, history_text
from seq2see.metrics.bleu import sentence_chrf
from seq2see.metrics.dialogue import (
    Interval,
    TfIdf,
    draw_candidates,
    hit,
    normalized_reply,
    ratio_interval,
    reply_properties,
    share_interval,
)
from seq2see.tasks.report_parts import ReportSection, ReportTable, ReportText, RunResults, Tree, Words, section
from seq2see.tasks.task import Evaluation, one_line

SEED = 1
"""The seed of candidates and bootstrap samples."""
MAX_REPLIES, MAX_CHOICES = 2000, 300
"""The maximum number of generated replies, and of choices among 20 candidates."""
SHOWN = 12
"""The number of replies in the report."""


@dataclass(frozen=True)
class ReplyOutput:
    """A reply of a model and its score."""

    text: str
    score: float


class ReplyModel(Protocol):
    """The methods of a model that the evaluation calls."""

    def replies(
        self, histories: Sequence[Sequence[Message]], on_progress: Callable[[int], Any], **settings: Any
    ) -> list[ReplyOutput]:
        """The replies to histories."""

    def candidate_scores(self, histories: Sequence[Sequence[Message]], candidates: Sequence[Sequence[str]]) -> Any:
        """For each history the score of each candidate."""


@dataclass(frozen=True)
class ReplyCase:
    """One reply of a test dialogue."""

    dialogue: int
    history: tuple[Message, ...]
    text: str
    probe: RecallProbe | None = None
    topic: str = ""
    """The kind of question, if the reply is right or wrong as a whole."""


@dataclass(frozen=True)
class LikelihoodSums:
    """For each dialogue, the loss of its replies in nats with teacher forcing, and their tokens and bytes."""

    losses: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)

    def scores(self, split: str) -> Tree:
        """Perplexity by token and by byte; the second does not depend on the tokenizer."""
        groups = list(range(len(self.losses)))
        found: Tree = {"split": split}
        for name, counts in (("per_token", self.tokens), ("per_byte", self.bytes)):
            mean = ratio_interval(self.losses, counts, groups, seed=SEED)
            found[name] = asdict(Interval(*(math.exp(each) for each in (mean.value, mean.low, mean.high))))
        return found


def cases_of(dialogues: Sequence[Dialogue]) -> list[ReplyCase]:
    """All replies of dialogues, each with its history."""
    found = []
    for number, dialogue in enumerate(dialogues):
        probes = {each.index: each for each in dialogue.probes}
        found += [
            ReplyCase(
                number, dialogue.messages[:index], dialogue.messages[index].content, probes.get(index), dialogue.topic
            )
            for index in dialogue.replies
        ]
    return found


def evaluate_replies(
    model: ReplyModel,
    test: Sequence[Dialogue],
    train: Sequence[Dialogue],
    on_progress: Callable[[int], Any],
    settings: dict[str, Any],
) -> Evaluation:
    """Generate the replies of test dialogues, and score them."""
    cases = cases_of(test)[:MAX_REPLIES]
    outputs = model.replies([each.history for each in cases], on_progress, **settings)
    texts, truths, dialogues = (
        [each.text for each in outputs],
        [each.text for each in cases],
        [each.dialogue for each in cases],
    )
    train_replies = [each.messages[index].content for each in train for index in each.replies]
    scores: Tree = {
        "replies": len(cases),
        "dialogues": len(set(dialogues)),
        "model": _tree(reply_properties(texts, dialogues, train_replies, seed=SEED)),
        "human": _tree(reply_properties(truths, dialogues, train_replies, seed=SEED)),
        "hits_at_1": choice_scores(model, cases, train_replies),
    }
    if any(each.probe for each in cases):
        scores["recall"] = recall_scores(cases, texts)
    if all(each.topic for each in cases):
        scores["exact"] = exact_scores(cases, texts)
    rows = [["history", "reference", "output", "chrf", "score"]]
    for case, output, quality in zip(cases, outputs, sentence_chrf(texts, truths), strict=True):
        cells = (history_text(case.history), case.text, output.text)
        rows.append([*map(one_line, cells), f"{quality:.2f}", f"{output.score:.4f}"])
    return Evaluation({"test": scores}, {"test": rows})


def _tree(intervals: dict[str, Interval]) -> Tree:
    return {name: asdict(each) for name, each in intervals.items()}


def choice_scores(model: ReplyModel, cases: Sequence[ReplyCase], train_replies: Sequence[str]) -> Tree:
    """hits@1 of 20 of the model and of tf-idf, for the same candidates."""
    texts, dialogues = [each.text for each in cases], [each.dialogue for each in cases]
    drawn = draw_candidates(texts, dialogues, SEED)
    chosen = evenly(len(cases), MAX_CHOICES)
    histories = [cases[index].history for index in chosen]
    candidates = [[texts[other] for other in drawn[index]] for index in chosen]
    groups, tfidf = [dialogues[index] for index in chosen], TfIdf(train_replies)
    own = [hit(each) for each in model.candidate_scores(histories, candidates)]
    baseline = [hit(_tfidf_scores(tfidf, *each)) for each in zip(histories, candidates, strict=True)]
    ones = [1.0] * len(chosen)
    return {
        "choices": len(chosen),
        "model": asdict(ratio_interval(own, ones, groups, seed=SEED, scale=100)),
        "tfidf": asdict(ratio_interval(baseline, ones, groups, seed=SEED, scale=100)),
    }


def evenly(count: int, limit: int) -> list[int]:
    """At most `limit` indices, evenly spread.

    >>> evenly(5, 2), evenly(2, 5)
    ([0, 2], [0, 1])
    """
    return list(range(count)) if count <= limit else [index * count // limit for index in range(limit)]


def _tfidf_scores(tfidf: TfIdf, history: Sequence[Message], candidates: Sequence[str]) -> list[float]:
    vector = tfidf.vector(" ".join(each.content for each in history))
    return [tfidf.similarity(vector, tfidf.vector(each)) for each in candidates]


def recall_scores(cases: Sequence[ReplyCase], texts: Sequence[str]) -> Tree:
    """The percentage of replies that contain the fact of an earlier message, in all and by distance."""
    probed = [(case, text, case.probe) for case, text in zip(cases, texts, strict=True) if case.probe]
    flags = [f" {normalized_reply(probe.answer)} " in f" {normalized_reply(text)} " for _, text, probe in probed]
    groups = [case.dialogue for case, _, _ in probed]
    found: Tree = {"probes": len(probed), "all": asdict(share_interval(flags, groups, seed=SEED)), "by_distance": {}}
    for distance in sorted({probe.distance for _, _, probe in probed}):
        rows = [index for index, (_, _, probe) in enumerate(probed) if probe.distance == distance]
        share = share_interval([flags[row] for row in rows], [groups[row] for row in rows], seed=SEED)
        found["by_distance"][str(distance)] = {"probes": len(rows), **asdict(share)}
    return found


def exact_scores(cases: Sequence[ReplyCase], texts: Sequence[str]) -> Tree:
    """The percentage of replies that are equal to the reference, in all and by the kind of question."""
    flags = [text.split() == case.text.split() for case, text in zip(cases, texts, strict=True)]
    groups = [case.dialogue for case in cases]
    found: Tree = {"replies": len(cases), "all": asdict(share_interval(flags, groups, seed=SEED)), "by_topic": {}}
    for topic in dict.fromkeys(case.topic for case in cases):
        rows = [index for index, case in enumerate(cases) if case.topic == topic]
        share = share_interval([flags[row] for row in rows], [groups[row] for row in rows], seed=SEED)
        found["by_topic"][topic] = {"replies": len(rows), **asdict(share)}
    return found


# --- how scores are shown ---

TITLES: dict[str, tuple[str, str]] = {
    "distinct_1": ("distinct-1", "distinct-1"),
    "distinct_2": ("distinct-2", "distinct-2"),
    "self_bleu": ("self-BLEU", "self-BLEU"),
    "copied": ("copied from training %", "与训练回复相同 %"),
    "repeated_4gram": ("repeated 4-gram %", "有重复的 4 元组 %"),
    "generic": ("generic %", "套话 %"),
}
HITS: Words = ("hits@1 of 20 %", "20 选 1 命中率 %")
RECALL: Words = ("recall of facts %", "事实回忆率 %")
EXACT: Words = ("right answers %", "正确回答 %")
INTERVAL: Words = (
    "In brackets: 95 % intervals over samples of dialogues. Human: the replies of the test dialogues themselves.",
    "括号内为按对话抽样得到的 95 % 区间。人类：测试对话中原有的回复。",
)
DISTANCE: Words = (
    "Recall: the reply must contain a fact. Distance: the number of messages of the user from fact to question.",
    "回忆：回复必须包含某个事实。距离：从陈述事实到提问的用户消息条数（含提问）。",
)


def interval_text(tree: Tree, digits: int = 1) -> str:
    """A value with its interval.

    >>> interval_text({"value": 97.25, "low": 95.0, "high": 99.0})
    '97.2 (95.0 to 99.0)'
    """
    return f"{tree['value']:.{digits}f} ({tree['low']:.{digits}f} to {tree['high']:.{digits}f})"


def _digits(name: str) -> int:
    return 3 if name.startswith("distinct") else 1


def _property_rows(test: Tree) -> Iterator[list[Words]]:
    """For each property its title, the value of the model, and the human value."""
    hits = test["hits_at_1"]
    yield [HITS, interval_text(hits["model"]), f"tf-idf: {interval_text(hits['tfidf'])}"]
    for name, title in TITLES.items():
        yield [title, *(interval_text(test[side][name], _digits(name)) for side in ("model", "human"))]


def _recall_rows(test: Tree) -> list[list[Words]]:
    recall = test.get("recall")
    if not recall:
        return []
    rows: list[list[Words]] = [[("all", "全部"), f"{recall['probes']:,}", interval_text(recall["all"])]]
    for distance, each in recall["by_distance"].items():
        rows.append([distance, f"{each['probes']:,}", interval_text(each)])
    return rows


def _exact_rows(test: Tree) -> list[list[Words]]:
    exact = test.get("exact")
    if not exact:
        return []
    rows: list[list[Words]] = [[("all", "全部"), f"{exact['replies']:,}", interval_text(exact["all"])]]
    return rows + [[topic, f"{each['replies']:,}", interval_text(each)] for topic, each in exact["by_topic"].items()]


def reply_tiles(scores: Tree) -> list[tuple[Words, str]]:
    """The most important scores: names and values."""
    test = scores.get("test", {})
    tiles: list[tuple[Words, str]] = []
    if "exact" in test:
        tiles.append((EXACT, f"{test['exact']['all']['value']:.1f}"))
    if "recall" in test:
        tiles.append((RECALL, f"{test['recall']['all']['value']:.1f}"))
    if "hits_at_1" in test:
        tiles.append((HITS, f"{test['hits_at_1']['model']['value']:.1f}"))
    if "perplexity" in scores:
        tiles.append((("perplexity per byte", "每字节困惑度"), f"{scores['perplexity']['per_byte']['value']:.3f}"))
    return tiles


def reply_sections(results: RunResults) -> list[ReportSection]:
    """The scores, recall by distance, and some replies."""
    test = results.scores.get("test")
    if not test:
        return [section("scores")]
    header: list[Words] = ["", ("model", "模型"), ("human", "人类")]
    parts: list[Any] = [ReportTable(header, [*_property_rows(test), *_perplexity_rows(results.scores)])]
    parts.append(ReportText(INTERVAL))
    if rows := _recall_rows(test):
        parts += [ReportTable([("distance", "距离"), ("questions", "问题数"), RECALL], rows), ReportText(DISTANCE)]
    if rows := _exact_rows(test):
        parts.append(ReportTable([("task", "任务"), ("questions", "问题数"), EXACT], rows))
    replies = [row[:3] for row in results.rows("test", 5)][:SHOWN]
    shown: list[Words] = [("history", "历史"), ("reference", "参考回复"), ("output", "模型回复")]
    title: Words = ("Replies", "回复")
    table = [ReportTable(shown, replies, text_columns=3)] if replies else []
    return [section("scores", *parts), ReportSection("replies", title, table)]


def _perplexity_rows(scores: Tree) -> Iterator[list[Words]]:
    measured = scores.get("perplexity", {})
    titles: dict[str, Words] = {
        "per_token": ("perplexity per token", "每词元困惑度"),
        "per_byte": ("perplexity per byte", "每字节困惑度"),
    }
    for name, title in titles.items():
        if name in measured:
            yield [title, interval_text(measured[name], 3), ""]


def reply_score_lines(scores: Tree) -> Iterator[str | ReportTable]:
    """The scores on the terminal."""
    test = scores.get("test")
    if not test:
        return
    yield f"{test['replies']:,} replies of {test['dialogues']:,} dialogues; 95 % intervals in brackets"
    rows = [[_english(cell) for cell in row] for row in (*_property_rows(test), *_perplexity_rows(scores))]
    yield ReportTable(["", "model", "human"], rows)
    if exact := _exact_rows(test):
        yield ReportTable(["task", "questions", "right answers %"], [[_english(cell) for cell in row] for row in exact])
    if recall := _recall_rows(test):
        yield ReportTable(
            ["distance", "questions", "recall of facts %"], [[_english(cell) for cell in row] for row in recall]
        )


def _english(text: Words) -> str:
    return text if isinstance(text, str) else text[0]


def reply_headline(scores: Tree) -> str:
    """The most important score."""
    test = scores.get("test", {})
    if "exact" in test:
        return f"right answers {test['exact']['all']['value']:.1f} %"
    if "recall" in test:
        return f"recall {test['recall']['all']['value']:.1f} %"
    return f"hits@1 {test['hits_at_1']['model']['value']:.1f} %" if "hits_at_1" in test else ""
