"""What each view asks when a saved page shows it: the page's questions, put beforehand.

A question must be put here exactly as the page's script puts it: answers are found again by the text of the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

from seq2see.explorer.views.attention import HeadPartRequest
from seq2see.explorer.views.compare import takes_images
from seq2see.explorer.views.embeddings import MAX_WORDS
from seq2see.explorer.views.mistakes import RowsRequest

if TYPE_CHECKING:
    from seq2see.explorer.saved_responses import ResponseRecorder

TOP_CANDIDATES, ALL_CANDIDATES = 200, 10_000_000
"""Candidates for the next token that the view asks for: the most probable, or the whole vocabulary."""
BEAM_WIDTHS, SEEDS, MAX_NEW_TOKENS = range(2, 9), 4, 24
"""Widths of the beam and samples that are saved, and the tokens that each has at most."""
MAX_IMAGES = 3
"""Test images that can be chosen in a saved page."""
MAX_PATCHES = 100
"""A model with more patches is saved with the mean of its heads alone: each head has a number for every two patches."""
DISCARD_RATIOS = (0, 0.5, 0.9)
HORIZON = 16
"""Values that a series is shown going on by."""
TABLE_LENGTH = 64
"""Places of a table of positions, as the page shows them at first."""


def runs(recorder: ResponseRecorder) -> None:
    """The curves, and all samples."""
    for step in recorder.request("runs/metrics", since=0)["samples"]:
        recorder.request("runs/samples", step=step)


def tokenize(recorder: ResponseRecorder) -> None:
    """The text in its pieces."""
    usual = recorder.run["example"] or {}
    recorder.request("tokenize", text=recorder.text or usual.get("target", ""))


def _input(recorder: ResponseRecorder) -> dict[str, Any]:
    """What the model is given: the text, or the first of its test images or videos, which is shown beside."""
    abilities = recorder.run["capabilities"]
    if "images" in abilities or "videos" in abilities:
        _image(recorder, number=0)
        return {"number": 0}
    if "series" in abilities:
        recorder.request("series/forecast", text=recorder.text, horizon=HORIZON)
    return {"text": recorder.text}


def _image(recorder: ResponseRecorder, **which: Any) -> dict[str, Any]:
    """An image or a video as the page asks for it, and what is known of it."""
    recorder.request("vit/image", **which, order=[], cover=[])
    return recorder.request("vit/image-info", **which, order=[], cover=[])


def _traced_input(recorder: ResponseRecorder) -> dict[str, Any]:
    """What is given and what is written, as views ask about it that look inside."""
    inputs = _input(recorder)
    recorder.store("examples", {"examples": []}, max_examples=12)  # no others: they are not saved
    return {**inputs, "target": recorder.target}


def _target_prefix(recorder: ResponseRecorder) -> str:
    """What a model has written already that reads one thing and writes another."""
    return (recorder.target or "") if recorder.run["task"] in ("translate", "caption") else ""


def attention(recorder: ResponseRecorder) -> None:
    """Every head, every token by all heads, and all heads fused."""
    about = _traced_input(recorder)
    listed = recorder.request("attention/layers", **about)
    for number, layer in enumerate(listed["layers"]):
        recorder.request("attention/thumbnails", **about, layer=number)
        recorder.request("attention/measures", **about, layer=number)
        for head in range(layer["heads"]):
            recorder.request("attention/head", **about, layer=number, head=head, heads="one")
        for fused in ("mean", "max"):
            recorder.request("attention/head", **about, layer=number, head=0, heads=fused)
        for row in range(len(listed["tokens"][layer["rows"]])):
            recorder.request("attention/row", **about, layer=number, row=row)


def single_head(recorder: ResponseRecorder) -> None:
    """What the weights of every head are made of."""
    about = _traced_input(recorder)
    for number, layer in enumerate(recorder.request("attention/layers", **about)["layers"]):
        for head in range(layer["heads"]):
            for part in get_args(HeadPartRequest.model_fields["part"].annotation):
                recorder.request("attention/part", **about, layer=number, head=head, part=part)


def next_token(recorder: ResponseRecorder) -> None:
    """Every place of the text, and the whole vocabulary where the page begins."""
    about = {**_input(recorder), "target": _target_prefix(recorder), "forced_ids": []}
    part = "encoder" if recorder.run["task"] == "fill" else "decoder"
    layered = "attention" in recorder.run["capabilities"] and recorder.run[part] == "transformer"
    here = ["candidates", "lens"] if layered else ["candidates"]
    last = {"position": -1, "max_candidates": TOP_CANDIDATES}
    analysis = recorder.request("next-token/analysis", **about, parts=["surprisal", *here], **last)
    recorder.request("next-token/analysis", **about, parts=["surprisal"], **last)
    for position in range(-1, len(analysis["surprisal"]["ids"])):
        recorder.request(
            "next-token/analysis", **about, parts=here, position=position, max_candidates=TOP_CANDIDATES
        )
    recorder.request(
        "next-token/analysis", **about, parts=["candidates"], position=-1, max_candidates=ALL_CANDIDATES
    )


def decode(recorder: ResponseRecorder) -> None:
    """All widths of the beam, a few samples, and the truth if it was given."""
    inputs = _input(recorder)
    about = {
        **inputs, "forced_ids": [], "max_new_tokens": MAX_NEW_TOKENS, "length_penalty": "default", "alpha": 1,
    }  # fmt: skip
    recorder.request("decode/search-tree", **about, strategy="greedy")
    for width in BEAM_WIDTHS:
        recorder.request("decode/search-tree", **about, strategy="beam", num_beams=width)
    for seed in range(SEEDS):
        recorder.request("decode/search-tree", **about, strategy="sample", seed=seed, temperature=1, top_k=0, top_p=1)
    truth = recorder.target or (_image(recorder, **inputs)["truth"] if "number" in inputs else "")
    if truth:
        recorder.request("decode/exposure-bias", **inputs, target=truth)


def architecture(recorder: ResponseRecorder) -> None:
    """All blocks, and the source of each."""
    text = recorder.text if "text" in recorder.run["capabilities"] else ""
    root = recorder.request("architecture/blocks", text=text)["root"]
    for name in _block_names(root):
        recorder.request("architecture/source", block=name)


def _block_names(block: dict[str, Any]) -> Iterator[str]:
    yield block["name"]
    for child in block["children"]:
        yield from _block_names(child)


def mistakes(recorder: ResponseRecorder) -> None:
    """The first rows of every split, the worst and the best first; and who was taken for whom."""
    for split in recorder.request("mistakes/splits")["splits"]:
        if split["kind"] in ("labels", "tags"):
            recorder.request("mistakes/confusion", split=split["name"])
        if split["kind"] == "forecasts":
            recorder.request("mistakes/forecasts", split=split["name"])
        for order in get_args(RowsRequest.model_fields["sort"].annotation):
            first = {"search": "", "cell": None, "start": 0, "count": 25}
            recorder.request("mistakes/rows", split=split["name"], sort=order, **first)


def embeddings(recorder: ResponseRecorder) -> None:
    """The map; neighbors are asked for by whoever can be answered."""
    recorder.request("embeddings/tokens", count=MAX_WORDS)
    recorder.request("embeddings/map", count=MAX_WORDS)


def compare(recorder: ResponseRecorder) -> None:
    """The run by itself, as the page begins, and beside the next on the bench, with all heads on average."""
    ids = list(recorder.workspace.runs)
    second = ids[(ids.index(recorder.run["id"]) + 1) % len(ids)]
    compared = _record_forecasts if "series" in recorder.run["capabilities"] else _record_comparison
    for each in (None, second) if len(ids) > 1 else (None,):
        compared(recorder, each)


def _record_forecasts(recorder: ResponseRecorder, second: str | None) -> None:
    _traced_input(recorder)
    if second:
        recorder.request("series/forecast", run=second, text=recorder.text, horizon=HORIZON)


def _record_comparison(recorder: ResponseRecorder, second: str | None) -> None:
    inputs = {"text": recorder.text, "other": "", "target": recorder.target, "number": 0, "other_number": None}
    for side in recorder.request("compare/sides", second=second, **inputs)["sides"]:
        if takes_images(recorder.workspace.run(side["input"]["run"])):
            _image(recorder, run=side["input"]["run"], number=side["input"]["number"])
        for number, _ in enumerate(recorder.request("attention/layers", **side["input"])["layers"]):
            recorder.request("attention/head", **side["input"], layer=number, head=0, heads="mean")


def recurrent(recorder: ResponseRecorder) -> None:
    """Every cell with all it shows, what is left of every word, and the contexts."""
    about = _traced_input(recorder)
    found = recorder.request("recurrent/cells", **about)
    for cell in found["cells"]:
        for signal in cell["signals"]:
            recorder.request("recurrent/states", **about, cell=cell["name"], signal=signal)
        for word in range(len(found["tokens"][cell["side"]])):
            recorder.request("recurrent/influence", **about, cell=cell["name"], word=word)
    if found["source_access"] == "attention":
        recorder.request("recurrent/context-vectors", **about)
        recorder.request("recurrent/attention-ablation", **about)


def images(recorder: ResponseRecorder) -> None:
    """A few test images, where all heads look, what reached the end, and what the model says."""
    for number in range(MAX_IMAGES):
        about: dict[str, Any] = {"number": number, "order": [], "cover": []}
        found = recorder.request("vit/info", **about)
        recorder.request("vit/image", **about)
        recorder.request("vit/image-info", **about)
        if found["positions"] != "none":
            recorder.request("vit/position-similarity")
        for positions in ("on",) if found["positions"] == "none" else ("on", "off"):
            _record_image(recorder, found, {**about, "positions": positions})
        if number + 1 >= found["count"]:
            break


def _record_image(recorder: ResponseRecorder, found: dict[str, Any], about: dict[str, Any]) -> None:
    """What a model makes of an image."""
    said = recorder.request("vit/predict", **about)
    heads = found["heads"] if found["grid"][0] * found["grid"][1] <= MAX_PATCHES else 0
    for layer in range(found["layers"]):
        for head in range(-1, heads):
            recorder.request("vit/attention", **about, layer=layer, head=head)
    for fusion in ("mean", "min", "max") if found["layers"] else ():
        for discard in DISCARD_RATIOS:
            recorder.request("vit/rollout", **about, fusion=fusion, discard=discard)
    if found["generates"] and "attention" in recorder.run["capabilities"]:
        recorder.request("vit/regions", **about, target=said["text"])


def positions(recorder: ResponseRecorder) -> None:
    """What each side is told, and what the model makes of the text as it stands and from back to front."""
    encodings = recorder.request("positions/encodings")
    for side in encodings["sides"]:
        for head in range(side["heads"] if side["kind"] != "none" else 0):
            recorder.request("positions/table", side=side["side"], length=TABLE_LENGTH, head=head)
            recorder.request("positions/similarity", side=side["side"], length=TABLE_LENGTH, head=head)
    for mode in ("on", "off") if encodings["reorderable"] else ():
        about = {"text": recorder.text, "positions": mode}
        movable = recorder.request("positions/predict", **about, order=[])["movable"]
        reverse = list(reversed(range(sum(movable))))
        if len(reverse) > 1:
            recorder.request("positions/predict", **about, order=reverse)
            recorder.request("positions/distances", **about, order=reverse)
