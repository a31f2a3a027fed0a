"""Using a model that says in words what is to be seen in a picture: the same decoder, behind another encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.sequences.tokenisers import BOS, EOS
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.classify_pictures import ClassifyPictures, reading_of_picture, seeing
from seq2see.workbench.engines import Asked
from seq2see.workbench.lines import blamed
from seq2see.workbench.look import Reading, look_at
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Model, Prediction
from seq2see.workbench.questions import Seen


class Captioner(Model):
    """A trained model that looks at a picture and describes it: `model("photo.jpg").text`."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        super().__init__(stored, engine)
        self.stored = stored

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        numbers: Sequence[int] | None = None,
        many: bool = False,
        watch: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Captions of many pictures (files, or pixels), in their order; `side` is the size they are seen in."""
        seen = self._look_at(texts, settings.pop("side", None), numbers)
        decoding, beginning = self.config.decoding.with_(**settings), self.tokenisers.target.encode(prefix)
        own = range(len(texts)) if numbers is None else numbers
        found: dict[int, list[Hypothesis]] = {}
        by_size = sorted(range(len(seen)), key=lambda place: seen[place].size)
        for _, alike in groupby(by_size, key=lambda place: seen[place].size):
            places = list(alike)
            pictures = [seen[place].pixels for place in places]
            asked = Asked(pictures, [own[place] for place in places], decoding, beginning, seed, many)
            found |= zip(places, self.engine.answer(asked, watch), strict=True)
        return [self._caption(each, found[place]) for place, each in enumerate(seen)]

    def _caption(self, seen: Seen, found: list[Hypothesis]) -> Prediction:
        answers = self._answers(seen.text, [], found)
        return Prediction(seen.text, answers, False, lambda _, answer: self._looks(seen, answer), remarks=seen.remarks)

    def _look_at(
        self, texts: Sequence[Any], side: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[Seen]:
        stored, seen = seeing(self.stored, side), []
        for place, text in enumerate(texts):
            with blamed(numbers, place):
                seen.append(ClassifyPictures().read(stored, text))
        return seen

    def remarks(self, text: str) -> tuple[str, ...]:
        """What should be known about a picture before the model's answer to it is believed."""
        return self._look_at([text])[0].remarks

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The caption, in one piece."""
        yield self.predict([text], seed=seed, **settings)[0].text

    def score(self, source: Any, target: str) -> float:
        """The log-probability of a given caption, its end included."""
        batch = self._about(self._look_at([source])[0], target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        return float(scores[0].gather(-1, batch.labels[0][:, None]).sum())

    def reading(self, source: Any, target: str | None) -> Reading:
        """A picture and a caption (its own, if none is given) as the model reads them in one pass."""
        target = self.predict([source])[0].text if target is None else target
        return self._reading(self._look_at([source])[0], target)

    def _reading(self, seen: Seen, target: str) -> Reading:
        assert seen.pixels is not None
        batch, write = self._about(seen, target), self.tokenisers.target
        assert batch.target is not None
        ids = {"target": (write, batch.target.values[0].tolist()), "written": (write, batch.labels[0].tolist())}
        words, picture = Reading.of(batch, ids), reading_of_picture(self.config.model, seen.pixels, batch)
        return replace(picture, tokens=picture.tokens | words.tokens, special=picture.special | words.special)

    def _looks(self, seen: Seen, target: str) -> TextAttention:
        return TextAttention.of(look_at(self, self._reading(seen, target)))

    def _about(self, seen: Seen, target: str) -> Batch:
        assert seen.pixels is not None
        asked = [*self.tokenisers.target.encode(target), EOS]
        return Batch(
            source=Pictures.of(torch.from_numpy(np.ascontiguousarray(seen.pixels))[None]),
            target=Sequences.of([[BOS, *asked[:-1]]]),
            labels=torch.tensor([asked]),
            indices=torch.zeros(1, dtype=torch.long),
        ).to(self.device)


def region(looked: TextAttention, place: int) -> NDArray[Any]:
    """(down, across): where the model looked when it wrote one piece, by the last layer, mean of its heads."""
    taken = looked.matrix[place]
    patches = taken[-_patches(looked) :]
    down = int(looked.source[-1].split(",")[0])
    return patches.reshape(down, -1)


def _patches(looked: TextAttention) -> int:
    return sum("," in name for name in looked.source)
