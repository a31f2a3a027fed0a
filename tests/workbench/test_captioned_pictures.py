"""Captions are no labels: who classifies is told so before anything is learnt."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.api import resolve
from seq2see.core.errors import UserError
from seq2see.sources.captioned_pictures import CaptionedPictures
from seq2see.sources.catalogued_pictures import CataloguedPictures
from seq2see.workbench.prepare import prepare


def test_pictures_with_captions_are_not_classified(monkeypatch):
    said = (("A dog .", "一只狗。"), ("A cat .",))
    pictures = CaptionedPictures(np.zeros((2, 32, 32, 3), np.uint8), ("A dog .", "A cat ."), ("a.jpg", "b.jpg"), said)
    splits = dict.fromkeys(("train", "valid", "test"), pictures)
    monkeypatch.setattr(CataloguedPictures, "pictures", lambda self, side, channels: (splits, []))
    recipe = resolve("classify-image", [], {"corpus.kind": "catalogue-pictures", "corpus.name": "flickr8k-small"})
    with pytest.raises(UserError, match="captions, and no labels"):
        prepare(recipe, lambda line: None)
