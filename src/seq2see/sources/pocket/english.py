"""How English says it: verb forms that agree, auxiliaries that move, place and time at the end.

I read a new book at school yesterday
there are two pens on the table
what did you buy yesterday?                 the question word goes first, "did" takes the past
"""

from __future__ import annotations

from seq2see.sources.pocket.concepts import NAMES, PORTIONS, STUDIES, TOWNS
from seq2see.sources.pocket.lexicon_en import (
    CONSONANT_SOUND_WORDS,
    NO_ARTICLE,
    OBJECT_PRONOUNS,
    PLURAL_PRONOUNS,
    PLURALS,
    POSSESSIVES,
    SUBJECT_PRONOUNS,
    TIMES,
    VERB_FORMS,
    VERB_LEMMAS,
    VOWELS,
)
from seq2see.sources.pocket.meaning import Clause, Meaning, NounPhrase, Place, Word, is_question, wh_role

PROPER = NAMES | STUDIES | TOWNS
"""Words that are never put into the plural."""


def realize(meaning: Meaning) -> list[Word]:
    """Put a meaning into English words."""
    if isinstance(meaning, Clause):
        return _clause(meaning, "")
    tag = "SCONJ" if meaning.conjunction == "because" else "CCONJ"
    conjunction = Word(meaning.conjunction, tag, "link")
    return [*_clause(meaning.first, "first."), conjunction, *_clause(meaning.second, "second.")]


def detokenize(words: list[Word]) -> str:
    """English is written with spaces, but the question mark keeps to the last word."""
    return " ".join(word.text for word in words).replace(" ?", "?")


def _clause(clause: Clause, at: str) -> list[Word]:
    front = wh_role(clause)
    inverted = clause.polar_question or front in ("object", "place", "goal", "time")
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
        return [] if wh_role(clause) else [Word("there", "PRON")]
    assert clause.subject
    return _noun_phrase(clause.subject, at + "subject", SUBJECT_PRONOUNS)


def _question_word(clause: Clause, at: str, front: str) -> list[Word]:
    if front == "object":
        assert clause.object
        return _noun_phrase(clause.object, at + "object", OBJECT_PRONOUNS)
    if front in ("place", "goal"):
        return [Word("location", "ADV", at + front, (f"{at}{front}.relation",))]
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
    verb = VERB_FORMS[clause.verb]
    particle = [Word(text, "ADP", "", (path,)) for text in VERB_LEMMAS.get(clause.verb, ())[1:]]
    singular = _third_person(clause)
    if clause.modal in ("can", "should"):
        fused = clause.negated and clause.modal == "can"
        text, secondary_nodes = ("cannot", (path + ".not",)) if fused else (clause.modal, ())
        return [Word(text, "AUX", path + ".modal", secondary_nodes)], [Word(verb.base, "VERB", path), *particle]
    if clause.tense == "future":
        return [Word("will", "AUX", path + ".tense")], [Word(verb.base, "VERB", path), *particle]
    if clause.tense == "now":
        return [Word(_be(clause), "AUX", path + ".aspect")], [Word(verb.participle, "VERB", path), *particle]
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
        words += _noun_phrase(clause.recipient, at + "recipient", OBJECT_PRONOUNS)
    if clause.object and front != "object":
        # "there is no book": the "no" takes the place of "a"
        no_article = clause.verb == "exist" and clause.negated and clause.object.number == "one"
        words += _noun_phrase(clause.object, at + "object", OBJECT_PRONOUNS)[no_article:]
    if clause.goal and front != "goal":
        words.append(Word("to", "ADP", at + "goal.relation"))
        words += [*_article(clause.goal.concept), _place_noun(clause.goal, at + "goal")]
    if clause.companion:
        words.append(Word("with", "ADP", at + "companion.with"))
        words += _noun_phrase(clause.companion, at + "companion", OBJECT_PRONOUNS)
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


def _noun_phrase(noun_phrase: NounPhrase, at: str, pronouns: dict[str, str]) -> list[Word]:
    words = _simple_noun_phrase(noun_phrase, at, pronouns)
    if noun_phrase.clause:
        words.append(Word("that", "PRON", at + ".clause"))
        words += _clause(noun_phrase.clause, at + ".clause.")
    if noun_phrase.second:
        words.append(Word("and", "CCONJ", at + ".and"))
        words += _noun_phrase(noun_phrase.second, at + ".second", pronouns)
    return words


