"""The scores of transcripts, and how they are shown in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from seq2see.data.recordings import RecordingExamples
from seq2see.metrics.speech_errors import edit_counts, error_rates, is_toned, timing_errors, tone_errors
from seq2see.tasks.model import Prediction
from seq2see.tasks.report_parts import (
    Difference,
    ReportFigure,
    ReportSection,
    ReportTable,
    ReportText,
    RunResults,
    Tree,
    Words,
    section,
    words,
)
from seq2see.tasks.task import one_line

SHOWN = 10
"""Transcripts with the most errors in the report."""
ALIGNED = 200
"""The maximum number of recordings whose letters are aligned: each needs a forward pass."""
RATES: dict[str, tuple[Words, str]] = {
    "word_error_rate": (("word error rate %", "词错误率 %"), "word errors %"),
    "character_error_rate": (("character error rate %", "字符错误率 %"), "character errors %"),
}
"""The error rates: their names in the report and on the terminal."""
INTERVAL: Words = ("95 % interval", "95 % 置信区间")
FIGURE_NOTE: Words = (
    "Recordings of the test split: the wave, and below it the log-mel spectrogram, dark where the sound is loud. "
    "Orange: the letters of the model at their times; blue: the true times, where they are known.",
    "测试集录音：上为波形，下为对数梅尔谱（颜色越深，声音越大）。橙色为模型输出的字母及其时间，蓝色为已知的真实时间。",
)
INTERVAL_NOTE: Words = (
    "The intervals resample speakers with all of their recordings, or recordings if the speakers are not known.",
    "置信区间由对说话人（连同其全部录音）重采样得到；说话人未知时对录音重采样。",
)


def score_recordings(outputs: Sequence[str], examples: RecordingExamples, model: Any = None) -> Tree:
    """Error rates with intervals; tone errors of toned pinyin; with a model, the errors of the times of letters."""
    rates = error_rates(outputs, examples.texts, examples.speakers)
    scores: Tree = {"recordings": len(examples)}
    scores |= {f"{unit}_error_rate": asdict(rate) for unit, rate in rates.items()}
    if is_toned(examples.texts):
        tones = tone_errors(outputs, examples.texts)
        scores["tones"] = asdict(tones) | {
            "syllable_error_rate": tones.syllable_error_rate,
            "tone_error_rate": tones.tone_error_rate,
        }
    if model is not None and examples.times and model.output().aligns:
        scores["timing"] = asdict(_timing(examples, model))
    return scores


def _timing(examples: RecordingExamples, model: Any) -> Any:
    """The times of the letters of the references, by forced alignment, compared with the true ones."""
    aligned, truth = [], []
    for index in range(min(ALIGNED, len(examples))):
        text, times = examples.texts[index], examples.times[index]
        letters = model.align(examples.samples[index], text)
        if len(letters) != len(text):  # tokens that are not single characters, or too few frames
            continue
        pairs = zip(text, letters, times, strict=True)
        kept = [(letter, true) for character, letter, true in pairs if not character.isspace()]
        aligned += [(letter.start, letter.end) for letter, _ in kept]
        truth += [true for _, true in kept]
    return timing_errors(aligned, truth, tolerance=4 * model.log_mel.hop_seconds)


def score_table(examples: RecordingExamples, predictions: Sequence[Prediction]) -> list[list[str]]:
    """A table: recording, reference, output, character error rate (as a share) and score of each recording."""
    outputs = [each.text for each in predictions]
    rows = [["recording", "reference", "output", "character_errors", "score"]]
    counts = edit_counts(outputs, examples.texts)
    for name, text, prediction, (edits, symbols) in zip(
        examples.names, examples.texts, predictions, counts, strict=True
    ):
        cells = map(one_line, (name, text, prediction.text))
        rows.append([*cells, f"{edits / max(symbols, 1):.4f}", f"{prediction.score:.4f}"])
    return rows


# --- how scores are shown ---


def _splits(scores: Tree) -> Tree:
    return {name: part for name, part in scores.items() if isinstance(part, dict) and "recordings" in part}


def _number(rate: Tree) -> str:
    return f"{rate['value']:.2f}"


def _interval(rate: Tree) -> str:
    return f"{rate['low']:.2f} – {rate['high']:.2f}"


def speech_tiles(scores: Tree) -> list[tuple[Words, str]]:
    """The error rates of the test split."""
    test = scores.get("test", {})
    return [(title, _number(test[key])) for key, (title, _) in RATES.items() if key in test]


def speech_sections(results: RunResults) -> list[ReportSection]:
    """The scores, a few recordings with their letters, and the transcripts with the most errors."""
    splits = _splits(results.scores)
    header: list[Words] = [words("split"), ("recordings", "录音数")]
    for name, _ in RATES.values():
        header += [name, INTERVAL]
    rows = [
        [
            name,
            f"{part['recordings']:,}",
            *(cell for key in RATES for cell in (_number(part[key]), _interval(part[key]))),
        ]
        for name, part in splits.items()
    ]
    table = ReportTable(header, rows) if rows else None
    parts = [table, _tone_table(splits), _timing_table(splits), ReportText(INTERVAL_NOTE) if rows else None]
    found = [section("scores", *parts)]
    if "eval/recordings.png" in results.figures:
        title: Words = ("Recordings", "录音")
        figure = ReportFigure("eval/recordings.png", title)
        found.append(ReportSection("recordings", title, [figure, ReportText(FIGURE_NOTE)]))
    return [*found, _worst(results)]


def _tone_table(splits: Tree) -> ReportTable | None:
    header: list[Words] = [
        words("split"), ("syllable error rate %", "音节错误率 %"), ("wrong in the tone alone %", "仅声调错误 %")
    ]  # fmt: skip
    parts = {name: part["tones"] for name, part in splits.items() if "tones" in part}
    rows = [
        [name, f"{each['syllable_error_rate']:.2f}", f"{each['tone_error_rate']:.2f}"] for name, each in parts.items()
    ]
    return ReportTable(header, rows) if rows else None


def _timing_table(splits: Tree) -> ReportTable | None:
    header: list[Words] = [
        words("split"),
        ("aligned letters", "对齐的字母"),
        ("at their place %", "位置正确 %"),
        ("mean distance, ms", "平均偏差（毫秒）"),
    ]
    parts = {name: part["timing"] for name, part in splits.items() if "timing" in part}
    rows = [
        [name, f"{each['letters']:,}", f"{each['within']:.1f}", f"{1000 * each['seconds']:.0f}"]
        for name, each in parts.items()
    ]
    return ReportTable(header, rows) if rows else None


def _worst(results: RunResults) -> ReportSection:
    """The transcripts with the largest share of wrong characters."""
    rows = sorted(results.rows("test", 5), key=lambda row: -float(row[3]))[:SHOWN]
    header: list[Words] = [
        ("recording", "录音"), words("reference"), words("output"), ("wrong characters %", "错误字符 %"), "log p"
    ]  # fmt: skip
    cells: list[list[Words | Difference]] = [
        [name, reference, Difference(output, reference), f"{100 * float(errors):.0f}", score]
        for name, reference, output, errors, score in rows
    ]
    return section("predictions", ReportTable(header, cells, text_columns=3) if cells else None)


def score_lines(scores: Tree) -> Iterator[str | ReportTable]:
    """A row for each test split, then a line for tones and for times."""
    splits = _splits(scores)
    if not splits:
        return
    header = ["split", "recordings"]
    for _, title in RATES.values():
        header += [title, "95 % interval"]
    yield ReportTable(
        header,
        [
            [name, f"{part['recordings']:,}"]
            + [cell for key in RATES for cell in (_number(part[key]), _interval(part[key]))]
            for name, part in splits.items()
        ],
    )
    for name, part in splits.items():
        if "tones" in part:
            tones = part["tones"]
            yield (
                f"{name}: syllable error rate {tones['syllable_error_rate']:.2f} %; "
                f"{tones['tone_error_rate']:.2f} % of all syllables are wrong in the tone alone"
            )
        if "timing" in part:
            timing = part["timing"]
            yield (
                f"{name}: {timing['within']:.1f} % of {timing['letters']:,} aligned letters are at their place "
                f"(mean distance {1000 * timing['seconds']:.0f} ms)"
            )


def headline(scores: Tree) -> str:
    """The word error rate of the test split; empty if there is none."""
    test = scores.get("test", {})
    return f"word error rate {_number(test['word_error_rate'])} %" if "word_error_rate" in test else ""
