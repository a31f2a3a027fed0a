"""Sampling noun phrases and places: people, animals and objects with determiners, numbers and adjectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from seq2see.data.generated.pocket.meaning import (
    ADJECTIVES,
    CLASSES,
    FAMILY,
    NAMES,
    NUMBERS,
    PORTIONS,
    PRONOUNS,
    STUDIES,
    TOWNS,
    NounPhrase,
    Place,
    members,
)

Option = TypeVar("Option")


def _numbers(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(4096).tolist()


class RandomChoice:
    """Cheap random choices: random numbers are generated in blocks of 4,096."""

    def __init__(self, generator: np.random.Generator):
        self.uniform: Callable[[], float] = _numbers(generator).__next__
        """A number from [0, 1)."""

    def with_probability(self, probability: float) -> bool:
        """True with this probability."""
        return self.uniform() < probability

    def choice(self, options: Sequence[Option]) -> Option:
        """One of the options, all equally likely; an option that is listed twice is twice as likely."""
        return options[int(self.uniform() * len(options))]


def _adjectives_by_noun(kinds: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    adjectives_of: dict[str, list[str]] = {}
    for adjective in ADJECTIVES:
        if adjective.kind in kinds:
            for noun in adjective.nouns:
                adjectives_of.setdefault(noun, []).append(adjective.concept)
    return {noun: tuple(adjectives) for noun, adjectives in adjectives_of.items()}


ADJECTIVES_OF = _adjectives_by_noun(("feeling", "trait", "color"))
OPINIONS = frozenset(["cute", "beautiful", "interesting", "useful", "famous", "delicious"])
SIZES = frozenset(["big", "small", "new", "old", "long", "short"])

WEIGHTED_PRONOUNS = ("I", "I", "you", "he", "he", "she", "she", "we", "they")
"""The pronouns, roughly by their frequency in speech."""

# The determiner depends on the clause: "I like pens", "I have a pen", "this pen is red".
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
"""Nouns without a possessive: one does not say "my village"."""
PEOPLE = members("people")
ANIMALS = members("animal")
CLASS_OF = {concept: name for name, concepts in CLASSES.items() for concept in concepts}


class NounPhraseSampler:
    """Samples nouns with their modifiers; `detail` multiplies the probability of each optional modifier."""

    def __init__(self, random: RandomChoice, detail: float = 1.0):
        self.random, self.detail = random, detail

    def optionally(self, probability: float) -> bool:
        """Whether to add an optional modifier."""
        return self.random.uniform() < probability * self.detail

    def named(self) -> NounPhrase:
        """A person as a name or a pronoun."""
        concepts = self.random.choice((WEIGHTED_PRONOUNS, WEIGHTED_PRONOUNS, CLASSES["name"]))
        return NounPhrase(self.random.choice(concepts))

    def agent(self, kind: str = "people") -> NounPhrase:
        """A person, or (kind = "living") a person or an animal."""
        chance = self.random.uniform()
        if kind == "living" and chance < 0.35:
            return self.noun(self.random.choice(ANIMALS), DEFINITE_DETERMINERS)
        if chance < 0.55:
            return NounPhrase(self.random.choice(WEIGHTED_PRONOUNS))
        if chance < 0.75:
            name = NounPhrase(self.random.choice(CLASSES["name"]))
            if self.optionally(0.15):
                other = self.random.choice(CLASSES["name"])
                name = name._replace(second=NounPhrase(other)) if other != name.concept else name
            return name
        if chance < 0.87:
            return self.noun(self.random.choice(CLASSES["family"]), DEFINITE_DETERMINERS)
        return self.noun(self.random.choice(PEOPLE), DEFINITE_DETERMINERS)

    def noun(self, concept: str, determiners: Sequence[str]) -> NounPhrase:
        """A noun (or name, or pronoun) with one of these determiners."""
        if concept in NAMES or concept in PRONOUNS:
            return NounPhrase(concept)
        if concept in STUDIES or concept in TOWNS:
            return NounPhrase(concept, "every")
        if concept in FAMILY:
            return NounPhrase(concept, owner=self.owner(("pronoun", "pronoun", "pronoun", "name")))
        adjectives = self.adjectives(concept) if self.optionally(0.24) else ()
        determiner = self.random.choice(determiners)
        if determiner == "number":
            return NounPhrase(concept, self.several(), adjectives=adjectives)
        if determiner == "owner" and concept not in FREE:
            number = self.several() if self.random.with_probability(0.15) and concept not in SITE_NOUNS else "one"
            return NounPhrase(concept, number, owner=self.owner(), adjectives=adjectives)
        if determiner in ("which", "owner"):
            number = "one" if concept in SITE_NOUNS else self._how_many(concept)
            return NounPhrase(concept, number, self.random.choice(("this", "that")), adjectives=adjectives)
        if determiner == "many" and PORTIONS.get(concept, "pair") != "pair":
            determiner = "some"
        return NounPhrase(concept, determiner, adjectives=adjectives)

    def several(self) -> str:
        """A number from two to ten, the small ones more often."""
        return NUMBERS[int(self.random.uniform() ** 2 * len(NUMBERS))]

    def _how_many(self, concept: str) -> str:
        """The number after this and that: mostly one; the plural only for count nouns."""
        chance = self.random.uniform()
        if chance < 0.6:
            return "one"
        if chance < 0.85:
            return "plural" if PORTIONS.get(concept, "pair") == "pair" else "one"
        return self.several()

    def owner(self, kinds: Sequence[str] = ("pronoun",) * 6 + ("name",) * 2 + ("family",) * 2) -> NounPhrase:
        """I, you, Mary, my mother."""
        kind = self.random.choice(kinds)
        concept = self.random.choice(CLASSES[kind])
        return (
            NounPhrase(concept, owner=NounPhrase(self.random.choice(WEIGHTED_PRONOUNS)))
            if kind == "family"
            else NounPhrase(concept)
        )

    def adjectives(self, concept: str) -> tuple[str, ...]:
        """One adjective, or an opinion and a size: a beautiful new dress."""
        if concept not in ADJECTIVES_OF:
            return ()
        options = ADJECTIVES_OF[concept]
        first = self.random.choice(options)
        sizes = [adjective for adjective in options if adjective in SIZES] if first in OPINIONS else []
        if sizes and self.optionally(0.35):
            return (first, self.random.choice(sizes))
        return (first,)

    def with_second(self, noun_phrase: NounPhrase, options: Sequence[str], determiners: Sequence[str]) -> NounPhrase:
        """The noun phrase with a second conjunct of the same class and the same determiners."""
        kind = CLASS_OF.get(noun_phrase.concept)
        same_class = [
            concept for concept in options if CLASS_OF.get(concept) == kind and concept != noun_phrase.concept
        ]
        if not same_class or kind == "pronoun" or noun_phrase.clause:
            return noun_phrase
        concept = self.random.choice(same_class)
        second = self.noun(concept, determiners)
        same = (second.number == "every") == (noun_phrase.number == "every")
        return noun_phrase._replace(second=second) if same else noun_phrase

    def site(self) -> Place:
        """A place for people: at home, in the park."""
        return self.random.choice(SITES)

    def spot(self) -> Place:
        """A place for objects: on the table, behind the door."""
        relation = self.random.choice(("on", "on", "on", "in", "in", "under", "under", "behind", "beside"))
        return Place(self.random.choice(SURFACES[relation]), relation)
