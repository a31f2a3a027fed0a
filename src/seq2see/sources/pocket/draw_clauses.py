"""Drawing whole sentences at random: deeds, qualities, what is what and where, and two clauses joined."""

from __future__ import annotations

import numpy as np

from seq2see.sources.pocket.concepts import CLASSES, DEEDS, PORTIONS, PRONOUNS, QUALITIES, Quality, members
from seq2see.sources.pocket.draw_deeds import BY_NAME, TIMES, Deeds
from seq2see.sources.pocket.draw_things import ANIMALS, CLASS_OF, COUNTED, HEARD, KNOWN
from seq2see.sources.pocket.draw_turns import Turns
from seq2see.sources.pocket.meaning import Clause, Join, Meaning, Place, Thing, content

COMMON = ("have", "like", "buy", "want", "give", "ride", "teach")
VERBS = [*DEEDS, *(deed for deed in DEEDS if deed.concept in COMMON)]
FEELINGS = [quality for quality in QUALITIES if quality.kind == "feeling"]
STANDING = [quality for quality in QUALITIES if quality.kind != "colour"]
COLOURS = frozenset(quality.concept for quality in QUALITIES if quality.kind == "colour")
TOO_MUCH = {"busy", "tired", "sad", "hungry", "lazy", "fat", "big", "small", "old", "expensive", "dirty", "heavy"}
TOO_MUCH |= {"long", "short", "sweet", "hot", "cold"}
EVERYTHING = ("every", *KNOWN)
BUILDINGS = members("building")
STAY = members("goods+paper+picture+clothes+fruit")
INSIDE = members("goods+paper+people+fruit")
OUTSIDE = members("animal+plant+people")
PETS = ("cat", "dog", "mouse", "bird", "rabbit")
CONTRASTED = ("like", "love", "have", "need", "want", "know", "eat", "drink", "buy", "read", "find", "bring")
CAUSES = {
    "happy": ("like", "love", "have", "find", "give", "buy", "meet", "see"),
    "sad": ("miss", "lose", "need", "sell"),
    "angry": ("lose", "take", "sell", "use"),
    "busy": ("repair", "help", "write", "cook", "make"),
    "tired": ("carry", "repair", "wash", "seek", "help"),
}


