"""Pictures that are sent: in the size and the colours in which the model looks at them, or refused."""

from __future__ import annotations

import pytest
from benches import EYES, forecaster, looker, made, opened_run, picture, watcher
from writers import STACK, writer

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import pixels_of
from seq2see.models.picture_settings import Patches, Picture
from seq2see.models.settings import ModelSettings, PictureLabel
from seq2see.sequences.pixels import Pixels
from seq2see.workbench.tokenisers import Tokenisers


def grey():
    seen = Picture(side=8, channels=1, frontend=Patches(size=4))
    settings = ModelSettings(source=seen, encoder=STACK, target=PictureLabel())
    return made("grey", settings, Tokenisers(Pixels(8, 1), EYES, ("a", "b")))


@pytest.mark.parametrize(("model", "channels"), [(looker, 3), (grey, 1)])
def test_a_picture_is_seen_as_the_model_sees(model, channels):
    found = pixels_of(opened_run("r1", "r1", model()), picture(side=5))
    assert (found.shape, found.min(), found.max()) == ((8, 8, channels), 200, 200)


def test_a_film_is_several_pictures_and_a_picture_is_one():
    assert pixels_of(opened_run("r1", "r1", watcher()), *[picture()] * 4).shape == (4, 8, 8, 3)
    with pytest.raises(UserError, match="a picture is one"):
        pixels_of(opened_run("r1", "r1", looker()), picture(), picture())


@pytest.mark.parametrize("model", [forecaster, lambda: writer("gpt")], ids=["numbers", "text"])
def test_what_does_not_look_at_pictures_gets_none(model):
    with pytest.raises(UserError, match="does not look at pictures"):
        pixels_of(opened_run("r1", "r1", model()), picture())


@pytest.mark.parametrize("text", ["é", "a", "????", "AAAA\n"])
def test_what_is_no_base64_is_refused(text):
    with pytest.raises(UserError, match="not base64"):
        pixels_of(opened_run("r1", "r1", looker()), text)
