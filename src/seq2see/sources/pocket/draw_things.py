"""Drawing people, things and places at random, in the company they like to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from seq2see.sources.pocket.concepts import (
    CLASSES,
    FAMILY,
    NAMES,
    NUMBERS,
    PORTIONS,
    PRONOUNS,
    QUALITIES,
    STUDIES,
    TOWNS,
    members,
)
from seq2see.sources.pocket.meaning import Place, Thing

Option = TypeVar("Option")


def _numbers(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(4096).tolist()


class Draw:
    """Cheap random choices: numbers are taken from a generator by the thousand."""

    def __init__(self, generator: np.random.Generator):
        self.number: Callable[[], float] = _numbers(generator).__next__
        """A number from [0, 1)."""

    def maybe(self, probability: float) -> bool:
        """True this often."""
        return self.number() < probability

    def one(self, options: Sequence[Option]) -> Option:
        """One of several, all equally likely; write an option twice to make it twice as likely."""
        return options[int(self.number() * len(options))]


def _qualities_of(kinds: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    described: dict[str, list[str]] = {}
    for quality in QUALITIES:
        if quality.kind in kinds:
            for noun in quality.nouns:
                described.setdefault(noun, []).append(quality.concept)
    return {noun: tuple(qualities) for noun, qualities in described.items()}


ANY_QUALITY = _qualities_of(("feeling", "trait", "colour"))
OPINIONS = frozenset(["cute", "beautiful", "interesting", "useful", "famous", "delicious"])
SIZES = frozenset(["big", "small", "new", "old", "long", "short"])

HEARD = ("I", "I", "you", "he", "he", "she", "she", "we", "they")
"""The pronouns, as often as one hears them."""

# How a noun is introduced depends on what is said about it: "I like pens", "I have a pen", "this pen is red".
OPEN = ("one",) * 6 + ("number",) * 3 + ("every",) * 3 + ("which",) * 4 + ("owner",) * 3 + ("some", "many")
GENERAL = ("every",) * 6 + ("which",) * 2 + ("owner",) * 2
COUNTED = ("one",) * 8 + ("number",) * 5 + ("some", "many")
NOW = ("one",) * 5 + ("which",) * 3 + ("owner",) * 3 + ("number", "number", "some")
KNOWN = ("which",) * 5 + ("owner",) * 4

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


class Things:
    """Draws nouns with all that belongs to them; `richness` multiplies how often something is added."""

    def __init__(self, draw: Draw, richness: float = 1.0):
        self.draw, self.richness = draw, richness

    def often(self, probability: float) -> bool:
        """Whether to add something that is not needed."""
        return self.draw.number() < probability * self.richness

    def named(self) -> Thing:
        """Somebody known by name or by a pronoun."""
        return Thing(self.draw.one(self.draw.one((HEARD, HEARD, CLASSES["name"]))))

    def doer(self, who: str = "people") -> Thing:
        """Somebody who can do something, or (who = "living") perhaps an animal."""
        chance = self.draw.number()
        if who == "living" and chance < 0.35:
            return self.noun(self.draw.one(ANIMALS), KNOWN)
        if chance < 0.55:
            return Thing(self.draw.one(HEARD))
        if chance < 0.75:
            name = Thing(self.draw.one(CLASSES["name"]))
            if self.often(0.15):
                other = self.draw.one(CLASSES["name"])
                name = name._replace(second=Thing(other)) if other != name.concept else name
            return name
        if chance < 0.87:
            return self.noun(self.draw.one(CLASSES["family"]), KNOWN)
        return self.noun(self.draw.one(PEOPLE), KNOWN)

    def noun(self, concept: str, manner: Sequence[str]) -> Thing:
        """A noun (or name, or pronoun) introduced in one of these manners."""
        if concept in NAMES or concept in PRONOUNS:
            return Thing(concept)
        if concept in STUDIES or concept in TOWNS:
            return Thing(concept, "every")
        if concept in FAMILY:
            return Thing(concept, owner=self.owner(("pronoun", "pronoun", "pronoun", "name")))
        qualities = self.qualities(concept) if self.often(0.24) else ()
        choice = self.draw.one(manner)
        if choice == "number":
            return Thing(concept, self.several(), qualities=qualities)
        if choice == "owner" and concept not in FREE:
            number = self.several() if self.draw.maybe(0.15) and concept not in SITE_NOUNS else "one"
            return Thing(concept, number, owner=self.owner(), qualities=qualities)
        if choice in ("which", "owner"):
            number = "one" if concept in SITE_NOUNS else self._how_many(concept)
            return Thing(concept, number, self.draw.one(("this", "that")), qualities=qualities)
        if choice == "many" and PORTIONS.get(concept, "pair") != "pair":
            choice = "some"
        return Thing(concept, choice, qualities=qualities)

    def several(self) -> str:
        """A number from two to ten, the small ones more often."""
        return NUMBERS[int(self.draw.number() ** 2 * len(NUMBERS))]

    def _how_many(self, concept: str) -> str:
        """For this and that: mostly one; these only for what can be counted without a cup."""
        chance = self.draw.number()
        if chance < 0.6:
            return "one"
        if chance < 0.85:
            return "plural" if PORTIONS.get(concept, "pair") == "pair" else "one"
        return self.several()

    def owner(self, kinds: Sequence[str] = ("pronoun",) * 6 + ("name",) * 2 + ("family",) * 2) -> Thing:
        """I, you, Mary, my mother."""
        kind = self.draw.one(kinds)
        concept = self.draw.one(CLASSES[kind])
        return Thing(concept, owner=Thing(self.draw.one(HEARD))) if kind == "family" else Thing(concept)

    def qualities(self, concept: str) -> tuple[str, ...]:
        """One adjective, or an opinion and a size: a beautiful new dress."""
        if concept not in ANY_QUALITY:
            return ()
        options = ANY_QUALITY[concept]
        first = self.draw.one(options)
        sizes = [quality for quality in options if quality in SIZES] if first in OPINIONS else []
        if sizes and self.often(0.35):
            return (first, self.draw.one(sizes))
        return (first,)

    def with_second(self, thing: Thing, options: Sequence[str], manner: Sequence[str]) -> Thing:
        """Something *and something else* of the same sort, introduced in the same manner."""
        kind = CLASS_OF.get(thing.concept)
        alike = [concept for concept in options if CLASS_OF.get(concept) == kind and concept != thing.concept]
        if not alike or kind == "pronoun" or thing.clause:
            return thing
        concept = self.draw.one(alike)
        second = self.noun(concept, manner)
        same = (second.number == "every") == (thing.number == "every")
        return thing._replace(second=second) if same else thing

    def site(self) -> Place:
        """Where people are: at home, in the park."""
        return self.draw.one(SITES)

    def spot(self) -> Place:
        """Where things are: on the table, behind the door."""
        relation = self.draw.one(("on", "on", "on", "in", "in", "under", "under", "behind", "beside"))
        return Place(self.draw.one(SURFACES[relation]), relation)