def _simple_noun_phrase(noun_phrase: NounPhrase, at: str, pronouns: dict[str, str]) -> list[Word]:
    """Which, how many, which portion, of what quality, what: these two cups of hot tea."""
    if noun_phrase.concept in pronouns:
        return [Word(pronouns[noun_phrase.concept], "PRON", at)]
    if noun_phrase.concept in ("this", "that"):
        return [Word(_demonstrative(noun_phrase.concept, _plural(noun_phrase)), "PRON", at)]
    noun = noun_phrase.concept if not _plural_noun(noun_phrase) else PLURALS[noun_phrase.concept]
    core = [Word(text, "ADJ", f"{at}.quality{index}") for index, text in enumerate(noun_phrase.adjectives)]
    core.append(Word(noun, "PROPN" if noun_phrase.concept[0].isupper() else "NOUN", at))
    if _in_portions(noun_phrase):
        portion = PORTIONS[noun_phrase.concept]
        text = portion if noun_phrase.number == "one" else PLURALS[portion]
        core = [Word(text, "NOUN", at + ".portion"), Word("of", "ADP", "", (at + ".portion",)), *core]
    return [*_determiners(noun_phrase, at, core[0].text), *core]


def _determiners(noun_phrase: NounPhrase, at: str, following: str) -> list[Word]:
    words: list[Word] = []
    number = at + ".number"
    if noun_phrase.owner:
        words += _owner(noun_phrase.owner, at + ".owner")
    elif noun_phrase.determiner == "the":
        words.append(Word("the", "DET"))
    elif noun_phrase.determiner:
        plural = noun_phrase.number != "one"
        words.append(Word(_demonstrative(noun_phrase.determiner, plural), "DET", at + ".determiner"))
    elif noun_phrase.number == "one" and noun_phrase.concept not in NAMES:
        vowel = following[0] in VOWELS and following not in CONSONANT_SOUND_WORDS
        words.append(Word("an" if vowel else "a", "DET", number))
    if noun_phrase.number == "how-many":
        words += [Word("how", "ADV", "", (number,)), Word("many", "ADJ", number)]
    elif noun_phrase.number not in ("one", "plural", "every"):
        tag = {"some": "DET", "many": "ADJ"}.get(noun_phrase.number, "NUM")
        words.append(Word(noun_phrase.number, tag, number))
    return words


def _owner(owner: NounPhrase, at: str) -> list[Word]:
    """My, whose, Mary's, my mother's."""
    words = _noun_phrase(owner, at, POSSESSIVES)
    if owner.concept not in POSSESSIVES:
        words[-1] = words[-1]._replace(text=words[-1].text + "'s")
    return words


def _demonstrative(determiner: str, plural: bool) -> str:
    return {"this": "these", "that": "those"}[determiner] if plural else determiner


def _in_portions(noun_phrase: NounPhrase) -> bool:
    """Whether the cup is spoken of: two cups of tea, this cup of tea; but tea, some tea, my tea."""
    if noun_phrase.concept not in PORTIONS or noun_phrase.number in ("every", "plural", "some", "many"):
        return False
    return noun_phrase.number != "one" or not (noun_phrase.owner or noun_phrase.determiner == "the")


def _plural_noun(noun_phrase: NounPhrase) -> bool:
    """Whether the noun itself takes the plural form (tea never does, and shoes has no other)."""
    return noun_phrase.number != "one" and noun_phrase.concept in PLURALS and noun_phrase.concept not in PROPER


def _plural(noun_phrase: NounPhrase) -> bool:
    """Whether a verb must agree in the plural."""
    if noun_phrase.second or noun_phrase.concept in PLURAL_PRONOUNS:
        return True
    if noun_phrase.concept in PORTIONS:
        if _in_portions(noun_phrase):
            return noun_phrase.number != "one"
        return PORTIONS[noun_phrase.concept] == "pair"
    if noun_phrase.concept in ("this", "that"):
        return noun_phrase.number == "plural"
    return _plural_noun(noun_phrase)


def _third_person(clause: Clause) -> bool:
    subject = clause.subject
    return subject is None or not (_plural(subject) or subject.concept == "I")


def _be(clause: Clause) -> str:
    noun_phrase = clause.object if clause.verb == "exist" else clause.subject
    assert noun_phrase
    if clause.tense == "past":
        return "were" if _plural(noun_phrase) else "was"
    if noun_phrase.concept == "I" and not noun_phrase.second:
        return "am"
    return "are" if _plural(noun_phrase) else "is"
