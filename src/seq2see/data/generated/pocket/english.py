"""The English of the pocket world: its surface realization and its lexicon.

Verbs agree with the subject, the auxiliary is inverted in questions, and place and time are at the end:

I read a new book at school yesterday
there are two pens on the table
what did you buy yesterday?                 the question word comes first, "did" carries the past tense

The lexicon has only exceptions. The name of a concept is also its English word, unless a table here has another;
plurals and verb forms follow the rules of `regular_plural` and `VerbForms.regular`, unless they are irregular.
"""

from __future__ import annotations

from typing import NamedTuple

from seq2see.data.generated.pocket.meaning import (
    CLASSES,
    NAMES,
    PORTIONS,
    PRONOUNS,
    STUDIES,
    TOWNS,
    VERBS,
    Clause,
    Meaning,
    NounPhrase,
    Place,
    Word,
    is_question,
    wh_role,
)

PROPER = NAMES | STUDIES | TOWNS
"""Nouns without a plural."""


def realize(meaning: Meaning) -> list[Word]:
    """The English words of a meaning."""
    if isinstance(meaning, Clause):
        return _clause(meaning, "")
    tag = "SCONJ" if meaning.conjunction == "because" else "CCONJ"
    conjunction = Word(meaning.conjunction, tag, "link")
    return [*_clause(meaning.first, "first."), conjunction, *_clause(meaning.second, "second.")]


def detokenize(words: list[Word]) -> str:
    """English is written with spaces, but without one before the question mark."""
    return " ".join(word.text for word in words).replace(" ?", "?")


def _clause(clause: Clause, path: str) -> list[Word]:
    wh_part = wh_role(clause)
    inverted = clause.polar_question or wh_part in ("object", "place", "goal", "time")
    subject = _subject(clause, path)
    helpers, verb = _verb_group(clause, path, inverted)
    words = _question_word(clause, path, wh_part) if inverted else subject
    words += helpers
    if inverted:
        words += subject
    if clause.negated and helpers[0].text != "cannot":
        text, tag = ("no", "DET") if clause.verb == "exist" else ("not", "PART")
        words.append(Word(text, tag, path + "verb.not"))
    if clause.adverb:
        words.append(Word(clause.adverb, "ADV", path + "verb.adverb"))
    words += verb + _complements(clause, path, wh_part)
    if is_question(clause):
        words.append(Word("?", "PUNCT", path + "mark"))
    return words


def _subject(clause: Clause, path: str) -> list[Word]:
    if clause.verb == "exist":
        return [] if wh_role(clause) else [Word("there", "PRON")]
    assert clause.subject
    return _noun_phrase(clause.subject, path + "subject", SUBJECT_PRONOUNS)


def _question_word(clause: Clause, path: str, wh_part: str) -> list[Word]:
    if wh_part == "object":
        assert clause.object
        return _noun_phrase(clause.object, path + "object", OBJECT_PRONOUNS)
    if wh_part in ("place", "goal"):
        return [Word("where", "ADV", path + wh_part, (f"{path}{wh_part}.relation",))]
    if wh_part == "time":
        return [Word("when", "ADV", path + "time")]
    return []


