"""Transformations of a statement: negation, yes-no question, wh-question.

They leave the translation a function: each source has one target. A negated "a pen" has no 一支 in Chinese (我没有笔),
so the same Chinese must not also mean "pens": after 没有 there is only "a", after other negations only "pens".
"""

from __future__ import annotations

from seq2see.data.generated.pocket.concepts import NAMES, PORTIONS, members
from seq2see.data.generated.pocket.meaning import Clause, NounPhrase, Place
from seq2see.data.generated.pocket.sample_noun_phrases import SITE_NOUNS, RandomChoice

PERSONS = frozenset(members("pronoun+name+family+people"))
UNIQUE = frozenset(members("pronoun+name+family"))
NEVER_COUNTED = frozenset(members("pronoun+name+family+job"))
SINGULAR = frozenset(["I", "he", "she", "this", "that", *NAMES])
NUMBERLESS = ("every", "plural", "some", "many")


class Transformations:
    """A call applies a random transformation to a clause; each method applies a particular one."""

    def __init__(self, random: RandomChoice):
        self.random = random

    def __call__(self, clause: Clause) -> Clause:
        """The clause itself in most cases, else its negation or a question."""
        chance = self.random.uniform()
        if chance < 0.62:
            return clause
        if chance < 0.76:
            return clause if clause.tense == "now" else self.negative(clause)
        if chance < 0.88:
            return clause if clause.degree or clause.adverb else self.to_listener(clause)._replace(polar_question=True)
        return self.wh_question(clause)

    def negative(self, clause: Clause) -> Clause:
        """The negated clause."""
        noun_phrase = clause.object
        if noun_phrase:
            noun_phrase = self._negated_object(clause, noun_phrase)
        time = "" if clause.time == "every-day" else clause.time
        return clause._replace(object=noun_phrase, time=time, negated=True, degree="", adverb="")

    def _negated_object(self, clause: Clause, noun_phrase: NounPhrase) -> NounPhrase:
        if noun_phrase.determiner or noun_phrase.owner or noun_phrase.concept in UNIQUE:
            return noun_phrase._replace(second=None)
        if clause.verb == "be":
            return noun_phrase
        if clause.verb in ("have", "exist"):
            return noun_phrase._replace(number="every" if noun_phrase.concept in PORTIONS else "one", second=None)
        if noun_phrase.concept in PERSONS or noun_phrase.concept in SITE_NOUNS:
            return NounPhrase(noun_phrase.concept, determiner="that", adjectives=noun_phrase.adjectives)
        return noun_phrase._replace(number="every", second=None)

    def to_listener(self, clause: Clause) -> Clause:
        """The clause with you or they as its subject: a question is not about the speaker."""
        if clause.subject and clause.subject.concept in ("I", "we"):
            other = "you" if clause.subject.concept == "I" else "they"
            if clause.object and clause.object.concept == other:
                return clause
            return clause._replace(subject=NounPhrase(other))
        return clause

    def wh_question(self, clause: Clause) -> Clause:
        """A question about one of the parts: who, what, how many, where, when."""
        options = [question for question in self._questions(clause._replace(degree="", adverb="")) if question]
        return self.to_listener(self.random.choice(options)) if options else clause

    def _questions(self, clause: Clause) -> list[Clause | None]:
        if clause.verb == "exist":
            return [clause._replace(object=NounPhrase("what"))]
        if clause.verb == "be" and clause.adjective:
            return [clause._replace(subject=NounPhrase("who")) if self._personal(clause.subject) else None]
        if clause.verb == "be":
            return self._copula_questions(clause)
        who = clause._replace(subject=NounPhrase("who"))
        return [who, self._what(clause), self._how_many(clause), self._where(clause), self._when(clause)]

    def _copula_questions(self, clause: Clause) -> list[Clause | None]:
        noun_phrase, subject = clause.object, clause.subject
        assert subject
        if clause.place:
            who = clause._replace(subject=NounPhrase("who")) if self._personal(subject) else None
            return [clause._replace(place=Place("where", "at")), who]
        if not noun_phrase or subject.concept not in SINGULAR or subject.number != "one" or subject.second:
            return []
        if subject.concept in ("this", "that"):
            whose = noun_phrase._replace(owner=NounPhrase("who"), number="one", determiner="", clause=None)
            return [Clause("be", subject, NounPhrase("what")), Clause("be", subject, whose)]
        return [Clause("be", subject, NounPhrase("who"))]

    def _personal(self, subject: NounPhrase | None) -> bool:
        return subject is not None and subject.concept in PERSONS

    def _what(self, clause: Clause) -> Clause | None:
        noun_phrase = clause.object
        if not noun_phrase:
            return None
        return clause._replace(object=NounPhrase("who" if noun_phrase.concept in PERSONS else "what"))

    def _how_many(self, clause: Clause) -> Clause | None:
        noun_phrase = clause.object
        if not noun_phrase or clause.modal or noun_phrase.concept in NEVER_COUNTED:
            return None
        if noun_phrase.determiner or noun_phrase.owner or noun_phrase.second or noun_phrase.number in NUMBERLESS:
            return None
        return clause._replace(object=noun_phrase._replace(number="how-many"))

    def _where(self, clause: Clause) -> Clause | None:
        if clause.goal:
            return clause._replace(goal=Place("where"))
        if clause.verb in ("visit", "tidy") or clause.recipient or clause.modal:
            return None
        if clause.tense == "future" or (clause.tense == "present" and clause.place):
            return clause._replace(place=Place("where", "at"))
        return None

    def _when(self, clause: Clause) -> Clause | None:
        timeless = clause.tense != "present" or clause.modal or not clause.time
        return None if timeless else clause._replace(time="when")
