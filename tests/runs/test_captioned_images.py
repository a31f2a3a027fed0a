"""Captions are not labels: image classification on captioned images is refused before training."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.core.errors import UserError
from seq2see.data.catalogue.catalogue import CatalogueImages
from seq2see.data.readers.user_images import CaptionedImages
from seq2see.recipes.registry import resolve
from seq2see.runs.prepare import prepare


def test_images_with_captions_are_not_classified(monkeypatch):
    captions = (("A dog .", "一只狗。"), ("A cat .",))
    images = CaptionedImages(np.zeros((2, 32, 32, 3), np.uint8), ("A dog .", "A cat ."), ("a.jpg", "b.jpg"), captions)
    splits = dict.fromkeys(("train", "valid", "test"), images)
    monkeypatch.setattr(CatalogueImages, "images", lambda self, image_size, channels: (splits, []))
    recipe = resolve("classify-image", [], {"corpus.kind": "catalogue-images", "corpus.name": "flickr8k-small"})
    with pytest.raises(UserError, match="captions, but no labels"):
        prepare(recipe, lambda line: None)
