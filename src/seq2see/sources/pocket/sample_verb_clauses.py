"""Sampling clauses with a full verb: agent, object, recipient, tense, place and companion."""

from __future__ import annotations

import numpy as np

from seq2see.sources.pocket.concepts import CLASSES, PRONOUNS, VERBS, Verb, members
from seq2see.sources.pocket.meaning import Clause, NounPhrase, Place
from seq2see.sources.pocket.sample_noun_phrases import (
    ANIMALS,
    COUNTED_DETERMINERS,
    DEFINITE_DETERMINERS,
    GENERIC_DETERMINERS,
    OPEN_DETERMINERS,
    PROGRESSIVE_DETERMINERS,
    NounPhraseSampler,
    RandomChoice,
)

TIMES = {
    "past": ("yesterday",) * 4 + ("last-week", "last-week", "last-year"),
    "future": ("tomorrow",) * 4 + ("next-week", "next-week", "next-year"),
    "present": ("every-day", "every-day", "morning", "evening", "weekends", "today"),
}
# The tenses of each aspect class; a tense that is listed twice is twice as likely.
TENSES = {
    "action": ("present",) * 3 + ("now", "now", "past", "past", "future", "modal"),
    "custom": ("present",) * 3 + ("past", "past", "future", "modal"),
    "event": ("past", "past", "past", "future", "future", "modal"),
}
BY_NAME = {verb.concept: verb for verb in VERBS if verb.objects}
MOVES = ("go", "come")
GIVING = ("give", "lend")
LIKED_BY_ANIMALS = members("fruit+vegetable+meal+water+milk+name+pronoun+animal")
COMPANIONS = members("name+family+friend+classmate+neighbour")
RECIPIENTS = members("family+people")
OUTDOORS = tuple(Place(concept) for concept in members("outdoors+town"))
OUTDOOR_VERBS = ("ride", "drive", "plant", "feed", "run", "walk", "swim")
INDOORS = (Place("home", "at"), Place("kitchen"), Place("restaurant"), Place("hotel"))
INDOOR_VERBS = ("cook", "cut", "make", "wash")
NOWHERE_VERBS = ("visit", "tidy", "laugh")
DEFINITE_VERBS = ("visit", "tidy", "know", "miss", "love")
RELATIVE_CLAUSE_VERBS = ("like", "love", "want", "need", "have", "seek", "buy", "lose", "borrow", "find", "know")


def other_pronouns(agent: NounPhrase) -> list[str]:
    """The pronouns that do not refer to the agent: "I like me" and "he likes him" are excluded."""
    same = {"I": "I we", "we": "I we"}.get(agent.concept, agent.concept).split()
    return [pronoun for pronoun in PRONOUNS if pronoun not in same]


