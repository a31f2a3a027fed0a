"""One tiny run of each family, trained in seconds, for the tests of the explorer.

A text, the name of a run and a label look like markup: they must be displayed as text everywhere.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seq2see.core.settings import walk
from seq2see.data.recordings import to_int16
from seq2see.recipes.registry import recipe, resolve
from seq2see.runs.evaluate import evaluate
from seq2see.runs.train import train_recipe

ANIMALS = {"猫": "cat", "狗": "dog", "鸟": "bird", "鱼": "fish", "马": "horse", "牛": "cow", "羊": "sheep"}
COLORS = {"红": "red", "黑": "black", "白": "white", "绿": "green", "大": "big", "小": "small", "老": "old"}
SCRIPT = "<script>document.title='taken'</script>"
"""A script that must never be executed."""
SENTENCE = f"the cat sat on the mat. 猫坐在垫子上。{SCRIPT}\n"

PAINTS = {"红": (220, 40, 30), "blue": (40, 60, 220), "<b>green": (40, 180, 60)}
"""Colors by name; one name looks like markup."""

FRAMES = {"source.embedding.depth": 2, "encoder.depth": 1, "decoder.depth": 1}

SMALL = {
    "encoder.width": 16,
    "decoder.width": 16,
    "encoder.depth": 2,
    "decoder.depth": 2,
    "encoder.heads": 2,
    "decoder.heads": 2,
    "encoder.dropout": 0.0,
    "decoder.dropout": 0.0,
    "training.steps": 60,
    "training.evaluate_every": 20,
    "training.batch_tokens": 256,
    "training.learning_rate": 5e-3,
    "training.schedule.warmup": 10,
    "decoding.max_new_tokens": 12,
}


def pairs(folder: Path) -> Path:
    """Every color with every animal, and some pairs that look like markup."""
    lines = [f"{c}{a}\tthe {color} {animal}\n" for c, color in COLORS.items() for a, animal in ANIMALS.items()]
    lines += [f"{c}{SCRIPT}\t{color} {SCRIPT}\n" for c, color in COLORS.items()]
    return _write_text(folder / "pairs.tsv", "".join(lines))


def book(folder: Path) -> Path:
    """One sentence, repeated."""
    return _write_text(folder / "book.txt", SENTENCE * 40)


def photos(folder: Path) -> Path:
    """Images of two colors; one label looks like markup (as far as a folder name allows)."""
    random = np.random.default_rng(0)
    for label, color in (("红", (220, 40, 30)), ("<b>blue", (40, 60, 220))):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(20):
            pixels = np.array(color) + random.normal(0, 40, (24, 24, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "photos" / label / f"{number}.png")
    return folder / "photos"


def captions_csv(folder: Path) -> Path:
    """Images of two halves, each of one color, with captions; the name of one color looks like markup."""
    names, random, lines = list(PAINTS), np.random.default_rng(0), ["file,caption\n"]
    for number in range(48):
        above, below = names[number % 3], names[number // 3 % 3]
        halves = np.repeat(np.array([PAINTS[above], PAINTS[below]]), 8, axis=0)[:, None] + random.normal(
            0, 20, (16, 16, 3)
        )
        Image.fromarray(halves.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{above} above {below}\n")
    return _write_text(folder / "captions.csv", "".join(lines))


def videos_csv(folder: Path) -> Path:
    """Videos of a square that moves left or right, in one of three colors, with captions."""
    names, lines = list(PAINTS), ["video,caption\n"]
    for number in range(48):
        color, right = names[number % 3], number % 2 == 0
        frames = [np.full((12, 12, 3), 128, np.uint8) for _ in range(5)]
        for time, frame in enumerate(frames):
            left = 2 * time if right else 8 - 2 * time
            frame[number % 7 : number % 7 + 4, left : left + 4] = PAINTS[color]
        first, *rest = [Image.fromarray(frame) for frame in frames]
        first.save(folder / f"{number}.gif", save_all=True, append_images=rest)
        lines.append(f"{number}.gif,{color} goes {'right' if right else 'left'}\n")
    return _write_text(folder / "videos.csv", "".join(lines))


def sine_csv(folder: Path) -> Path:
    """A sine with a little noise."""
    noise = np.random.default_rng(0).normal(0, 0.1, 240)
    values = 20 + 5 * np.sin(np.arange(240) / 4) + noise
    return _write_text(folder / "waves.csv", "".join(f"{value:.3f}\n" for value in values))


PITCHES = {"a": 400, "b": 700, "c": 1050, "d": 1500}
"""Hertz of each letter of a recording."""
SOUND_RATE = 4000


def tones(text: str, seed: int = 0, rate: int = SOUND_RATE) -> NDArray[np.float32]:
    """A recording of a tone for each letter, with pauses between them."""
    random = np.random.default_rng(seed)
    parts = [np.zeros(rate // 10)]
    for letter in text:
        time = np.arange(int(rate * random.uniform(0.10, 0.16))) / rate
        tone = 0.4 * np.sin(2 * np.pi * PITCHES[letter] * time) * np.hanning(len(time)) ** 0.3
        parts += [tone, np.zeros(int(rate * random.uniform(0.06, 0.12)))]
    samples = np.concatenate([*parts, np.zeros(rate // 10)])
    return (samples + 0.003 * random.standard_normal(len(samples))).astype(np.float32)


def wav_bytes(samples: NDArray[np.float32], rate: int = SOUND_RATE) -> bytes:
    """A WAV file of one channel."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(to_int16(samples).tobytes())
    return content.getvalue()