def _verb_group(clause: Clause, path: str, inverted: bool) -> tuple[list[Word], list[Word]]:
    """The auxiliary, if there is one (a question has it before the subject), and the rest of the verb."""
    verb_path = path + "verb"
    if clause.verb in ("be", "exist"):
        if clause.tense == "future":
            return [Word("will", "AUX", verb_path + ".tense")], [Word("be", "AUX", verb_path)]
        return [Word(_be(clause), "AUX", verb_path)], []
    forms = VERB_FORMS[clause.verb]
    particle = [Word(text, "ADP", "", (verb_path,)) for text in VERB_LEMMAS.get(clause.verb, ())[1:]]
    singular = _third_person(clause)
    if clause.modal in ("can", "should"):
        fused = clause.negated and clause.modal == "can"
        text, secondary_nodes = ("cannot", (verb_path + ".not",)) if fused else (clause.modal, ())
        auxiliary = Word(text, "AUX", verb_path + ".modal", secondary_nodes)
        return [auxiliary], [Word(forms.base, "VERB", verb_path), *particle]
    if clause.tense == "future":
        return [Word("will", "AUX", verb_path + ".tense")], [Word(forms.base, "VERB", verb_path), *particle]
    if clause.tense == "now":
        return [Word(_be(clause), "AUX", verb_path + ".aspect")], [Word(forms.participle, "VERB", verb_path), *particle]
    intention = clause.modal == "want-to"
    tail = [Word("to", "PART", "", (verb_path + ".modal",)), Word(forms.base, "VERB", verb_path)] if intention else []
    base, third = ("want", "wants") if intention else (forms.base, forms.third)
    node = verb_path + ".modal" if intention else verb_path
    if inverted or clause.negated:
        helper = "did" if clause.tense == "past" else "does" if singular else "do"
        return [Word(helper, "AUX")], [Word(base, "VERB", node), *tail, *particle]
    form = forms.past if clause.tense == "past" else third if singular else base
    return [], [Word(form, "VERB", node), *tail, *particle]


def _complements(clause: Clause, path: str, wh_part: str) -> list[Word]:
    """The complements that follow the verb: adjective, recipient, object, goal, companion, place, time."""
    words = []
    if clause.adjective:
        if clause.degree:
            words.append(Word(clause.degree, "ADV", path + "quality.degree"))
        words.append(Word(clause.adjective, "ADJ", path + "quality"))
    if clause.recipient:
        words += _noun_phrase(clause.recipient, path + "recipient", OBJECT_PRONOUNS)
    if clause.object and wh_part != "object":
        # "there is no book": "no" replaces "a"
        no_article = clause.verb == "exist" and clause.negated and clause.object.number == "one"
        words += _noun_phrase(clause.object, path + "object", OBJECT_PRONOUNS)[no_article:]
    if clause.goal and wh_part != "goal":
        words.append(Word("to", "ADP", path + "goal.relation"))
        words += [*_article(clause.goal.concept), _place_noun(clause.goal, path + "goal")]
    if clause.companion:
        words.append(Word("with", "ADP", path + "companion.with"))
        words += _noun_phrase(clause.companion, path + "companion", OBJECT_PRONOUNS)
    if clause.place and wh_part != "place":
        relation = Word(clause.place.relation, "ADP", path + "place.relation")
        words += [relation, *_article(clause.place.concept), _place_noun(clause.place, path + "place")]
    if clause.time and wh_part != "time":
        words += _time(clause.time, path + "time")
    return words


def _time(time: str, path: str) -> list[Word]:
    tags = {"in": "ADP", "on": "ADP", "the": "DET", "every": "DET", "now": "ADV"}
    words = []
    for text in TIMES[time].split():
        word = text.lstrip("*")
        tag = tags.get(word, "NOUN" if text[0] == "*" else "ADJ")
        words.append(Word(word, tag, path) if text[0] == "*" else Word(word, tag, "", (path,)))
    return words


def _place_noun(place: Place, path: str) -> Word:
    return Word(place.concept, "PROPN" if place.concept in TOWNS else "NOUN", path)


def _article(place: str) -> list[Word]:
    return [] if place in NO_ARTICLE else [Word("the", "DET")]


def _noun_phrase(noun_phrase: NounPhrase, path: str, pronouns: dict[str, str]) -> list[Word]:
    words = _simple_noun_phrase(noun_phrase, path, pronouns)
    if noun_phrase.clause:
        words.append(Word("that", "PRON", path + ".clause"))
        words += _clause(noun_phrase.clause, path + ".clause.")
    if noun_phrase.second:
        words.append(Word("and", "CCONJ", path + ".and"))
        words += _noun_phrase(noun_phrase.second, path + ".second", pronouns)
    return words


