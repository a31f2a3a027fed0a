"""How a text is cut: its pieces, their numbers and their bytes.

Pieces that are bytes of one character belong together: they are told as a group, under the character. So no half of a
character is ever shown as if it were one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import AboutRun, Words
from seq2see.sequences.given import GivenTokeniser
from seq2see.sequences.pixels import Pixels
from seq2see.sequences.series import Scale
from seq2see.sequences.tokeniser_files import BYTES
from seq2see.sequences.tokenisers import UNK, VISIBLE, Tokeniser
from seq2see.workbench.tokenisers import Tokenisers


class TokeniseAsked(AboutRun):
    """How a text is cut."""

    text: Words


def tokenise(bench: Bench, asked: TokeniseAsked) -> dict[str, Any]:
    """The text as each of a run's vocabularies cuts it."""
    return {"sides": sides(bench.run(asked.run).model.tokenisers, asked.text)}


def sides(tokenisers: Tokenisers, text: str) -> list[dict[str, Any]]:
    """The text as each of a model's vocabularies cuts it; pictures and series have none."""
    return [{"name": name} | cut(tokeniser, text) for name, tokeniser in vocabularies(tokenisers).items()]


def vocabularies(tokenisers: Tokenisers) -> dict[str, Tokeniser]:
    """The tokenisers that cut texts, by the side they cut; `both` if it is one."""
    if tokenisers.shared or tokenisers.labels:
        named = {"both": tokenisers.source}
    else:
        named = {"source": tokenisers.source, "target": tokenisers.target}
    return {name: each for name, each in named.items() if not isinstance(each, Pixels | Scale)}


def cut(tokeniser: Tokeniser, text: str) -> dict[str, Any]:
    """The pieces of a text, in groups that share a place in it."""
    ids, spans = tokeniser.encode(text), tokeniser.spans(text)
    groups: list[dict[str, Any]] = []
    end = -1
    for number, piece, span in zip(ids, tokeniser.pieces(ids), spans, strict=True):
        told = _told(tokeniser, number, piece, text[slice(*span)])
        if groups and span[0] < end:  # another part of the same characters
            groups[-1]["pieces"].append(told)
            groups[-1]["text"] = text[groups[-1]["start"] : max(end, span[1])]
        else:
            groups.append({"start": span[0], "text": text[slice(*span)], "pieces": [told]})
        end = max(end, span[1])
    return {
        "kind": tokeniser.kind,
        "size": len(tokeniser),
        "characters": len(text),
        "bytes": len(text.encode()),
        "groups": [_group(each) for each in groups],
    }


def _group(group: dict[str, Any]) -> dict[str, Any]:
    """A group with what stands above its pieces: nothing where the one piece says it all."""
    above, pieces = group["text"].translate(VISIBLE), group["pieces"]
    alone = len(pieces) == 1 and pieces[0]["piece"].strip("▁#").casefold() == above.strip("▁").casefold()
    unknown = any(piece["id"] == UNK for piece in pieces)
    return {"text": group["text"], "shown": "" if alone else above, "unknown": unknown, "pieces": pieces}


def _told(tokeniser: Tokeniser, number: int, piece: str, there: str) -> dict[str, Any]:
    """A piece with its bytes; one that is no whole characters is shown as its bytes."""
    if number == UNK:
        return {"id": number, "piece": piece, "bytes": _hex(there.encode())}
    if piece in BYTES:
        return {"id": number, "piece": piece, "bytes": _hex(bytes([BYTES.index(piece)]))}
    alone = tokeniser.decode([number])
    if "\ufffd" in alone:
        assert isinstance(tokeniser, GivenTokeniser)  # our own pieces are whole characters, or one byte
        name = str(tokeniser.name_of(tokeniser.numbers.theirs[number] or 0))
        torn = bytes(_letters()[letter] for letter in name)
        return {"id": number, "piece": " ".join(_hex(torn)), "bytes": _hex(torn)}
    return {"id": number, "piece": piece, "bytes": _hex(alone.removeprefix("##").encode())}


def _hex(content: bytes) -> list[str]:
    return [f"{byte:02X}" for byte in content]


@cache
def _letters() -> dict[str, int]:
    """The byte that each visible letter stands for in vocabularies over bytes (Radford et al. 2019, section 2.2)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