def recordings_tsv(folder: Path) -> Path:
    """Recordings of tones with their letters."""
    random, lines = np.random.default_rng(1), ["path\ttext\n"]
    for number in range(80):
        text = "".join(random.choice(list(PITCHES), random.integers(2, 6)))
        (folder / f"{number}.wav").write_bytes(wav_bytes(tones(text, number)))
        lines.append(f"{number}.wav\t{text}\n")
    return _write_text(folder / "recordings.tsv", "".join(lines))


SPEECH = {
    "source.sampling_rate": SOUND_RATE,
    "source.bands": 16,
    "source.embedding.channels": 8,
    "encoder.width": 32,
    "encoder.depth": 1,
    "training.steps": 100,
    "training.batch_tokens": 800,
    # These few tones are all alike: nothing but their pauses varies.
    "augmentation.speed": 0.0,
    "augmentation.tract": 0.0,
    "augmentation.time_masks": 0,
    "augmentation.frequency_masks": 0,
    "augmentation.margin_seconds": 0.2,
}

# name: the recipe, its data, and other settings
RUNS: dict[str, tuple[str, Callable[[Path], Path], dict[str, object]]] = {
    "recurrent": ("pocket-gru-attention", pairs, {"encoder.depth": 1, "decoder.depth": 1}),
    "transformer": ("pocket-transformer", pairs, {}),
    "gpt": ("write", book, {"target.max_tokens": 32}),
    "bert": ("fill", book, {"source.max_tokens": 32}),
    "vit": ("classify-image", photos, {"source.image_size": 16, "source.embedding.size": 4, "training.batch_size": 16}),
    "caption": (
        "caption",
        captions_csv,
        {"source.image_size": 16, "source.embedding.size": 4, "training.batch_size": 16},
    ),
    "video": (
        "caption-video",
        videos_csv,
        {"source.image_size": 12, "source.frames": 5, "source.embedding.depth": 2, "training.batch_size": 16},
    ),
    "speech": ("transcribe", recordings_tsv, SPEECH),
    "speech-joint": ("transcribe-joint", recordings_tsv, SPEECH | {"training.steps": 200}),
    "series": ("forecast-gru", sine_csv, {"target.context_length": 12}),
    # "transformer", adapted
    "adapter": ("pocket-transformer", pairs, {"adapter.kind": "svf", "pretrained": "transformer"}),
}


def tiny_run(name: str, root_folder: Path) -> Path:
    """The run of one family in a folder of `root_folder`, trained and evaluated; its data are next to it."""
    run, data_folder = root_folder / f"{name} <i>&", root_folder / f"{name}-data"
    if run.exists():
        return run
    data_folder.mkdir(parents=True)
    base, data, changes = RUNS[name]
    paths = {path for path, _, _ in walk(recipe(base))}
    small = {path: value for path, value in SMALL.items() if path in paths}
    if "pretrained" in changes:
        changes = changes | {"pretrained": str(tiny_run(str(changes["pretrained"]), root_folder))}
    evaluate(train_recipe(resolve(base, [data(data_folder)], small | changes), run))
    return run


def _write_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
