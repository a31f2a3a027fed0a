"""Drawing deeds at random: who does what to whom, when, where and with whom."""

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
# How a verb may stand in time; written twice, twice as often.
TENSES = {
    "action": ("present",) * 3 + ("now", "now", "past", "past", "future", "modal"),
    "custom": ("present",) * 3 + ("past", "past", "future", "modal"),
    "event": ("past", "past", "past", "future", "future", "modal"),
}
BY_NAME = {deed.concept: deed for deed in VERBS if deed.objects}
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
    """The pronouns that cannot mean the doer too: "I like me" and "he likes him" are left to grammarians."""
    same = {"I": "I we", "we": "I we"}.get(agent.concept, agent.concept).split()
    return [pronoun for pronoun in PRONOUNS if pronoun not in same]


class VerbClauseSampler:
    """Draws clauses with a full verb. With more richness the same kinds of sentence become longer."""

    def __init__(self, generator: np.random.Generator, detail: float = 1.0):
        self.random = RandomChoice(generator)
        self.noun_phrases = NounPhraseSampler(self.random, detail)
        self.optionally = self.noun_phrases.optionally

    def deed(self, deed: Verb) -> Clause:
        """Somebody does something."""
        subject = self.noun_phrases.agent(deed.agents)
        clause = self.with_tense(Clause(deed.concept, subject), deed.kind)
        if deed.concept in MOVES:
            return clause._replace(goal=Place(self.random.one(deed.objects)))
        if deed.objects:
            noun_phrase = self.object_of(deed, clause)
            clause = clause._replace(object=noun_phrase)
        if deed.concept in GIVING:
            clause = clause._replace(recipient=self.recipient(subject))
        elif deed.kind == "action":
            clause = self.with_adverbials(clause)
        if clause.tense == "present" and not clause.modal and not clause.time and self.optionally(0.2):
            clause = clause._replace(adverb=self.random.one(("often", "always", "also")))
            if deed.kind == "state":
                clause = clause._replace(adverb="also")
        return clause

    def with_tense(self, clause: Clause, kind: str) -> Clause:
        """Give a clause its tense, and the time word that shows it."""
        if kind == "state":
            return clause
        tense = self.random.one(TENSES[kind])
        if tense == "modal":
            return clause._replace(modal=self.random.one(("can", "should", "want-to", "want-to")))
        if tense == "now":
            return clause._replace(tense=tense, time="now" if self.optionally(0.3) else "")
        time = "" if tense == "present" and self.random.with_probability(0.45) else self.random.one(TIMES[tense])
        return clause._replace(tense=tense, time=time)

    def object_of(self, deed: Verb, clause: Clause) -> NounPhrase:
        """What a deed is done to."""
        concept = self.random.one(deed.objects)
        if deed.concept == "like" and clause.subject and clause.subject.concept in ANIMALS:
            concept = self.random.one(LIKED_BY_ANIMALS)
        if concept in PRONOUNS and clause.subject:
            concept = self.random.one(other_pronouns(clause.subject))
        determiners = self.determiners(deed, clause)
        if deed.kind == "state" and concept not in PRONOUNS and self.optionally(0.08):
            return self.described(concept, deed.concept)
        noun_phrase = self.noun_phrases.noun(concept, determiners)
        return (
            self.noun_phrases.with_second(noun_phrase, deed.objects, determiners)
            if self.optionally(0.07)
            else noun_phrase
        )

    def determiners(self, deed: Verb, clause: Clause) -> tuple[str, ...]:
        """How the object of a deed is introduced: I like pens, I have a pen, I know that doctor."""
        if deed.concept in DEFINITE_VERBS:
            return DEFINITE_DETERMINERS
        if deed.concept == "have":
            return COUNTED_DETERMINERS
        if clause.tense == "now":
            return PROGRESSIVE_DETERMINERS
        habit = clause.tense == "present" and not clause.time and not clause.modal
        return GENERIC_DETERMINERS if habit or deed.kind == "state" else OPEN_DETERMINERS

    def described(self, concept: str, verb_before: str = "be") -> NounPhrase:
        """The book that I bought yesterday."""
        makers = [verb for verb in RELATIVE_CLAUSE_VERBS if verb != verb_before and concept in BY_NAME[verb].objects]
        plain = self.noun_phrases.noun(concept, ("every",))
        if not makers or plain.owner or concept in CLASSES["study"] or plain == NounPhrase(concept):
            return plain
        verb = BY_NAME[self.random.one(makers)]
        clause = Clause(verb.concept, self.noun_phrases.named())
        if verb.kind != "state":
            clause = clause._replace(tense="past", time=self.random.one(TIMES["past"]))
        return NounPhrase(concept, "one", "the", adjectives=plain.adjectives, clause=clause)

    def recipient(self, giver: NounPhrase) -> NounPhrase:
        """Whom something is given to: somebody else."""
        if self.random.with_probability(0.5):
            return NounPhrase(self.random.one(other_pronouns(giver)))
        if self.random.with_probability(0.5):
            return NounPhrase(self.random.one(CLASSES["name"]))
        return self.noun_phrases.noun(self.random.one(RECIPIENTS), DEFINITE_DETERMINERS)

    def with_adverbials(self, clause: Clause) -> Clause:
        """With whom and where."""
        if self.optionally(0.16):
            clause = clause._replace(place=self.place_of(clause.verb))
        if self.optionally(0.06) and clause.subject and clause.subject.concept not in ANIMALS:
            companion = self.random.one(COMPANIONS)
            clause = clause._replace(companion=self.noun_phrases.noun(companion, ("owner",)))
        return clause

    def place_of(self, verb: str) -> Place | None:
        """Where such a deed is done: one cooks in the kitchen and rides in the park."""
        if verb in NOWHERE_VERBS:
            return None
        if verb in OUTDOOR_VERBS:
            return self.random.one(OUTDOORS)
        if verb in INDOOR_VERBS:
            return self.random.one(INDOORS)
        return self.noun_phrases.site()
