"""Drawing whole sentences at random: deeds, qualities, what is what and where, and two clauses joined."""

from __future__ import annotations

import numpy as np

from seq2see.sources.pocket.concepts import ADJECTIVES, CLASSES, PORTIONS, PRONOUNS, VERBS, Adjective, members
from seq2see.sources.pocket.meaning import Clause, CompoundSentence, Meaning, NounPhrase, Place, content_words
from seq2see.sources.pocket.sample_noun_phrases import (
    ANIMALS,
    CLASS_OF,
    COUNTED_DETERMINERS,
    DEFINITE_DETERMINERS,
    WEIGHTED_PRONOUNS,
)
from seq2see.sources.pocket.sample_verb_clauses import BY_NAME, TIMES, VerbClauseSampler
from seq2see.sources.pocket.transformations import Transformations

COMMON = ("have", "like", "buy", "want", "give", "ride", "teach")
WEIGHTED_VERBS = [*VERBS, *(deed for deed in VERBS if deed.concept in COMMON)]
FEELINGS = [quality for quality in ADJECTIVES if quality.kind == "feeling"]
STANDING = [quality for quality in ADJECTIVES if quality.kind != "colour"]
COLOURS = frozenset(quality.concept for quality in ADJECTIVES if quality.kind == "colour")
TOO_MUCH = {"busy", "tired", "sad", "hungry", "lazy", "fat", "big", "small", "old", "expensive", "dirty", "heavy"}
TOO_MUCH |= {"long", "short", "sweet", "hot", "cold"}
ANY_DETERMINERS = ("every", *DEFINITE_DETERMINERS)
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


