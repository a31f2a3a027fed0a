"""How English says it: verb forms that agree, auxiliaries that move, place and time at the end.

I read a new book at school yesterday
there are two pens on the table
what did you buy yesterday?                 the question word goes first, "did" takes the past
"""

from __future__ import annotations

from seq2see.sources.pocket.concepts import NAMES, PORTIONS, STUDIES, TOWNS
from seq2see.sources.pocket.lexicon_en import (
    A_BEFORE,
    AN_WITH,
    CALLED,
    NO_ARTICLE,
    OBJECTS,
    OWNERS,
    PLURAL_PRONOUNS,
    PLURALS,
    SUBJECTS,
    TIMES,
    VERBS,
)
from seq2see.sources.pocket.meaning import Clause, Meaning, Place, Thing, Word, asked_for, is_question

PROPER = NAMES | STUDIES | TOWNS
"""Words that are never put into the plural."""


def say(meaning: Meaning) -> list[Word]:
    """Put a meaning into English words."""
    if isinstance(meaning, Clause):
        return _clause(meaning, "")
    tag = "SCONJ" if meaning.link == "because" else "CCONJ"
    link = Word(meaning.link, tag, "link")
    return [*_clause(meaning.first, "first."), link, *_clause(meaning.second, "second.")]


def spell(words: list[Word]) -> str:
    """English is written with spaces, but the question mark keeps to the last word."""
    return " ".join(word.text for word in words).replace(" ?", "?")


def _clause(clause: Clause, at: str) -> list[Word]:
    front = asked_for(clause)
    inverted = clause.asked or front in ("object", "place", "goal", "time")
    subject = _subject(clause, at)
    helpers, verb = _verb_group(clause, at, inverted)
    words = _question_word(clause, at, front) if inverted else subject
    words += helpers
    if inverted:
        words += subject
    if clause.negated and helpers[0].text != "cannot":
        text, tag = ("no", "DET") if clause.verb == "exist" else ("not", "PART")
        words.append(Word(text, tag, at + "verb.not"))
    if clause.adverb:
        words.append(Word(clause.adverb, "ADV", at + "verb.adverb"))
    words += verb + _complements(clause, at, front)
    if is_question(clause):
        words.append(Word("?", "PUNCT", at + "mark"))
    return words


def _subject(clause: Clause, at: str) -> list[Word]:
    if clause.verb == "exist":
        return [] if asked_for(clause) else [Word("there", "PRON")]
    assert clause.subject
    return _thing(clause.subject, at + "subject", SUBJECTS)


def _question_word(clause: Clause, at: str, front: str) -> list[Word]:
    if front == "object":
        assert clause.object
        return _thing(clause.object, at + "object", OBJECTS)
    if front in ("place", "goal"):
        return [Word("where", "ADV", at + front, (f"{at}{front}.relation",))]
    if front == "time":
        return [Word("when", "ADV", at + "time")]
    return []


def _verb_group(clause: Clause, at: str, inverted: bool) -> tuple[list[Word], list[Word]]:
    """The auxiliary, if there is one (it moves before the subject in a question), and the rest of the verb."""
    path = at + "verb"
    if clause.verb in ("be", "exist"):
        if clause.tense == "future":
            return [Word("will", "AUX", path + ".tense")], [Word("be", "AUX", path)]
        return [Word(_be(clause), "AUX", path)], []
    verb = VERBS[clause.verb]
    particle = [Word(text, "ADP", "", (path,)) for text in CALLED.get(clause.verb, ())[1:]]
    singular = _third_person(clause)
    if clause.modal in ("can", "should"):
        fused = clause.negated and clause.modal == "can"
        text, also = ("cannot", (path + ".not",)) if fused else (clause.modal, ())
        return [Word(text, "AUX", path + ".modal", also)], [Word(verb.base, "VERB", path), *particle]
    if clause.tense == "future":
        return [Word("will", "AUX", path + ".tense")], [Word(verb.base, "VERB", path), *particle]
    if clause.tense == "now":
        return [Word(_be(clause), "AUX", path + ".aspect")], [Word(verb.doing, "VERB", path), *particle]
    wants = clause.modal == "want-to"
    tail = [Word("to", "PART", "", (path + ".modal",)), Word(verb.base, "VERB", path)] if wants else []
    base, third = ("want", "wants") if wants else (verb.base, verb.third)
    node = path + ".modal" if wants else path
    if inverted or clause.negated:
        helper = "did" if clause.tense == "past" else "does" if singular else "do"
        return [Word(helper, "AUX")], [Word(base, "VERB", node), *tail, *particle]
    form = verb.past if clause.tense == "past" else third if singular else base
    return [], [Word(form, "VERB", node), *tail, *particle]


def _complements(clause: Clause, at: str, front: str) -> list[Word]:
    """What follows the verb: to whom, what, whither, with whom, where, when."""
    words = []
    if clause.quality:
        if clause.degree:
            words.append(Word(clause.degree, "ADV", at + "quality.degree"))
        words.append(Word(clause.quality, "ADJ", at + "quality"))
    if clause.recipient:
        words += _thing(clause.recipient, at + "recipient", OBJECTS)
    if clause.object and front != "object":
        # "there is no book": the "no" takes the place of "a"
        no_article = clause.verb == "exist" and clause.negated and clause.object.number == "one"
        words += _thing(clause.object, at + "object", OBJECTS)[no_article:]
    if clause.goal and front != "goal":
        words.append(Word("to", "ADP", at + "goal.relation"))
        words += [*_article(clause.goal.concept), _place_noun(clause.goal, at + "goal")]
    if clause.companion:
        words.append(Word("with", "ADP", at + "companion.with"))
        words += _thing(clause.companion, at + "companion", OBJECTS)
    if clause.place and front != "place":
        relation = Word(clause.place.relation, "ADP", at + "place.relation")
        words += [relation, *_article(clause.place.concept), _place_noun(clause.place, at + "place")]
    if clause.time and front != "time":
        words += _time(clause.time, at + "time")
    return words


