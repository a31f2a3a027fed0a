"""What `predict` and `model(...)` refuse, each in one sentence."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.tasks.model import checked_inputs


class Table:
    """The attributes by which a table of pandas is recognized."""

    iloc, columns = None, ("text",)


@pytest.mark.parametrize(
    "inputs, words",
    [
        ("good", "takes a list of inputs, and this is a single text"),
        (b"good", "a single text"),
        ([None], "input 1 is a NoneType, and not a text"),
        (["a", 3], "input 2 is a int, and not a text"),
        (Table(), "This is a Table, and not a list of inputs"),
        ([Table()], "input 1 is a Table"),
        ({"text": "good"}, "This is a dict"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_with_the_remedy(inputs, words):
    with pytest.raises(UserError, match=words) as caught:
        checked_inputs(inputs)
    assert 'model("good")' in caught.value.hint


def test_arrays_are_inputs_of_image_models():
    assert checked_inputs([7], "image") == [7]
    with pytest.raises(UserError, match="NoneType"):
        checked_inputs([None], "image")
