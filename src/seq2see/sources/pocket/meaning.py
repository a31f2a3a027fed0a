"""A sentence without words: who does what to whom, where and when.

A meaning is a small tree of named tuples. Each of its parts has a *path*, and each word of each language
names the path that it expresses; that is how words of two languages find each other.

The paths, for a clause: `subject object recipient companion` (the noun itself), with `.number .which .owner
.quality0 .quality1 .portion .clause .and .second` inside a thing; `place goal` with `.relation`; `verb` with
`.not .modal .tense .aspect .adverb`; `quality` with `.degree`; `time`; `mark` (the question mark). In a
sentence of two clauses they begin with `first.` and `second.`, and `link` is the conjunction.
"""

from __future__ import annotations

from typing import NamedTuple

from seq2see.sources.pocket.concepts import PRONOUNS


class Thing(NamedTuple):
    """Somebody or something: I, Mary, my two black cats, the book that I like."""

    concept: str
    number: str = "one"
    """one, two to ten, some, many, how-many; plural (these pens); every (in general: pens, water)."""
    which: str = ""
    """this, that; "the" where a clause says which."""
    owner: Thing | None = None
    qualities: tuple[str, ...] = ()
    clause: Clause | None = None
    """The book *that I like*: a clause whose object is this thing and therefore left out."""
    second: Thing | None = None
    """Apples *and pears*."""


class Place(NamedTuple):
    """Somewhere: at school, on the table, where."""

    concept: str
    relation: str = "in"


class Clause(NamedTuple):
    """One deed or state. "be" takes a quality, an object or a place; "exist" an object and a place."""

    verb: str
    subject: Thing | None = None
    object: Thing | None = None
    recipient: Thing | None = None
    companion: Thing | None = None
    goal: Place | None = None
    place: Place | None = None
    quality: str = ""
    degree: str = ""
    tense: str = "present"
    """present, now (is doing), past, future."""
    time: str = ""
    modal: str = ""
    adverb: str = ""
    negated: bool = False
    asked: bool = False
    """A question that is answered by yes or no; a wh-question is known by its who, what, where, when."""


class Join(NamedTuple):
    """Two clauses: the first *but* the second, the first *because* the second."""

    link: str
    first: Clause
    second: Clause


Meaning = Clause | Join


class Word(NamedTuple):
    """A word of a language, its part of speech, and what it expresses."""

    text: str
    tag: str
    """As in Universal Dependencies, except CLF for a measure word."""
    node: str = ""
    """The path of the part that this word expresses: at most one word of a sentence for each path."""
    also: tuple[str, ...] = ()
    """Paths of parts that it helps to express: 吃*了*, *last* week."""


def asked_for(clause: Clause) -> str:
    """Which part a wh-question asks for: subject, object, place, goal, time; "" if none."""
    if _asks(clause.subject):
        return "subject"
    if _asks(clause.object):
        return "object"
    if clause.place and clause.place.concept == "where":
        return "place"
    if clause.goal and clause.goal.concept == "where":
        return "goal"
    return "time" if clause.time == "when" else ""


def _asks(thing: Thing | None) -> bool:
    """Whether it is a who, a what, a how many or a whose."""
    if thing is None:
        return False
    whose = thing.owner is not None and thing.owner.concept == "who"
    return whose or thing.concept in ("who", "what") or thing.number == "how-many"


def is_question(clause: Clause) -> bool:
    """Whether the clause ends with a question mark."""
    return clause.asked or bool(asked_for(clause))


_EMPTY = frozenset([*PRONOUNS, "who", "what", "where", "this", "that", "be", "exist"])


def content(meaning: Meaning) -> list[tuple[str, str]]:
    """The content words in their roles: (role, concept) for nouns, names, verbs, adjectives and places.

    What is left out (number, tense, question, negation, pronouns, time) are the details in which
    twins differ: 我有一支笔 and 他没有笔 have the same content.
    """
    words: list[tuple[str, str]] = []
    if isinstance(meaning, Join):
        words.append(("link", meaning.link))
        _clause_content(meaning.first, words)
        _clause_content(meaning.second, words)
    else:
        _clause_content(meaning, words)
    return [word for word in words if word[1] not in _EMPTY]


def _clause_content(clause: Clause, words: list[tuple[str, str]]) -> None:
    words.append(("verb", clause.verb))
    if clause.subject:
        _thing_content(clause.subject, "subject", words)
    if clause.object:
        _thing_content(clause.object, "what" if clause.verb in ("be", "exist") else "object", words)
    if clause.recipient:
        _thing_content(clause.recipient, "recipient", words)
    if clause.companion:
        _thing_content(clause.companion, "companion", words)
    if clause.quality:
        words.append(("quality", clause.quality))
    if clause.goal:
        words.append(("goal", clause.goal.concept))
    if clause.place:
        words.append(("place", clause.place.concept))


def _thing_content(thing: Thing, role: str, words: list[tuple[str, str]]) -> None:
    words.append((role, thing.concept))
    for quality in thing.qualities:
        words.append(("quality", quality))
    if thing.owner:
        _thing_content(thing.owner, "owner", words)
    if thing.clause:
        _clause_content(thing.clause, words)
    if thing.second:
        _thing_content(thing.second, role, words)