def _time(time: str, at: str) -> list[Word]:
    tags = {"in": "ADP", "on": "ADP", "the": "DET", "every": "DET", "now": "ADV"}
    words = []
    for text in TIMES[time].split():
        word = text.lstrip("*")
        tag = tags.get(word, "NOUN" if text[0] == "*" else "ADJ")
        words.append(Word(word, tag, at) if text[0] == "*" else Word(word, tag, "", (at,)))
    return words


def _place_noun(place: Place, at: str) -> Word:
    return Word(place.concept, "PROPN" if place.concept in TOWNS else "NOUN", at)


def _article(place: str) -> list[Word]:
    return [] if place in NO_ARTICLE else [Word("the", "DET")]


def _thing(thing: Thing, at: str, pronouns: dict[str, str]) -> list[Word]:
    words = _alone(thing, at, pronouns)
    if thing.clause:
        words.append(Word("that", "PRON", at + ".clause"))
        words += _clause(thing.clause, at + ".clause.")
    if thing.second:
        words.append(Word("and", "CCONJ", at + ".and"))
        words += _thing(thing.second, at + ".second", pronouns)
    return words


def _alone(thing: Thing, at: str, pronouns: dict[str, str]) -> list[Word]:
    """Which, how many, which portion, of what quality, what: these two cups of hot tea."""
    if thing.concept in pronouns:
        return [Word(pronouns[thing.concept], "PRON", at)]
    if thing.concept in ("this", "that"):
        return [Word(_demonstrative(thing.concept, _plural(thing)), "PRON", at)]
    noun = thing.concept if not _plural_noun(thing) else PLURALS[thing.concept]
    core = [Word(text, "ADJ", f"{at}.quality{index}") for index, text in enumerate(thing.qualities)]
    core.append(Word(noun, "PROPN" if thing.concept[0].isupper() else "NOUN", at))
    if _in_portions(thing):
        portion = PORTIONS[thing.concept]
        text = portion if thing.number == "one" else PLURALS[portion]
        core = [Word(text, "NOUN", at + ".portion"), Word("of", "ADP", "", (at + ".portion",)), *core]
    return [*_determiners(thing, at, core[0].text), *core]


def _determiners(thing: Thing, at: str, following: str) -> list[Word]:
    words: list[Word] = []
    number = at + ".number"
    if thing.owner:
        words += _owner(thing.owner, at + ".owner")
    elif thing.which == "the":
        words.append(Word("the", "DET"))
    elif thing.which:
        plural = thing.number != "one"
        words.append(Word(_demonstrative(thing.which, plural), "DET", at + ".which"))
    elif thing.number == "one" and thing.concept not in NAMES:
        vowel = following[0] in AN_WITH and following not in A_BEFORE
        words.append(Word("an" if vowel else "a", "DET", number))
    if thing.number == "how-many":
        words += [Word("how", "ADV", "", (number,)), Word("many", "ADJ", number)]
    elif thing.number not in ("one", "plural", "every"):
        tag = {"some": "DET", "many": "ADJ"}.get(thing.number, "NUM")
        words.append(Word(thing.number, tag, number))
    return words


def _owner(owner: Thing, at: str) -> list[Word]:
    """My, whose, Mary's, my mother's."""
    words = _thing(owner, at, OWNERS)
    if owner.concept not in OWNERS:
        words[-1] = words[-1]._replace(text=words[-1].text + "'s")
    return words


def _demonstrative(which: str, plural: bool) -> str:
    return {"this": "these", "that": "those"}[which] if plural else which


def _in_portions(thing: Thing) -> bool:
    """Whether the cup is spoken of: two cups of tea, this cup of tea; but tea, some tea, my tea."""
    if thing.concept not in PORTIONS or thing.number in ("every", "plural", "some", "many"):
        return False
    return thing.number != "one" or not (thing.owner or thing.which == "the")


def _plural_noun(thing: Thing) -> bool:
    """Whether the noun itself takes the plural form (tea never does, and shoes has no other)."""
    return thing.number != "one" and thing.concept in PLURALS and thing.concept not in PROPER


def _plural(thing: Thing) -> bool:
    """Whether a verb must agree in the plural."""
    if thing.second or thing.concept in PLURAL_PRONOUNS:
        return True
    if thing.concept in PORTIONS:
        if _in_portions(thing):
            return thing.number != "one"
        return PORTIONS[thing.concept] == "pair"
    if thing.concept in ("this", "that"):
        return thing.number == "plural"
    return _plural_noun(thing)


def _third_person(clause: Clause) -> bool:
    subject = clause.subject
    return subject is None or not (_plural(subject) or subject.concept == "I")


def _be(clause: Clause) -> str:
    thing = clause.object if clause.verb == "exist" else clause.subject
    assert thing
    if clause.tense == "past":
        return "were" if _plural(thing) else "was"
    if thing.concept == "I" and not thing.second:
        return "am"
    return "are" if _plural(thing) else "is"
