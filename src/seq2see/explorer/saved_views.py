"""What each view asks when a saved page shows it: the page's questions, put beforehand.

A question must be put here exactly as the page's script puts it: answers are found again by the text of the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

from seq2see.explorer.views.attention import PartAsked
from seq2see.explorer.views.compare import looks
from seq2see.explorer.views.embeddings import MOST as MOST_WORDS
from seq2see.explorer.views.mistakes import RowsAsked

if TYPE_CHECKING:
    from seq2see.explorer.saved_answers import Answers

FEW, WHOLE = 200, 10_000_000
"""Candidates for the next token that the view asks for: the most probable, or the whole vocabulary."""
BEAMS, SEEDS, TURNS = range(2, 9), 4, 24
"""Widths of the beam and samples that are saved, and the tokens that each has at most."""
PICTURES = 3
"""Test pictures that can be chosen in a saved page."""
MOST_PLACES = 100
"""A model with more patches is saved with the mean of its heads alone: each head has a number for every two patches."""
DISCARDS = (0, 0.5, 0.9)
AHEAD = 16
"""Values that a series is shown going on by."""
LENGTH = 64
"""Places of a table of positions, as the page shows them at first."""


def runs(answers: Answers) -> None:
    """The curves, and all samples."""
    for step in answers.ask("runs/metrics", since=0)["samples"]:
        answers.ask("runs/samples", step=step)


def tokenise(answers: Answers) -> None:
    """The text in its pieces."""
    usual = answers.run["example"] or {}
    answers.ask("tokenise", text=answers.text or usual.get("target", ""))


def _given(answers: Answers) -> dict[str, Any]:
    """What the model is given: the text, or the first of its test pictures or films, which is shown beside."""
    abilities = answers.run["abilities"]
    if "pictures" in abilities or "films" in abilities:
        _picture(answers, number=0)
        return {"number": 0}
    if "series" in abilities:
        answers.ask("series/said", text=answers.text, ahead=AHEAD)
    return {"text": answers.text}


def _picture(answers: Answers, **which: Any) -> dict[str, Any]:
    """A picture or a film as the page asks for it, and what is known of it."""
    answers.ask("vit/picture", **which, order=[], cover=[])
    return answers.ask("vit/about", **which, order=[], cover=[])


def _looked_into(answers: Answers) -> dict[str, Any]:
    """What is given and what is written, as views ask about it that look inside."""
    given = _given(answers)
    answers.tell("examples", {"examples": []}, most=12)  # no others: they are not saved
    return {**given, "target": answers.target}


def _begun(answers: Answers) -> str:
    """What a model has written already that reads one thing and writes another."""
    return (answers.target or "") if answers.run["task"] in ("translate", "caption") else ""


def attention(answers: Answers) -> None:
    """Every head, every token by all heads, and all heads fused."""
    about = _looked_into(answers)
    listed = answers.ask("attention/layers", **about)
    for number, layer in enumerate(listed["layers"]):
        answers.ask("attention/thumbnails", **about, layer=number)
        answers.ask("attention/measures", **about, layer=number)
        for head in range(layer["heads"]):
            answers.ask("attention/head", **about, layer=number, head=head, heads="one")
        for fused in ("mean", "max"):
            answers.ask("attention/head", **about, layer=number, head=0, heads=fused)
        for row in range(len(listed["tokens"][layer["rows"]])):
            answers.ask("attention/row", **about, layer=number, row=row)


def one_head(answers: Answers) -> None:
    """What the weights of every head are made of."""
    about = _looked_into(answers)
    for number, layer in enumerate(answers.ask("attention/layers", **about)["layers"]):
        for head in range(layer["heads"]):
            for part in get_args(PartAsked.model_fields["part"].annotation):
                answers.ask("attention/part", **about, layer=number, head=head, part=part)


def next_token(answers: Answers) -> None:
    """Every place of the text, and the whole vocabulary where the page begins."""
    about = {**_given(answers), "target": _begun(answers), "taken": []}
    part = "encoder" if answers.run["task"] == "fill" else "decoder"
    layered = "attention" in answers.run["abilities"] and answers.run[part] == "transformer"
    here = ["candidates", "layers"] if layered else ["candidates"]
    told = answers.ask("next-token/told", **about, parts=["strip", *here], place=-1, most=FEW)
    answers.ask("next-token/told", **about, parts=["strip"], place=-1, most=FEW)
    for place in range(-1, len(told["strip"]["ids"])):
        answers.ask("next-token/told", **about, parts=here, place=place, most=FEW)
    answers.ask("next-token/told", **about, parts=["candidates"], place=-1, most=WHOLE)


def decode(answers: Answers) -> None:
    """All widths of the beam, a few samples, and the truth if it was given."""
    given = _given(answers)
    about = {**given, "taken": [], "max_new_tokens": TURNS, "penalty": "own", "alpha": 1}
    answers.ask("decode/tree", **about, way="greedy")
    for width in BEAMS:
        answers.ask("decode/tree", **about, way="beam", num_beams=width)
    for seed in range(SEEDS):
        answers.ask("decode/tree", **about, way="sample", seed=seed, temperature=1, top_k=0, top_p=1)
    truth = answers.target or (_picture(answers, **given)["truth"] if "number" in given else "")
    if truth:
        answers.ask("decode/exposure", **given, target=truth)


def architecture(answers: Answers) -> None:
    """All blocks, and the source of each."""
    text = answers.text if "text" in answers.run["abilities"] else ""
    root = answers.ask("architecture/blocks", text=text)["root"]
    for name in _names(root):
        answers.ask("architecture/source", block=name)


def _names(block: dict[str, Any]) -> Iterator[str]:
    yield block["name"]
    for part in block["parts"]:
        yield from _names(part)


def mistakes(answers: Answers) -> None:
    """The first rows of every split, the worst and the best first; and who was taken for whom."""
    for split in answers.ask("mistakes/splits")["splits"]:
        if split["kind"] in ("labels", "tags"):
            answers.ask("mistakes/confusion", split=split["name"])
        if split["kind"] == "forecasts":
            answers.ask("mistakes/forecasts", split=split["name"])
        for order in get_args(RowsAsked.model_fields["sort"].annotation):
            first = {"search": "", "cell": None, "start": 0, "count": 25}
            answers.ask("mistakes/rows", split=split["name"], sort=order, **first)


def embeddings(answers: Answers) -> None:
    """The map; neighbours are asked for by whoever can be answered."""
    answers.ask("embeddings/words", count=MOST_WORDS)
    answers.ask("embeddings/map", count=MOST_WORDS)


def compare(answers: Answers) -> None:
    """The run by itself, as the page begins, and beside the next on the bench, with all heads on average."""
    ids = list(answers.bench.runs)
    second = ids[(ids.index(answers.run["id"]) + 1) % len(ids)]
    compared = _forecast if "series" in answers.run["abilities"] else _compared
    for each in (None, second) if len(ids) > 1 else (None,):
        compared(answers, each)


def _forecast(answers: Answers, second: str | None) -> None:
    _looked_into(answers)
    if second:
        answers.ask("series/said", run=second, text=answers.text, ahead=AHEAD)


def _compared(answers: Answers, second: str | None) -> None:
    given = {"text": answers.text, "other": "", "target": answers.target, "number": 0, "other_number": None}
    for side in answers.ask("compare/sides", second=second, **given)["sides"]:
        if looks(answers.bench.run(side["input"]["run"])):
            _picture(answers, run=side["input"]["run"], number=side["input"]["number"])
        for number, _ in enumerate(answers.ask("attention/layers", **side["input"])["layers"]):
            answers.ask("attention/head", **side["input"], layer=number, head=0, heads="mean")


def recurrent(answers: Answers) -> None:
    """Every cell with all it shows, what is left of every word, and the contexts."""
    about = _looked_into(answers)
    found = answers.ask("recurrent/read", **about)
    for cell in found["cells"]:
        for shows in cell["shows"]:
            answers.ask("recurrent/states", **about, cell=cell["name"], shows=shows)
        for word in range(len(found["tokens"][cell["side"]])):
            answers.ask("recurrent/left", **about, cell=cell["name"], word=word)
    if found["look"] == "attention":
        answers.ask("recurrent/given", **about)
        answers.ask("recurrent/needed", **about)


def pictures(answers: Answers) -> None:
    """A few test pictures, where all heads look, what reached the end, and what the model says."""
    for number in range(PICTURES):
        about: dict[str, Any] = {"number": number, "order": [], "cover": []}
        found = answers.ask("vit/see", **about)
        answers.ask("vit/picture", **about)
        answers.ask("vit/about", **about)
        if found["positions"] != "none":
            answers.ask("vit/similar")
        for positions in ("told",) if found["positions"] == "none" else ("told", "off"):
            _looked_at(answers, found, {**about, "positions": positions})
        if number + 1 >= found["count"]:
            break


def _looked_at(answers: Answers, found: dict[str, Any], about: dict[str, Any]) -> None:
    """What a model makes of a picture."""
    said = answers.ask("vit/say", **about)
    heads = found["heads"] if found["grid"][0] * found["grid"][1] <= MOST_PLACES else 0
    for layer in range(found["layers"]):
        for head in range(-1, heads):
            answers.ask("vit/look", **about, layer=layer, head=head)
    for fusion in ("mean", "min", "max") if found["layers"] else ():
        for discard in DISCARDS:
            answers.ask("vit/rollout", **about, fusion=fusion, discard=discard)
    if found["writes"] and "attention" in answers.run["abilities"]:
        answers.ask("vit/regions", **about, target=said["text"])


def positions(answers: Answers) -> None:
    """What each side is told, and what the model makes of the text as it stands and from back to front."""
    told = answers.ask("positions/told")
    for side in told["sides"]:
        for head in range(side["heads"] if side["kind"] != "none" else 0):
            answers.ask("positions/table", side=side["side"], length=LENGTH, head=head)
            answers.ask("positions/similar", side=side["side"], length=LENGTH, head=head)
    for way in ("told", "off") if told["reorders"] else ():
        about = {"text": answers.text, "positions": way}
        movable = answers.ask("positions/answers", **about, order=[])["movable"]
        turned = list(reversed(range(sum(movable))))
        if len(turned) > 1:
            answers.ask("positions/answers", **about, order=turned)
            answers.ask("positions/distances", **about, order=turned)
