"""Drawing deeds at random: who does what to whom, when, where and with whom."""

from __future__ import annotations

import numpy as np

from seq2see.sources.pocket.concepts import CLASSES, DEEDS, PRONOUNS, Deed, members
from seq2see.sources.pocket.draw_things import ANIMALS, COUNTED, GENERAL, KNOWN, NOW, OPEN, Draw, Things
from seq2see.sources.pocket.meaning import Clause, Place, Thing

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
BY_NAME = {deed.concept: deed for deed in DEEDS if deed.objects}
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
TELLING_VERBS = ("like", "love", "want", "need", "have", "seek", "buy", "lose", "borrow", "find", "know")


def others(doer: Thing) -> list[str]:
    """The pronouns that cannot mean the doer too: "I like me" and "he likes him" are left to grammarians."""
    same = {"I": "I we", "we": "I we"}.get(doer.concept, doer.concept).split()
    return [pronoun for pronoun in PRONOUNS if pronoun not in same]


class Deeds:
    """Draws clauses with a full verb. With more richness the same kinds of sentence become longer."""

    def __init__(self, generator: np.random.Generator, richness: float = 1.0):
        self.draw = Draw(generator)
        self.things = Things(self.draw, richness)
        self.often = self.things.often

    def deed(self, deed: Deed) -> Clause:
        """Somebody does something."""
        subject = self.things.doer(deed.doers)
        clause = self.in_time(Clause(deed.concept, subject), deed.kind)
        if deed.concept in MOVES:
            return clause._replace(goal=Place(self.draw.one(deed.objects)))
        if deed.objects:
            thing = self.object_of(deed, clause)
            clause = clause._replace(object=thing)
        if deed.concept in GIVING:
            clause = clause._replace(recipient=self.recipient(subject))
        elif deed.kind == "action":
            clause = self.with_surroundings(clause)
        if clause.tense == "present" and not clause.modal and not clause.time and self.often(0.2):
            clause = clause._replace(adverb=self.draw.one(("often", "always", "also")))
            if deed.kind == "state":
                clause = clause._replace(adverb="also")
        return clause

    def in_time(self, clause: Clause, kind: str) -> Clause:
        """Give a clause its tense, and the time word that shows it."""
        if kind == "state":
            return clause
        tense = self.draw.one(TENSES[kind])
        if tense == "modal":
            return clause._replace(modal=self.draw.one(("can", "should", "want-to", "want-to")))
        if tense == "now":
            return clause._replace(tense=tense, time="now" if self.often(0.3) else "")
        time = "" if tense == "present" and self.draw.maybe(0.45) else self.draw.one(TIMES[tense])
        return clause._replace(tense=tense, time=time)

    def object_of(self, deed: Deed, clause: Clause) -> Thing:
        """What a deed is done to."""
        concept = self.draw.one(deed.objects)
        if deed.concept == "like" and clause.subject and clause.subject.concept in ANIMALS:
            concept = self.draw.one(LIKED_BY_ANIMALS)
        if concept in PRONOUNS and clause.subject:
            concept = self.draw.one(others(clause.subject))
        manner = self.manner(deed, clause)
        if deed.kind == "state" and concept not in PRONOUNS and self.often(0.08):
            return self.described(concept, deed.concept)
        thing = self.things.noun(concept, manner)
        return self.things.with_second(thing, deed.objects, manner) if self.often(0.07) else thing

    def manner(self, deed: Deed, clause: Clause) -> tuple[str, ...]:
        """How the object of a deed is introduced: I like pens, I have a pen, I know that doctor."""
        if deed.concept in DEFINITE_VERBS:
            return KNOWN
        if deed.concept == "have":
            return COUNTED
        if clause.tense == "now":
            return NOW
        habit = clause.tense == "present" and not clause.time and not clause.modal
        return GENERAL if habit or deed.kind == "state" else OPEN

    def described(self, concept: str, verb_before: str = "be") -> Thing:
        """The book that I bought yesterday."""
        makers = [verb for verb in TELLING_VERBS if verb != verb_before and concept in BY_NAME[verb].objects]
        plain = self.things.noun(concept, ("every",))
        if not makers or plain.owner or concept in CLASSES["study"] or plain == Thing(concept):
            return plain
        verb = BY_NAME[self.draw.one(makers)]
        clause = Clause(verb.concept, self.things.named())
        if verb.kind != "state":
            clause = clause._replace(tense="past", time=self.draw.one(TIMES["past"]))
        return Thing(concept, "one", "the", qualities=plain.qualities, clause=clause)

    def recipient(self, giver: Thing) -> Thing:
        """Whom something is given to: somebody else."""
        if self.draw.maybe(0.5):
            return Thing(self.draw.one(others(giver)))
        if self.draw.maybe(0.5):
            return Thing(self.draw.one(CLASSES["name"]))
        return self.things.noun(self.draw.one(RECIPIENTS), KNOWN)

    def with_surroundings(self, clause: Clause) -> Clause:
        """With whom and where."""
        if self.often(0.16):
            clause = clause._replace(place=self.place_of(clause.verb))
        if self.often(0.06) and clause.subject and clause.subject.concept not in ANIMALS:
            companion = self.draw.one(COMPANIONS)
            clause = clause._replace(companion=self.things.noun(companion, ("owner",)))
        return clause

    def place_of(self, verb: str) -> Place | None:
        """Where such a deed is done: one cooks in the kitchen and rides in the park."""
        if verb in NOWHERE_VERBS:
            return None
        if verb in OUTDOOR_VERBS:
            return self.draw.one(OUTDOORS)
        if verb in INDOOR_VERBS:
            return self.draw.one(INDOORS)
        return self.things.site()
