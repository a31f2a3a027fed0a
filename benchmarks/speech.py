"""Error rates of speech recognition: Morse code in noise, spoken digits of new speakers, strings of them, Mandarin.

python benchmarks/speech.py ROW [ROW ...] --out FOLDER       train and score these rows (without names: all)
python benchmarks/speech.py collect FOLDER                   all rows into results/speech.json

Each row is a file, and an existing one is not measured again. Test speakers are never trained on, and intervals
resample speakers. The rows of FSDD are one for each speaker that is left out. PocketSphinx (`pip install pocketsphinx`)
with a grammar of one digit, or of any number of digits, is a peer of the digit rows, if it is installed. Of strings of
digits the latency is measured, too: they are fed to a live transcript in chunks of 0.2 s, and what is stored is the
time of the computation for a chunk, and that from the end of the sound to the end of the transcript.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.recordings import RecordingExamples, to_int16
from seq2see.data.resampling import resample
from seq2see.recipes.registry import recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.load import load
from seq2see.runs.train import NullListener, train_recipe
from seq2see.tasks.live_transcript import LiveTranscript
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.speech_scores import score_recordings
from seq2see.tasks.task import task_of

RESULTS = Path(__file__).parent / "results" / "speech.json"
COMMAND = "python benchmarks/speech.py"
FSDD_SPEAKERS = ("george", "jackson", "lucas", "nicolas", "yweweler")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
POCKETSPHINX_RATE = 16_000
LIVE_RECORDINGS, CHUNK_SECONDS = 100, 0.2
"""The number of recordings whose latency is measured, and the length of the chunks."""
SINGLE: dict[str, Any] = {"corpus.max_digits": 1, "training.steps": 1000}
"""The changes for single digits."""
LONGER: dict[str, Any] = {"corpus.size": 30_000, "training.steps": 7000, "training.evaluate_every": 1000}
"""The changes for a longer training with more recordings."""


def fsdd(speaker: str) -> Recipe:
    """Single digits of FSDD; one speaker is the test, the others and AudioMNIST are trained on."""
    return recipe("transcribe-digits").with_(**SINGLE, **{"corpus.test_speakers": (f"fsdd/{speaker}",)})


def audiomnist() -> Recipe:
    """Single digits of AudioMNIST; the test speakers are not trained on."""
    return recipe("transcribe-digits").with_(**SINGLE, **{"corpus.corpora": ("audiomnist",)})


ROWS: dict[str, Callable[[], Recipe]] = {
    "morse": lambda: recipe("transcribe"),
    "morse-longer": lambda: recipe("transcribe").with_(**LONGER),
    "morse-attention": lambda: recipe("transcribe-attention"),
    "morse-joint": lambda: recipe("transcribe-joint"),
    "morse-transducer": lambda: recipe("transcribe-transducer"),
    "morse-transducer-attention": lambda: recipe("transcribe-transducer-attention"),
    **{f"fsdd-{speaker}": lambda speaker=speaker: fsdd(speaker) for speaker in FSDD_SPEAKERS},
    "audiomnist": audiomnist,
    "digit-strings": lambda: recipe("transcribe-digits"),
    "digit-strings-gru": lambda: recipe("transcribe-digits-gru"),
    "digit-strings-transformer": lambda: recipe("transcribe-digits-transformer"),
    "tones": lambda: recipe("transcribe-tones"),
    "mandarin-words": lambda: recipe("transcribe-mandarin"),
}
"""The recipe of each row; Morse code is tested at 0 dB."""


def measure(name: str, made: Recipe, out: Path) -> dict[str, Any]:
    """Train and score one row."""
    start = time.process_time()  # of the processor, because other programs may share it
    run = train_recipe(made, out / "runs" / name, NullListener())
    seconds = time.process_time() - start
    scores = {"seq2see": evaluate(run)["test"]}
    is_digits = made.corpus.kind == "digit-strings"  # type: ignore[attr-defined]
    if is_digits:
        scores |= peer_scores(made)
    row = {"name": name, "seconds": round(seconds, 1), "scores": scores, "environment": describe_machine()}
    if name.startswith("digit-strings"):
        row["latency"] = latency(out / "runs" / name, made)
    write_json(out / f"{name}.json", row)
    return row


def latency(run: Path, made: Recipe) -> dict[str, float]:
    """Milliseconds of computation for a chunk, and after the end of the sound: the median and the 95th percentile."""
    model: Any = load(run)
    recordings: Any = task_of(made).read(made)[0]["test"]
    size = round(CHUNK_SECONDS * recordings.rate)
    chunks, ends = [], []
    for index in range(min(LIVE_RECORDINGS, len(recordings))):
        samples, live = recordings.samples[index], LiveTranscript(model)
        for start in range(0, len(samples), size):
            chunks.append(_milliseconds(lambda live=live, part=samples[start : start + size]: live.feed(part)))
        ends.append(_milliseconds(live.finish))
    return {
        f"{name}, {shown}": round(statistics.quantiles(times, n=100)[percentile - 1], 1)
        for name, times in (("chunk", chunks), ("end", ends))
        for shown, percentile in (("median", 50), ("95 %", 95))
    }


def _milliseconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def peer_scores(made: Recipe) -> dict[str, Any]:
    """The error rates of PocketSphinx on the test recordings of a recipe; empty if it is not installed."""
    if not find_spec("pocketsphinx"):
        return {}
    splits, _ = task_of(made).read(made)
    single = made.corpus.max_digits == 1  # type: ignore[attr-defined]
    return {"PocketSphinx": pocketsphinx_scores(splits["test"], single)}  # type: ignore[arg-type]


def pocketsphinx_scores(examples: RecordingExamples, single: bool) -> dict[str, Any]:
    """The error rates of PocketSphinx with a grammar of a single digit, or of any number of digits."""
    from pocketsphinx import Decoder  # an optional peer

    decoder = Decoder(samprate=POCKETSPHINX_RATE, lm=None)
    grammar = f"#JSGF V1.0; grammar digits; public <digits> = ({' | '.join(DIGITS)}){'' if single else '+'};"
    decoder.add_jsgf_string("digits", grammar)
    decoder.activate_search("digits")
    outputs = []
    for index in range(len(examples)):
        samples = resample(examples.samples[index], Fraction(POCKETSPHINX_RATE, examples.rate))
        decoder.start_utt()
        decoder.process_raw(to_int16(samples).tobytes(), full_utt=True)
        decoder.end_utt()
        words = decoder.hyp().hypstr.split() if decoder.hyp() else []
        outputs.append("".join(str(DIGITS.index(word)) for word in words))
    return score_recordings(outputs, examples)


def collect(folder: Path, results: Path) -> None:
    """Combine all rows of a folder into one results file."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    table = []
    for row in rows:
        for system, scores in row["scores"].items():
            rates = {f"{unit} error %": scores[f"{unit}_error_rate"]["value"] for unit in ("character", "word")}
            interval, tones = scores["character_error_rate"], scores.get("tones")
            table.append(
                {
                    "row": row["name"],
                    "system": system,
                    **{name: round(value, 2) for name, value in rates.items()},
                    **({end: round(interval[end], 2) for end in ("low", "high")} if interval["groups"] > 1 else {}),
                    **({"wrong in the tone alone %": round(tones["tone_error_rate"], 2)} if tones else {}),
                    "groups resampled": interval["groups"],
                    **({"CPU seconds of training": row["seconds"]} if system == "seq2see" else {}),
                }
            )
    environment = rows[0]["environment"] if rows else {}
    live = [{"name": row["name"], **row["latency"]} for row in rows if "latency" in row]
    tables = {"errors": {"rows": table}, "latency": {"rows": live}}
    write_json(results, {"command": COMMAND, "environment": environment, "tables": tables})
    print(f"{results}: {len(table)} rows")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help=f"collect FOLDER, or some of {', '.join(ROWS)}")
    parser.add_argument("--out", type=Path, default=Path("speech-rows"))
    options = parser.parse_args(arguments)
    if options.rows[:1] == ["collect"]:
        collect(Path(options.rows[1]), RESULTS)
        return
    for name in options.rows or ROWS:
        if (options.out / f"{name}.json").exists():
            print(f"{name} is measured already")
            continue
        scores = measure(name, ROWS[name](), options.out)["scores"]
        for system, each in scores.items():
            print(f"{name} {system}: character error rate {each['character_error_rate']['value']:.2f} %")


if __name__ == "__main__":
    main()