class SentenceSampler(VerbClauseSampler):
    """Draws meanings of every kind."""

    def __init__(self, generator: np.random.Generator, detail: float = 1.0):
        super().__init__(generator, detail)
        self.transform = Transformations(self.random)

    def sentence(self) -> Meaning:
        """Any sentence of the language in which nobody and nothing is named twice."""
        while True:
            meaning = self.any_sentence()
            nouns = [word for role, word in content_words(meaning) if role not in ("verb", "quality")]
            if isinstance(meaning, CompoundSentence) or len(set(nouns)) == len(nouns):
                return meaning

    def any_sentence(self) -> Meaning:
        """A statement or a question of any kind, or two statements joined."""
        chance = self.random.number()
        if chance < 0.65:
            return self.transform(self.deed(self.random.one(WEIGHTED_VERBS)))
        if chance < 0.77:
            return self.transform(self.quality(self.random.one(STANDING)))
        if chance < 0.83:
            return self.transform(self.identity())
        if chance < 0.89:
            return self.transform(self.location())
        if chance < 0.95:
            return self.transform(self.existence())
        return self.compound_sentence()

    def compound_sentence(self) -> CompoundSentence:
        """A contrast or a reason."""
        return self.contrast() if self.random.with_probability(0.5) else self.reason()

    def quality(self, quality: Adjective) -> Clause:
        """Somebody or something is somehow."""
        concept = self.random.one(quality.nouns)
        feeling = quality.kind == "feeling"
        determiners = ANY_DETERMINERS if concept in ANIMALS or concept in CLASSES["fruit"] else DEFINITE_DETERMINERS
        if feeling and self.random.with_probability(0.5):
            subject = NounPhrase(self.random.one(WEIGHTED_PRONOUNS))
        elif self.optionally(0.05) and concept in BY_NAME["like"].objects:
            subject = self.described(concept)
        else:
            subject = self.noun_phrases.noun(concept, determiners)
        # "This big cat is small" would be odd: only a colour may go with another quality.
        subject = subject._replace(adjectives=tuple(word for word in subject.adjectives if word in COLOURS))
        degrees = ("very", "too") if quality.concept in TOO_MUCH else ("very",)
        degree = self.random.one(degrees) if self.optionally(0.25) else ""
        clause = Clause("be", subject, quality=quality.concept, degree=degree)
        if feeling and self.optionally(0.35):
            tense = self.random.one(("present", "past", "past", "future"))
            time = "today" if tense == "present" else self.random.one(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time, degree="" if tense == "future" else degree)
        return clause

    def identity(self) -> Clause:
        """She is a teacher; we are students; Tom is my friend."""
        if self.random.with_probability(0.5):
            return self.naming()
        subject = self.noun_phrases.agent()
        several = subject.concept in ("we", "they") or subject.second or subject.number != "one"
        job = self.random.with_probability(0.7)
        concept = self.random.one(CLASSES["job"] if job else ("friend", "classmate", "neighbour"))
        what = self.noun_phrases.noun(concept, ("every",) if several else ("one",) if job else ("owner",))
        return Clause("be", subject, what if several else what._replace(number="one"))

    def naming(self) -> Clause:
        """This is a pen; those are my shoes."""
        this = self.random.one(("this", "that"))
        concept = self.random.one(STAY)
        if self.random.with_probability(0.2) and concept not in PORTIONS:
            return Clause("be", NounPhrase(this, "plural"), self.noun_phrases.noun(concept, ("every",)))
        determiners = ("one", "one", "owner") if concept not in PORTIONS else ("owner",)
        noun_phrase = self.described(concept) if self.optionally(0.12) else self.noun_phrases.noun(concept, determiners)
        several = concept in PORTIONS or (noun_phrase.owner is not None and noun_phrase.number != "one")
        return Clause("be", NounPhrase(this, "plural" if several else "one"), noun_phrase)

    def location(self) -> Clause:
        """My book is on the table; Mary was at home yesterday."""
        if self.random.with_probability(0.5):
            concept = self.random.one(STAY + PETS)
            noun_phrase = (
                self.described(concept)
                if self.optionally(0.08)
                else self.noun_phrases.noun(concept, DEFINITE_DETERMINERS)
            )
            return Clause("be", noun_phrase, place=self.noun_phrases.spot())
        clause = Clause("be", self.noun_phrases.agent(), place=self.noun_phrases.site())
        if self.optionally(0.5):
            tense = self.random.one(("present", "past", "past", "future"))
            time = "now" if tense == "present" else self.random.one(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time)
        return clause

    def existence(self) -> Clause:
        """There is a book on the table."""
        if self.random.with_probability(0.55):
            noun_phrase, place = self.random.one(STAY + PETS), self.noun_phrases.spot()
        else:
            things, places = self.random.one(((INSIDE, BUILDINGS), (OUTSIDE, CLASSES["outdoors"])))
            noun_phrase, place = self.random.one(things), Place(self.random.one(places))
        return Clause("exist", object=self.noun_phrases.noun(noun_phrase, COUNTED_DETERMINERS), place=place)

    def contrast(self) -> CompoundSentence:
        """I like apples, but Mary does not like pears."""
        if self.random.with_probability(0.3):
            first, second = self.quality(self.random.one(FEELINGS)), self.quality(self.random.one(FEELINGS))
            return CompoundSentence("but", first, self.transform.negative(second._replace(tense=first.tense, time="")))
        deed = BY_NAME[self.random.one(CONTRASTED)]
        first = self.deed(deed)._replace(adverb="")
        if first.tense == "now":
            first = first._replace(tense="past", time="yesterday")
        assert first.subject
        assert first.object
        same = first.subject.concept in PRONOUNS and self.random.with_probability(0.6)
        subject = first.subject if same else self.noun_phrases.agent(deed.agents)
        second = Clause(first.verb, subject, tense=first.tense, modal=first.modal)
        concept = first.object.concept
        kind = CLASS_OF.get(concept)
        alike = [other for other in deed.objects if other != concept and CLASS_OF.get(other) == kind]
        if alike and concept not in PRONOUNS:
            noun_phrase = self.noun_phrases.noun(self.random.one(alike), self.determiners(deed, second))
        else:
            noun_phrase = self.object_of(deed, second)
        return CompoundSentence("but", first, self.transform.negative(second._replace(object=noun_phrase)))

    def reason(self) -> CompoundSentence:
        """Mary is happy because I gave her a book."""
        feeling = self.random.one([quality for quality in FEELINGS if quality.concept in CAUSES])
        effect = self.quality(feeling)._replace(time="", tense="present")
        cause = self.deed(BY_NAME[self.random.one(CAUSES[feeling.concept])])
        if cause.modal:
            cause = cause._replace(modal="", tense="past", time="yesterday")
        return CompoundSentence("because", effect, cause)
