"""Sampling sentences: verb clauses, adjectives, identity, location, existence, two clauses joined; and transformations.

Transformations (negation, yes-no question, wh-question) leave the translation a function: each source has one target.
A negated "a pen" has no 一支 in Chinese (我没有笔), so the same Chinese must not also mean "pens": after 没有 there is
only "a", after other negations only "pens".
"""

from __future__ import annotations

import numpy as np

from seq2see.data.generated.pocket.meaning import (
    ADJECTIVES,
    CLASSES,
    NAMES,
    PORTIONS,
    PRONOUNS,
    VERBS,
    Adjective,
    Clause,
    CompoundSentence,
    Meaning,
    NounPhrase,
    Place,
    Verb,
    content_words,
    members,
)
from seq2see.data.generated.pocket.sample_noun_phrases import (
    ANIMALS,
    CLASS_OF,
    COUNTED_DETERMINERS,
    DEFINITE_DETERMINERS,
    GENERIC_DETERMINERS,
    OPEN_DETERMINERS,
    PROGRESSIVE_DETERMINERS,
    SITE_NOUNS,
    WEIGHTED_PRONOUNS,
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


COMMON = ("have", "like", "buy", "want", "give", "ride", "teach")
WEIGHTED_VERBS = [*VERBS, *(verb for verb in VERBS if verb.concept in COMMON)]
FEELINGS = [adjective for adjective in ADJECTIVES if adjective.kind == "feeling"]
STANDING = [adjective for adjective in ADJECTIVES if adjective.kind != "color"]
COLORS = frozenset(adjective.concept for adjective in ADJECTIVES if adjective.kind == "color")
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
    """Samples meanings of every kind."""

    def __init__(self, generator: np.random.Generator, detail: float = 1.0):
        super().__init__(generator, detail)
        self.transform = Transformations(self.random)

    def sentence(self) -> Meaning:
        """A sentence of any kind that names no noun twice."""
        while True:
            meaning = self.any_sentence()
            nouns = [word for role, word in content_words(meaning) if role not in ("verb", "quality")]
            if isinstance(meaning, CompoundSentence) or len(set(nouns)) == len(nouns):
                return meaning

    def any_sentence(self) -> Meaning:
        """A statement or a question of any kind, or two statements joined."""
        chance = self.random.uniform()
        if chance < 0.65:
            return self.transform(self.verb_clause(self.random.choice(WEIGHTED_VERBS)))
        if chance < 0.77:
            return self.transform(self.adjective_clause(self.random.choice(STANDING)))
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

    def adjective_clause(self, adjective: Adjective) -> Clause:
        """A noun phrase with a predicate adjective: Mary is tired; this cup is small."""
        concept = self.random.choice(adjective.nouns)
        feeling = adjective.kind == "feeling"
        determiners = ANY_DETERMINERS if concept in ANIMALS or concept in CLASSES["fruit"] else DEFINITE_DETERMINERS
        if feeling and self.random.with_probability(0.5):
            subject = NounPhrase(self.random.choice(WEIGHTED_PRONOUNS))
        elif self.optionally(0.05) and concept in BY_NAME["like"].objects:
            subject = self.described(concept)
        else:
            subject = self.noun_phrases.noun(concept, determiners)
        # "This big cat is small" would be odd: only a color may be combined with another adjective.
        subject = subject._replace(adjectives=tuple(word for word in subject.adjectives if word in COLORS))
        degrees = ("very", "too") if adjective.concept in TOO_MUCH else ("very",)
        degree = self.random.choice(degrees) if self.optionally(0.25) else ""
        clause = Clause("be", subject, adjective=adjective.concept, degree=degree)
        if feeling and self.optionally(0.35):
            tense = self.random.choice(("present", "past", "past", "future"))
            time = "today" if tense == "present" else self.random.choice(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time, degree="" if tense == "future" else degree)
        return clause

    def identity(self) -> Clause:
        """She is a teacher; we are students; Tom is my friend."""
        if self.random.with_probability(0.5):
            return self.naming()
        subject = self.noun_phrases.agent()
        plural = subject.concept in ("we", "they") or subject.second or subject.number != "one"
        job = self.random.with_probability(0.7)
        concept = self.random.choice(CLASSES["job"] if job else ("friend", "classmate", "neighbour"))
        predicate = self.noun_phrases.noun(concept, ("every",) if plural else ("one",) if job else ("owner",))
        return Clause("be", subject, predicate if plural else predicate._replace(number="one"))

    def naming(self) -> Clause:
        """This is a pen; those are my shoes."""
        demonstrative = self.random.choice(("this", "that"))
        concept = self.random.choice(STAY)
        if self.random.with_probability(0.2) and concept not in PORTIONS:
            return Clause("be", NounPhrase(demonstrative, "plural"), self.noun_phrases.noun(concept, ("every",)))
        determiners = ("one", "one", "owner") if concept not in PORTIONS else ("owner",)
        noun_phrase = self.described(concept) if self.optionally(0.12) else self.noun_phrases.noun(concept, determiners)
        plural = concept in PORTIONS or (noun_phrase.owner is not None and noun_phrase.number != "one")
        return Clause("be", NounPhrase(demonstrative, "plural" if plural else "one"), noun_phrase)

    def location(self) -> Clause:
        """My book is on the table; Mary was at home yesterday."""
        if self.random.with_probability(0.5):
            concept = self.random.choice(STAY + PETS)
            noun_phrase = (
                self.described(concept)
                if self.optionally(0.08)
                else self.noun_phrases.noun(concept, DEFINITE_DETERMINERS)
            )
            return Clause("be", noun_phrase, place=self.noun_phrases.spot())
        clause = Clause("be", self.noun_phrases.agent(), place=self.noun_phrases.site())
        if self.optionally(0.5):
            tense = self.random.choice(("present", "past", "past", "future"))
            time = "now" if tense == "present" else self.random.choice(TIMES[tense][:5])
            clause = clause._replace(tense=tense, time=time)
        return clause

    def existence(self) -> Clause:
        """There is a book on the table."""
        if self.random.with_probability(0.55):
            concept, place = self.random.choice(STAY + PETS), self.noun_phrases.spot()
        else:
            concepts, places = self.random.choice(((INSIDE, BUILDINGS), (OUTSIDE, CLASSES["outdoors"])))
            concept, place = self.random.choice(concepts), Place(self.random.choice(places))
        return Clause("exist", object=self.noun_phrases.noun(concept, COUNTED_DETERMINERS), place=place)

    def contrast(self) -> CompoundSentence:
        """I like apples, but Mary does not like pears."""
        if self.random.with_probability(0.3):
            first = self.adjective_clause(self.random.choice(FEELINGS))
            second = self.adjective_clause(self.random.choice(FEELINGS))
            return CompoundSentence("but", first, self.transform.negative(second._replace(tense=first.tense, time="")))
        verb = BY_NAME[self.random.choice(CONTRASTED)]
        first = self.verb_clause(verb)._replace(adverb="")
        if first.tense == "now":
            first = first._replace(tense="past", time="yesterday")
        assert first.subject
        assert first.object
        same = first.subject.concept in PRONOUNS and self.random.with_probability(0.6)
        subject = first.subject if same else self.noun_phrases.agent(verb.agents)
        second = Clause(first.verb, subject, tense=first.tense, modal=first.modal)
        concept = first.object.concept
        kind = CLASS_OF.get(concept)
        same_class = [other for other in verb.objects if other != concept and CLASS_OF.get(other) == kind]
        if same_class and concept not in PRONOUNS:
            noun_phrase = self.noun_phrases.noun(self.random.choice(same_class), self.determiners(verb, second))
        else:
            noun_phrase = self.object_of(verb, second)
        return CompoundSentence("but", first, self.transform.negative(second._replace(object=noun_phrase)))

    def reason(self) -> CompoundSentence:
        """Mary is happy because I gave her a book."""
        feeling = self.random.choice([adjective for adjective in FEELINGS if adjective.concept in CAUSES])
        effect = self.adjective_clause(feeling)._replace(time="", tense="present")
        cause = self.verb_clause(BY_NAME[self.random.choice(CAUSES[feeling.concept])])
        if cause.modal:
            cause = cause._replace(modal="", tense="past", time="yesterday")
        return CompoundSentence("because", effect, cause)


# --- transformations of a statement ---


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
