"""Texts as vectors: what every model that reads can give, and all that one without a head can.

Whoever filled blanks, named labels or gave tags has summed texts up in a vector on the way. Texts that mean alike to
the model have vectors that point alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.models.embedder import meaning
from seq2see.models.picture_settings import Picture
from seq2see.models.reader import Reader
from seq2see.models.settings import Tags
from seq2see.sources.examples import Example
from seq2see.sources.lines import is_blank
from seq2see.workbench.classify import Classify
from seq2see.workbench.classify_pictures import ClassifyPictures
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.questions import ROWS, Said, Seen, Splits, batch_of
from seq2see.workbench.tag import Tag
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

Vectors = NDArray[np.float32]


class Summed(Classify):
    """No question at all: the text is read as a classifier reads it, and there is nothing to answer."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """Nothing teaches it."""
        raise _no_head()

    def read(self, stored: StoredModel, text: Any) -> Seen:
        """The text as numbers, or the picture as pixels."""
        if isinstance(stored.config.model.source, Picture):
            return ClassifyPictures().read(stored, text)
        return super().read(stored, text)

    def answer(self, stored: StoredModel, seen: Seen, scores: Tensor, most: int) -> Said:
        """There is nothing to say in words."""
        raise _no_head()

    def size(self, splits: Splits) -> int:
        """Nothing judges it."""
        raise _no_head()


@torch.inference_mode()
def vectors_of(stored: StoredModel, texts: Sequence[str], watch: Callable[[int], Any] = lambda count: None) -> Vectors:
    """(text, width): the vector of each text, of length 1; an empty text has zeros, so that rows stay rows.

    Of a model that looks at pictures, the texts are the names of picture files.
    """
    if not isinstance(stored.module, Reader):
        raise UserError("Only a model that reads gives a vector for a text; this one writes.")
    device, reads = device_of(stored.module), _reader(stored)
    seen = {place: reads.read(stored, text) for place, text in enumerate(texts) if not is_blank(text)}
    assert stored.config.model.encoder is not None
    side_by_side = getattr(getattr(stored.module, "pool", None), "vectors", 1)
    found = np.zeros((len(texts), side_by_side * stored.config.model.encoder.width), np.float32)
    by_length = sorted(seen, key=lambda place: len(seen[place].ids))
    for start in range(0, len(by_length), ROWS):
        places = by_length[start : start + ROWS]
        source = batch_of([seen[place] for place in places]).to(device).source
        assert source is not None
        found[places] = meaning(stored.module, source).float().cpu().numpy()
        watch(len(places))
    return found


def _reader(stored: StoredModel) -> Classify:
    """What turns a text, or a picture, into what its model reads."""
    if isinstance(stored.config.model.source, Picture):
        return ClassifyPictures()
    return Tag() if isinstance(stored.config.model.target, Tags) else Classify()  # who gives tags knows words alone


def likeness(vectors: Vectors) -> Vectors:
    """(text, text): the cosine of the angle between every two vectors of length 1.

    >>> likeness(np.array([[1, 0], [0.6, 0.8]], np.float32)).round(2).tolist()
    [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    return vectors @ vectors.T


def _no_head() -> UserError:
    return UserError(
        "This model has no head: it answers nothing, and gives a vector for a text or a picture.",
        remedy='Ask for vectors with `seq2see vectors FOLDER "a text" "another text"`, or name pictures.',
    )
