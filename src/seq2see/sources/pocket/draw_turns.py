"""Turning a statement: into a question, into its opposite, or leaving it as it is.

The turns keep the translation a function. A negated "a pen" loses its 一支 in Chinese (我没有笔), so the
same Chinese must not also mean "pens": after 没有 there is only "a", after other negations only "pens".
"""

from __future__ import annotations

from seq2see.sources.pocket.concepts import NAMES, PORTIONS, members
from seq2see.sources.pocket.draw_things import SITE_NOUNS, Draw
from seq2see.sources.pocket.meaning import Clause, Place, Thing

SOMEBODY = frozenset(members("pronoun+name+family+people"))
UNIQUE = frozenset(members("pronoun+name+family"))
NEVER_COUNTED = frozenset(members("pronoun+name+family+job"))
SINGLE = frozenset(["I", "he", "she", "this", "that", *NAMES])
NUMBERLESS = ("every", "plural", "some", "many")


class Turns:
    """Calling it turns a clause at random; the methods turn it on purpose."""

    def __init__(self, draw: Draw):
        self.draw = draw

    def __call__(self, clause: Clause) -> Clause:
        """Mostly leave it, sometimes deny it, sometimes ask."""
        chance = self.draw.number()
        if chance < 0.62:
            return clause
        if chance < 0.76:
            return clause if clause.tense == "now" else self.negative(clause)
        if chance < 0.88:
            return clause if clause.degree or clause.adverb else self.to_listener(clause)._replace(asked=True)
        return self.asking(clause)

    def negative(self, clause: Clause) -> Clause:
        """Say that it is not so."""
        thing = clause.object
        if thing:
            thing = self._denied(clause, thing)
        time = "" if clause.time == "every-day" else clause.time
        return clause._replace(object=thing, time=time, negated=True, degree="", adverb="")

    def _denied(self, clause: Clause, thing: Thing) -> Thing:
        if thing.which or thing.owner or thing.concept in UNIQUE:
            return thing._replace(second=None)
        if clause.verb == "be":
            return thing
        if clause.verb in ("have", "exist"):
            return thing._replace(number="every" if thing.concept in PORTIONS else "one", second=None)
        if thing.concept in SOMEBODY or thing.concept in SITE_NOUNS:
            return Thing(thing.concept, which="that", qualities=thing.qualities)
        return thing._replace(number="every", second=None)

    def to_listener(self, clause: Clause) -> Clause:
        """One asks others about themselves, not about oneself."""
        if clause.subject and clause.subject.concept in ("I", "we"):
            other = "you" if clause.subject.concept == "I" else "they"
            if clause.object and clause.object.concept == other:
                return clause
            return clause._replace(subject=Thing(other))
        return clause

    def asking(self, clause: Clause) -> Clause:
        """Ask for one of the parts: who, what, how many, where, when."""
        options = [turned for turned in self._questions(clause._replace(degree="", adverb="")) if turned]
        return self.to_listener(self.draw.one(options)) if options else clause

    def _questions(self, clause: Clause) -> list[Clause | None]:
        if clause.verb == "exist":
            return [clause._replace(object=Thing("what"))]
        if clause.verb == "be" and clause.quality:
            return [clause._replace(subject=Thing("who")) if self._personal(clause.subject) else None]
        if clause.verb == "be":
            return self._being(clause)
        who = clause._replace(subject=Thing("who"))
        return [who, self._what(clause), self._how_many(clause), self._where(clause), self._when(clause)]

    def _being(self, clause: Clause) -> list[Clause | None]:
        thing, subject = clause.object, clause.subject
        assert subject
        if clause.place:
            who = clause._replace(subject=Thing("who")) if self._personal(subject) else None
            return [clause._replace(place=Place("where", "at")), who]
        if not thing or subject.concept not in SINGLE or subject.number != "one" or subject.second:
            return []
        if subject.concept in ("this", "that"):
            whose = thing._replace(owner=Thing("who"), number="one", which="", clause=None)
            return [Clause("be", subject, Thing("what")), Clause("be", subject, whose)]
        return [Clause("be", subject, Thing("who"))]

    def _personal(self, subject: Thing | None) -> bool:
        return subject is not None and subject.concept in SOMEBODY

    def _what(self, clause: Clause) -> Clause | None:
        thing = clause.object
        if not thing:
            return None
        return clause._replace(object=Thing("who" if thing.concept in SOMEBODY else "what"))

    def _how_many(self, clause: Clause) -> Clause | None:
        thing = clause.object
        if not thing or clause.modal or thing.concept in NEVER_COUNTED:
            return None
        if thing.which or thing.owner or thing.second or thing.number in NUMBERLESS:
            return None
        return clause._replace(object=thing._replace(number="how-many"))

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
