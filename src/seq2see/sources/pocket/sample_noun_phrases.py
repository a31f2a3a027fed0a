"""Drawing people, things and places at random, in the company they like to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from seq2see.sources.pocket.concepts import (
    ADJECTIVES,
    CLASSES,
    FAMILY,
    NAMES,
    NUMBERS,
    PORTIONS,
    PRONOUNS,
    STUDIES,
    TOWNS,
    members,
)
from seq2see.sources.pocket.meaning import NounPhrase, Place

Option = TypeVar("Option")


def _numbers(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(4096).tolist()


class RandomChoice:
    """Cheap random choices: numbers are taken from a generator by the thousand."""

    def __init__(self, generator: np.random.Generator):
        self.number: Callable[[], float] = _numbers(generator).__next__
        """A number from [0, 1)."""

    def with_probability(self, probability: float) -> bool:
        """True this often."""
        return self.number() < probability

    def one(self, options: Sequence[Option]) -> Option:
        """One of several, all equally likely; write an option twice to make it twice as likely."""
        return options[int(self.number() * len(options))]


def _qualities_of(kinds: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    described: dict[str, list[str]] = {}
    for quality in ADJECTIVES:
        if quality.kind in kinds:
            for noun in quality.nouns:
                described.setdefault(noun, []).append(quality.concept)
    return {noun: tuple(adjectives) for noun, adjectives in described.items()}


ANY_QUALITY = _qualities_of(("feeling", "trait", "colour"))
OPINIONS = frozenset(["cute", "beautiful", "interesting", "useful", "famous", "delicious"])
SIZES = frozenset(["big", "small", "new", "old", "long", "short"])

WEIGHTED_PRONOUNS = ("I", "I", "you", "he", "he", "she", "she", "we", "they")
"""The pronouns, as often as one hears them."""

# How a noun is introduced depends on what is said about it: "I like pens", "I have a pen", "this pen is red".
OPEN_DETERMINERS = ("one",) * 6 + ("number",) * 3 + ("every",) * 3 + ("which",) * 4 + ("owner",) * 3 + ("some", "many")
GENERIC_DETERMINERS = ("every",) * 6 + ("which",) * 2 + ("owner",) * 2
COUNTED_DETERMINERS = ("one",) * 8 + ("number",) * 5 + ("some", "many")
PROGRESSIVE_DETERMINERS = ("one",) * 5 + ("which",) * 3 + ("owner",) * 3 + ("number", "number", "some")
DEFINITE_DETERMINERS = ("which",) * 5 + ("owner",) * 4

SURFACES = {
    "on": members("furniture"),
    "in": members("container"),
    "under": ("table", "chair", "bed", "tree", "sofa"),
    "behind": ("door", "tree", "sofa", "car"),
    "beside": ("door", "window", "tree", "bed", "table"),
}
SITES = tuple(Place(concept) for concept in members("room+indoors+outdoors+town"))
SITES += tuple(Place(concept, "at") for concept in (*members("public"), "home", "home", "home"))
SITE_NOUNS = frozenset(members("site"))
FREE = frozenset(members("indoors+public+park+zoo+village+wild+boy+girl+man+woman"))
FREE |= frozenset(members("worker+driver+farmer+singer+writer+nurse"))
"""What nobody calls "mine"."""
PEOPLE = members("people")
ANIMALS = members("animal")
CLASS_OF = {concept: name for name, concepts in CLASSES.items() for concept in concepts}


class NounPhraseSampler:
    """Draws nouns with all that belongs to them; `detail` multiplies how often something is added."""

    def __init__(self, draw: RandomChoice, detail: float = 1.0):
        self.random, self.detail = draw, detail

    def optionally(self, probability: float) -> bool:
        """Whether to add something that is not needed."""
        return self.random.number() < probability * self.detail

    def named(self) -> NounPhrase:
        """Somebody known by name or by a pronoun."""
        return NounPhrase(self.random.one(self.random.one((WEIGHTED_PRONOUNS, WEIGHTED_PRONOUNS, CLASSES["name"]))))

    def agent(self, who: str = "people") -> NounPhrase:
        """Somebody who can do something, or (who = "living") perhaps an animal."""
        chance = self.random.number()
        if who == "living" and chance < 0.35:
            return self.noun(self.random.one(ANIMALS), DEFINITE_DETERMINERS)
        if chance < 0.55:
            return NounPhrase(self.random.one(WEIGHTED_PRONOUNS))
        if chance < 0.75:
            name = NounPhrase(self.random.one(CLASSES["name"]))
            if self.optionally(0.15):
                other = self.random.one(CLASSES["name"])
                name = name._replace(second=NounPhrase(other)) if other != name.concept else name
            return name
        if chance < 0.87:
            return self.noun(self.random.one(CLASSES["family"]), DEFINITE_DETERMINERS)
        return self.noun(self.random.one(PEOPLE), DEFINITE_DETERMINERS)

    def noun(self, concept: str, determiners: Sequence[str]) -> NounPhrase:
        """A noun (or name, or pronoun) introduced in one of these manners."""
        if concept in NAMES or concept in PRONOUNS:
            return NounPhrase(concept)
        if concept in STUDIES or concept in TOWNS:
            return NounPhrase(concept, "every")
        if concept in FAMILY:
            return NounPhrase(concept, owner=self.owner(("pronoun", "pronoun", "pronoun", "name")))
        adjectives = self.adjectives(concept) if self.optionally(0.24) else ()
        choice = self.random.one(determiners)
        if choice == "number":
            return NounPhrase(concept, self.several(), adjectives=adjectives)
        if choice == "owner" and concept not in FREE:
            number = self.several() if self.random.with_probability(0.15) and concept not in SITE_NOUNS else "one"
            return NounPhrase(concept, number, owner=self.owner(), adjectives=adjectives)
        if choice in ("which", "owner"):
            number = "one" if concept in SITE_NOUNS else self._how_many(concept)
            return NounPhrase(concept, number, self.random.one(("this", "that")), adjectives=adjectives)
        if choice == "many" and PORTIONS.get(concept, "pair") != "pair":
            choice = "some"
        return NounPhrase(concept, choice, adjectives=adjectives)

    def several(self) -> str:
        """A number from two to ten, the small ones more often."""
        return NUMBERS[int(self.random.number() ** 2 * len(NUMBERS))]

    def _how_many(self, concept: str) -> str:
        """For this and that: mostly one; these only for what can be counted without a cup."""
        chance = self.random.number()
        if chance < 0.6:
            return "one"
        if chance < 0.85:
            return "plural" if PORTIONS.get(concept, "pair") == "pair" else "one"
        return self.several()

    def owner(self, kinds: Sequence[str] = ("pronoun",) * 6 + ("name",) * 2 + ("family",) * 2) -> NounPhrase:
        """I, you, Mary, my mother."""
        kind = self.random.one(kinds)
        concept = self.random.one(CLASSES[kind])
        return (
            NounPhrase(concept, owner=NounPhrase(self.random.one(WEIGHTED_PRONOUNS)))
            if kind == "family"
            else NounPhrase(concept)
        )

    def adjectives(self, concept: str) -> tuple[str, ...]:
        """One adjective, or an opinion and a size: a beautiful new dress."""
        if concept not in ANY_QUALITY:
            return ()
        options = ANY_QUALITY[concept]
        first = self.random.one(options)
        sizes = [quality for quality in options if quality in SIZES] if first in OPINIONS else []
        if sizes and self.optionally(0.35):
            return (first, self.random.one(sizes))
        return (first,)

    def with_second(self, noun_phrase: NounPhrase, options: Sequence[str], determiners: Sequence[str]) -> NounPhrase:
        """Something *and something else* of the same sort, introduced in the same manner."""
        kind = CLASS_OF.get(noun_phrase.concept)
        alike = [concept for concept in options if CLASS_OF.get(concept) == kind and concept != noun_phrase.concept]
        if not alike or kind == "pronoun" or noun_phrase.clause:
            return noun_phrase
        concept = self.random.one(alike)
        second = self.noun(concept, determiners)
        same = (second.number == "every") == (noun_phrase.number == "every")
        return noun_phrase._replace(second=second) if same else noun_phrase

    def site(self) -> Place:
        """Where people are: at home, in the park."""
        return self.random.one(SITES)

    def spot(self) -> Place:
        """Where things are: on the table, behind the door."""
        relation = self.random.one(("on", "on", "on", "in", "in", "under", "under", "behind", "beside"))
        return Place(self.random.one(SURFACES[relation]), relation)
