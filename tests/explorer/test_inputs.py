"""Images of requests: resized and converted for the model, or an error."""

from __future__ import annotations

import pytest
from text_models import STACK, text_model
from tiny_workspace import (
    IMAGE_PROCESSOR,
    image,
    image_classifier,
    opened_run,
    random_model,
    series_model,
    video_captioner,
)

from seq2see.core.errors import UserError
from seq2see.data.image_dataset import ImageProcessor
from seq2see.explorer.inputs import pixels_of
from seq2see.models.image_settings import ImageSource, PatchEmbeddingSettings
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.tasks.model_folder import Tokenizers


def gray():
    source = ImageSource(image_size=8, channels=1, embedding=PatchEmbeddingSettings(size=4))
    settings = ModelSettings(source=source, encoder=STACK, target=ImageLabel())
    return random_model("gray", settings, Tokenizers(ImageProcessor(8, 1), IMAGE_PROCESSOR, ("a", "b")))


@pytest.mark.parametrize(("model", "channels"), [(image_classifier, 3), (gray, 1)])
def test_an_image_is_preprocessed_for_the_model(model, channels):
    found = pixels_of(opened_run("r1", "r1", model()), image(size=5))
    assert (found.shape, found.min(), found.max()) == ((8, 8, channels), 200, 200)


def test_a_video_has_several_images_and_an_image_has_one():
    assert pixels_of(opened_run("r1", "r1", video_captioner()), *[image()] * 4).shape == (4, 8, 8, 3)
    with pytest.raises(UserError, match="needs one image"):
        pixels_of(opened_run("r1", "r1", image_classifier()), image(), image())


@pytest.mark.parametrize("model", [series_model, lambda: text_model("gpt")], ids=["numbers", "text"])
def test_an_image_for_another_model_is_an_error(model):
    with pytest.raises(UserError, match="does not accept images"):
        pixels_of(opened_run("r1", "r1", model()), image())


@pytest.mark.parametrize("text", ["é", "a", "????", "AAAA\n"])
def test_invalid_base64_is_an_error(text):
    with pytest.raises(UserError, match="not base64"):
        pixels_of(opened_run("r1", "r1", image_classifier()), text)