def _simple_noun_phrase(noun_phrase: NounPhrase, path: str, pronouns: dict[str, str]) -> list[Word]:
    """Determiner, number, portion, adjectives, noun: these two cups of hot tea."""
    if noun_phrase.concept in pronouns:
        return [Word(pronouns[noun_phrase.concept], "PRON", path)]
    if noun_phrase.concept in ("this", "that"):
        return [Word(_demonstrative(noun_phrase.concept, _plural(noun_phrase)), "PRON", path)]
    noun = noun_phrase.concept if not _plural_noun(noun_phrase) else PLURALS[noun_phrase.concept]
    core = [Word(text, "ADJ", f"{path}.quality{index}") for index, text in enumerate(noun_phrase.adjectives)]
    core.append(Word(noun, "PROPN" if noun_phrase.concept[0].isupper() else "NOUN", path))
    if _in_portions(noun_phrase):
        portion = PORTIONS[noun_phrase.concept]
        text = portion if noun_phrase.number == "one" else PLURALS[portion]
        core = [Word(text, "NOUN", path + ".portion"), Word("of", "ADP", "", (path + ".portion",)), *core]
    return [*_determiners(noun_phrase, path, core[0].text), *core]


def _determiners(noun_phrase: NounPhrase, path: str, following: str) -> list[Word]:
    words: list[Word] = []
    number = path + ".number"
    if noun_phrase.owner:
        words += _owner(noun_phrase.owner, path + ".owner")
    elif noun_phrase.determiner == "the":
        words.append(Word("the", "DET"))
    elif noun_phrase.determiner:
        plural = noun_phrase.number != "one"
        words.append(Word(_demonstrative(noun_phrase.determiner, plural), "DET", path + ".determiner"))
    elif noun_phrase.number == "one" and noun_phrase.concept not in NAMES:
        vowel = following[0] in VOWELS and following not in CONSONANT_SOUND_WORDS
        words.append(Word("an" if vowel else "a", "DET", number))
    if noun_phrase.number == "how-many":
        words += [Word("how", "ADV", "", (number,)), Word("many", "ADJ", number)]
    elif noun_phrase.number not in ("one", "plural", "every"):
        tag = {"some": "DET", "many": "ADJ"}.get(noun_phrase.number, "NUM")
        words.append(Word(noun_phrase.number, tag, number))
    return words


def _owner(owner: NounPhrase, path: str) -> list[Word]:
    """A possessive: my, whose, Mary's, my mother's."""
    words = _noun_phrase(owner, path, POSSESSIVES)
    if owner.concept not in POSSESSIVES:
        words[-1] = words[-1]._replace(text=words[-1].text + "'s")
    return words


def _demonstrative(determiner: str, plural: bool) -> str:
    return {"this": "these", "that": "those"}[determiner] if plural else determiner


def _in_portions(noun_phrase: NounPhrase) -> bool:
    """Whether the portion is expressed: two cups of tea, this cup of tea; but tea, some tea, my tea."""
    if noun_phrase.concept not in PORTIONS or noun_phrase.number in ("every", "plural", "some", "many"):
        return False
    return noun_phrase.number != "one" or not (noun_phrase.owner or noun_phrase.determiner == "the")


def _plural_noun(noun_phrase: NounPhrase) -> bool:
    """Whether the noun itself has its plural form (tea has none, and shoes has no other)."""
    return noun_phrase.number != "one" and noun_phrase.concept in PLURALS and noun_phrase.concept not in PROPER


def _plural(noun_phrase: NounPhrase) -> bool:
    """Whether the verb agrees with this subject in the plural."""
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


_IRREGULAR_PLURALS = """
man men        woman women    child children   mouse mice     knife knives
sheep sheep    fish fish      potato potatoes  tomato tomatoes
"""