class VerbClauseSampler:
    """Samples clauses with a full verb; a larger `detail` makes the same kinds of sentence longer."""

    def __init__(self, generator: np.random.Generator, detail: float = 1.0):
        self.random = RandomChoice(generator)
        self.noun_phrases = NounPhraseSampler(self.random, detail)
        self.optionally = self.noun_phrases.optionally

    def verb_clause(self, verb: Verb) -> Clause:
        """A clause with this verb."""
        subject = self.noun_phrases.agent(verb.agents)
        clause = self.with_tense(Clause(verb.concept, subject), verb.kind)
        if verb.concept in MOVES:
            return clause._replace(goal=Place(self.random.choice(verb.objects)))
        if verb.objects:
            noun_phrase = self.object_of(verb, clause)
            clause = clause._replace(object=noun_phrase)
        if verb.concept in GIVING:
            clause = clause._replace(recipient=self.recipient(subject))
        elif verb.kind == "action":
            clause = self.with_adverbials(clause)
        if clause.tense == "present" and not clause.modal and not clause.time and self.optionally(0.2):
            clause = clause._replace(adverb=self.random.choice(("often", "always", "also")))
            if verb.kind == "state":
                clause = clause._replace(adverb="also")
        return clause

    def with_tense(self, clause: Clause, kind: str) -> Clause:
        """The clause with a tense, and with the time adverbial that expresses it."""
        if kind == "state":
            return clause
        tense = self.random.choice(TENSES[kind])
        if tense == "modal":
            return clause._replace(modal=self.random.choice(("can", "should", "want-to", "want-to")))
        if tense == "now":
            return clause._replace(tense=tense, time="now" if self.optionally(0.3) else "")
        time = "" if tense == "present" and self.random.with_probability(0.45) else self.random.choice(TIMES[tense])
        return clause._replace(tense=tense, time=time)

    def object_of(self, verb: Verb, clause: Clause) -> NounPhrase:
        """The object of a verb."""
        concept = self.random.choice(verb.objects)
        if verb.concept == "like" and clause.subject and clause.subject.concept in ANIMALS:
            concept = self.random.choice(LIKED_BY_ANIMALS)
        if concept in PRONOUNS and clause.subject:
            concept = self.random.choice(other_pronouns(clause.subject))
        determiners = self.determiners(verb, clause)
        if verb.kind == "state" and concept not in PRONOUNS and self.optionally(0.08):
            return self.described(concept, verb.concept)
        noun_phrase = self.noun_phrases.noun(concept, determiners)
        return (
            self.noun_phrases.with_second(noun_phrase, verb.objects, determiners)
            if self.optionally(0.07)
            else noun_phrase
        )

    def determiners(self, verb: Verb, clause: Clause) -> tuple[str, ...]:
        """The determiners of the object of a verb: I like pens, I have a pen, I know that doctor."""
        if verb.concept in DEFINITE_VERBS:
            return DEFINITE_DETERMINERS
        if verb.concept == "have":
            return COUNTED_DETERMINERS
        if clause.tense == "now":
            return PROGRESSIVE_DETERMINERS
        habit = clause.tense == "present" and not clause.time and not clause.modal
        return GENERIC_DETERMINERS if habit or verb.kind == "state" else OPEN_DETERMINERS

    def described(self, concept: str, verb_before: str = "be") -> NounPhrase:
        """A noun with a relative clause: the book that I bought yesterday."""
        verbs = [verb for verb in RELATIVE_CLAUSE_VERBS if verb != verb_before and concept in BY_NAME[verb].objects]
        plain = self.noun_phrases.noun(concept, ("every",))
        if not verbs or plain.owner or concept in CLASSES["study"] or plain == NounPhrase(concept):
            return plain
        verb = BY_NAME[self.random.choice(verbs)]
        clause = Clause(verb.concept, self.noun_phrases.named())
        if verb.kind != "state":
            clause = clause._replace(tense="past", time=self.random.choice(TIMES["past"]))
        return NounPhrase(concept, "one", "the", adjectives=plain.adjectives, clause=clause)

    def recipient(self, giver: NounPhrase) -> NounPhrase:
        """The recipient, who is not the giver."""
        if self.random.with_probability(0.5):
            return NounPhrase(self.random.choice(other_pronouns(giver)))
        if self.random.with_probability(0.5):
            return NounPhrase(self.random.choice(CLASSES["name"]))
        return self.noun_phrases.noun(self.random.choice(RECIPIENTS), DEFINITE_DETERMINERS)

    def with_adverbials(self, clause: Clause) -> Clause:
        """The clause with a place and a companion, each with some probability."""
        if self.optionally(0.16):
            clause = clause._replace(place=self.place_of(clause.verb))
        if self.optionally(0.06) and clause.subject and clause.subject.concept not in ANIMALS:
            companion = self.random.choice(COMPANIONS)
            clause = clause._replace(companion=self.noun_phrases.noun(companion, ("owner",)))
        return clause

    def place_of(self, verb: str) -> Place | None:
        """The place of an action: one cooks in the kitchen and rides in the park."""
        if verb in NOWHERE_VERBS:
            return None
        if verb in OUTDOOR_VERBS:
            return self.random.choice(OUTDOORS)
        if verb in INDOOR_VERBS:
            return self.random.choice(INDOORS)
        return self.noun_phrases.site()
