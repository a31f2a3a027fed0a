"""The meaning of a sentence, independent of any language: who does what to whom, where and when.

A meaning is a small tree of named tuples. Each node has a *path*, and each word of each language names the path
that it expresses; words of two languages with the same path are aligned.

The paths, for a clause: `subject object recipient companion` (the noun itself), with `.number .determiner .owner
.quality0 .quality1 .portion .clause .and .second` inside a noun phrase; `place goal` with `.relation`; `verb` with
`.not .modal .tense .aspect .adverb`; `quality` with `.degree` (the predicate adjective); `time`; `mark` (the question
mark). In a compound sentence they begin with `first.` and `second.`, and `link` is the conjunction.
"""

from __future__ import annotations

from typing import NamedTuple

from seq2see.data.generated.pocket.concepts import PRONOUNS


class NounPhrase(NamedTuple):
    """A noun with its modifiers: I, Mary, my two black cats, the book that I like."""

    concept: str
    number: str = "one"
    """one, two to ten, some, many, how-many; plural (these pens); every (in general: pens, water)."""
    determiner: str = ""
    """this, that; "the" before a noun with a relative clause."""
    owner: NounPhrase | None = None
    adjectives: tuple[str, ...] = ()
    clause: Clause | None = None
    """The book *that I like*: a relative clause whose object is this noun and is therefore not repeated."""
    second: NounPhrase | None = None
    """The second conjunct: apples *and pears*."""


class Place(NamedTuple):
    """A place adverbial: at school, on the table, where."""

    concept: str
    relation: str = "in"


class Clause(NamedTuple):
    """One event or state. "be" takes an adjective, an object or a place; "exist" takes an object and a place."""

    verb: str
    subject: NounPhrase | None = None
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    companion: NounPhrase | None = None
    goal: Place | None = None
    place: Place | None = None
    adjective: str = ""
    degree: str = ""
    tense: str = "present"
    """present, now (is doing), past, future."""
    time: str = ""
    modal: str = ""
    adverb: str = ""
    negated: bool = False
    polar_question: bool = False
    """A yes-no question; a wh-question contains who, what, where, when or how many instead."""


class CompoundSentence(NamedTuple):
    """Two clauses: the first *but* the second, the first *because* the second."""

    conjunction: str
    first: Clause
    second: Clause


Meaning = Clause | CompoundSentence


class Word(NamedTuple):
    """A word of a language, its part of speech, and the paths that it expresses."""

    text: str
    tag: str
    """As in Universal Dependencies, except CLF for a measure word."""
    node: str = ""
    """The path that this word expresses: at most one word of a sentence for each path."""
    secondary_nodes: tuple[str, ...] = ()
    """Paths that this word helps to express: 吃*了*, *last* week."""


def wh_role(clause: Clause) -> str:
    """The role that a wh-question is about: subject, object, place, goal, time; "" for any other clause."""
    if _is_wh(clause.subject):
        return "subject"
    if _is_wh(clause.object):
        return "object"
    if clause.place and clause.place.concept == "where":
        return "place"
    if clause.goal and clause.goal.concept == "where":
        return "goal"
    return "time" if clause.time == "when" else ""


def _is_wh(noun_phrase: NounPhrase | None) -> bool:
    """Whether the noun phrase contains who, what, how many or whose."""
    if noun_phrase is None:
        return False
    whose = noun_phrase.owner is not None and noun_phrase.owner.concept == "who"
    return whose or noun_phrase.concept in ("who", "what") or noun_phrase.number == "how-many"


def is_question(clause: Clause) -> bool:
    """Whether the clause ends with a question mark."""
    return clause.polar_question or bool(wh_role(clause))


_EMPTY = frozenset([*PRONOUNS, "who", "what", "where", "this", "that", "be", "exist"])


def content_words(meaning: Meaning) -> list[tuple[str, str]]:
    """The content words with their roles: (role, concept) for nouns, names, verbs, adjectives and places.

    Number, tense, question, negation, pronouns and time are omitted: sentences that differ only in these
    details, such as 我有一支笔 and 他没有笔, have the same content.
    """
    words: list[tuple[str, str]] = []
    if isinstance(meaning, CompoundSentence):
        words.append(("link", meaning.conjunction))
        _clause_content(meaning.first, words)
        _clause_content(meaning.second, words)
    else:
        _clause_content(meaning, words)
    return [word for word in words if word[1] not in _EMPTY]


def _clause_content(clause: Clause, words: list[tuple[str, str]]) -> None:
    words.append(("verb", clause.verb))
    if clause.subject:
        _noun_phrase_content(clause.subject, "subject", words)
    if clause.object:
        _noun_phrase_content(clause.object, "what" if clause.verb in ("be", "exist") else "object", words)
    if clause.recipient:
        _noun_phrase_content(clause.recipient, "recipient", words)
    if clause.companion:
        _noun_phrase_content(clause.companion, "companion", words)
    if clause.adjective:
        words.append(("quality", clause.adjective))
    if clause.goal:
        words.append(("goal", clause.goal.concept))
    if clause.place:
        words.append(("place", clause.place.concept))


def _noun_phrase_content(noun_phrase: NounPhrase, role: str, words: list[tuple[str, str]]) -> None:
    words.append((role, noun_phrase.concept))
    for adjective in noun_phrase.adjectives:
        words.append(("quality", adjective))
    if noun_phrase.owner:
        _noun_phrase_content(noun_phrase.owner, "owner", words)
    if noun_phrase.clause:
        _clause_content(noun_phrase.clause, words)
    if noun_phrase.second:
        _noun_phrase_content(noun_phrase.second, role, words)