class Clauses(Deeds):
    """Draws meanings of every kind."""

    def __init__(self, generator: np.random.Generator, richness: float = 1.0):
        super().__init__(generator, richness)
        self.turned = Turns(self.draw)

    def sentence(self) -> Meaning:
        """Any sentence of the language in which nobody and nothing is named twice."""
        while True:
            meaning = self.any_sentence()
            nouns = [word for role, word in content(meaning) if role not in ("verb", "quality")]
            if isinstance(meaning, Join) or len(set(nouns)) == len(nouns):
                return meaning

    def any_sentence(self) -> Meaning:
        """A statement or a question of any kind, or two statements joined."""
        chance = self.draw.number()
        if chance < 0.65:
            return self.turned(self.deed(self.draw.one(VERBS)))
        if chance < 0.77:
            return self.turned(self.quality(self.draw.one(STANDING)))
        if chance < 0.83:
            return self.turned(self.identity())
        if chance < 0.89:
            return self.turned(self.location())
        if chance < 0.95:
            return self.turned(self.existence())
        return self.two_clauses()

    def two_clauses(self) -> Join:
        """A contrast or a reason."""
        return self.contrast() if self.draw.maybe(0.5) else self.reason()

    def quality(self, quality: Quality) -> Clause:
        """Somebody or something is somehow."""
        concept = self.draw.one(quality.nouns)
        feeling = quality.kind == "feeling"
        manner = EVERYTHING if concept in ANIMALS or concept in CLASSES["fruit"] else KNOWN
        if feeling and self.draw.maybe(0.5):
            subject = Thing(self.draw.one(HEARD))
        elif self.often(0.05) and concept in BY_NAME["like"].objects:
            subject = self.described(concept)
        else:
            subject = self.things.noun(concept, manner)
        # "This big cat is small" would be odd: only a colour may go with another quality.
        subject = subject._replace(qualities=tuple(word for word in subject.qualities if word in COLOURS))
        degrees = ("very", "too") if quality.concept in TOO_MUCH else ("very",)
        degree = self.draw.one(degrees) if self.often(0.25) else ""
        clause = Clause("be", subject, quality=quality.concept, degree=degree)
        if feeling and self.often(0.35):
            tense = self.draw.one(("present", "past", "past", "future"))
            time = "today" if tense == "present" else self.draw.one(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time, degree="" if tense == "future" else degree)
        return clause

    def identity(self) -> Clause:
        """She is a teacher; we are students; Tom is my friend."""
        if self.draw.maybe(0.5):
            return self.naming()
        subject = self.things.doer()
        several = subject.concept in ("we", "they") or subject.second or subject.number != "one"
        job = self.draw.maybe(0.7)
        concept = self.draw.one(CLASSES["job"] if job else ("friend", "classmate", "neighbour"))
        what = self.things.noun(concept, ("every",) if several else ("one",) if job else ("owner",))
        return Clause("be", subject, what if several else what._replace(number="one"))

    def naming(self) -> Clause:
        """This is a pen; those are my shoes."""
        this = self.draw.one(("this", "that"))
        concept = self.draw.one(STAY)
        if self.draw.maybe(0.2) and concept not in PORTIONS:
            return Clause("be", Thing(this, "plural"), self.things.noun(concept, ("every",)))
        manner = ("one", "one", "owner") if concept not in PORTIONS else ("owner",)
        thing = self.described(concept) if self.often(0.12) else self.things.noun(concept, manner)
        several = concept in PORTIONS or (thing.owner is not None and thing.number != "one")
        return Clause("be", Thing(this, "plural" if several else "one"), thing)

    def location(self) -> Clause:
        """My book is on the table; Mary was at home yesterday."""
        if self.draw.maybe(0.5):
            concept = self.draw.one(STAY + PETS)
            thing = self.described(concept) if self.often(0.08) else self.things.noun(concept, KNOWN)
            return Clause("be", thing, place=self.things.spot())
        clause = Clause("be", self.things.doer(), place=self.things.site())
        if self.often(0.5):
            tense = self.draw.one(("present", "past", "past", "future"))
            time = "now" if tense == "present" else self.draw.one(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time)
        return clause

    def existence(self) -> Clause:
        """There is a book on the table."""
        if self.draw.maybe(0.55):
            thing, place = self.draw.one(STAY + PETS), self.things.spot()
        else:
            things, places = self.draw.one(((INSIDE, BUILDINGS), (OUTSIDE, CLASSES["outdoors"])))
            thing, place = self.draw.one(things), Place(self.draw.one(places))
        return Clause("exist", object=self.things.noun(thing, COUNTED), place=place)

    def contrast(self) -> Join:
        """I like apples, but Mary does not like pears."""
        if self.draw.maybe(0.3):
            first, second = self.quality(self.draw.one(FEELINGS)), self.quality(self.draw.one(FEELINGS))
            return Join("but", first, self.turned.negative(second._replace(tense=first.tense, time="")))
        deed = BY_NAME[self.draw.one(CONTRASTED)]
        first = self.deed(deed)._replace(adverb="")
        if first.tense == "now":
            first = first._replace(tense="past", time="yesterday")
        assert first.subject
        assert first.object
        same = first.subject.concept in PRONOUNS and self.draw.maybe(0.6)
        subject = first.subject if same else self.things.doer(deed.doers)
        second = Clause(first.verb, subject, tense=first.tense, modal=first.modal)
        concept = first.object.concept
        kind = CLASS_OF.get(concept)
        alike = [other for other in deed.objects if other != concept and CLASS_OF.get(other) == kind]
        if alike and concept not in PRONOUNS:
            thing = self.things.noun(self.draw.one(alike), self.manner(deed, second))
        else:
            thing = self.object_of(deed, second)
        return Join("but", first, self.turned.negative(second._replace(object=thing)))

    def reason(self) -> Join:
        """Mary is happy because I gave her a book."""
        feeling = self.draw.one([quality for quality in FEELINGS if quality.concept in CAUSES])
        effect = self.quality(feeling)._replace(time="", tense="present")
        cause = self.deed(BY_NAME[self.draw.one(CAUSES[feeling.concept])])
        if cause.modal:
            cause = cause._replace(modal="", tense="past", time="yesterday")
        return Join("because", effect, cause)