# verb  past  -ing form (where it is not simply verb + ing)
_IRREGULAR_VERBS = """
eat ate eating           drink drank drinking     read read reading        write wrote writing
buy bought buying        sell sold selling        draw drew drawing        wear wore wearing
make made making         cut cut cutting          bring brought bringing   take took taking
find found finding       lose lost losing         drive drove driving      ride rode riding
feed fed feeding         keep kept keeping        see saw seeing           have had having
know knew knowing        meet met meeting         teach taught teaching    give gave giving
lend lent lending        go went going            come came coming         run ran running
swim swam swimming       sleep slept sleeping     sing sang singing        plant planted planting
visit visited visiting   listen listened listening   open opened opening
"""

# verbs whose English word differs from the name of the concept, and verbs of two words
VERB_LEMMAS = {"tidy": ("clean",), "listen": ("listen", "to"), "seek": ("look", "for"), "await": ("wait", "for")}

SUBJECT_PRONOUNS = {pronoun: pronoun for pronoun in (*PRONOUNS, "who", "what")}
OBJECT_PRONOUNS = SUBJECT_PRONOUNS | {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
POSSESSIVES = {
    "I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their", "who": "whose",
}  # fmt: skip
PLURAL_PRONOUNS = frozenset(["we", "they", "you"])

# time: its words; * marks the word that is aligned to the concept
TIMES = {
    "yesterday": "*yesterday", "last-week": "last *week", "last-year": "last *year",
    "today": "*today", "every-day": "every *day", "morning": "in the *morning", "evening": "in the *evening",
    "weekends": "on *weekends", "now": "*now",
    "tomorrow": "*tomorrow", "next-week": "next *week", "next-year": "next *year",
}  # fmt: skip

# School, home and towns have no article.
NO_ARTICLE = frozenset(["school", "home", *CLASSES["town"]])

VOWELS = frozenset("aeiou")
CONSONANT_SOUND_WORDS = frozenset(["useful"])
"""Words that are written with a vowel but spoken with a consonant."""


class VerbForms(NamedTuple):
    """The inflected forms of a verb: eat, eats, ate, eating."""

    base: str
    third: str
    past: str
    participle: str

    @staticmethod
    def regular(verb: str) -> VerbForms:
        """The forms of a regular verb.

        >>> VerbForms.regular("carry")
        VerbForms(base='carry', third='carries', past='carried', participle='carrying')
        """
        if verb.endswith("y") and verb[-2] not in "aeiou":
            past = verb[:-1] + "ied"
        else:
            past = verb + ("d" if verb.endswith("e") else "ed")
        stem = verb[:-1] if verb.endswith("e") else verb
        return VerbForms(verb, regular_plural(verb), past, stem + "ing")


def regular_plural(word: str) -> str:
    """A noun or verb with the ending -s: one spelling rule serves both.

    >>> [regular_plural(word) for word in ("pen", "box", "story", "toy", "go")]
    ['pens', 'boxes', 'stories', 'toys', 'goes']
    """
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "go")) else "s")


def _verb_forms(verb: str, irregular: dict[str, tuple[str, str]]) -> VerbForms:
    verb = VERB_LEMMAS.get(verb, (verb,))[0]
    forms = VerbForms.regular(verb)
    if verb in irregular:
        forms = forms._replace(past=irregular[verb][0], participle=irregular[verb][1])
    return forms._replace(third="has") if verb == "have" else forms


_verbs = _IRREGULAR_VERBS.split()
_irregular = dict(zip(_verbs[::3], zip(_verbs[1::3], _verbs[2::3], strict=True), strict=True))
VERB_FORMS = {verb.concept: _verb_forms(verb.concept, _irregular) for verb in VERBS}

_plurals = _IRREGULAR_PLURALS.split()
_irregular_plurals = dict(zip(_plurals[::2], _plurals[1::2], strict=True))
PLURALS = {
    noun: _irregular_plurals.get(noun, regular_plural(noun))
    for nouns in CLASSES.values()
    for noun in (*nouns, "piece", "pair")
    if noun not in PORTIONS
}
