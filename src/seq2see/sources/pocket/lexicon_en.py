"""The English lexicon of the pocket world: only the exceptions to the spelling rules.

The name of a concept is also its English word, unless a table here gives another; plurals and verb forms
follow the rules of `regular_plural` and `VerbForms.regular`, unless they are irregular.
"""

from __future__ import annotations

from typing import NamedTuple

from seq2see.sources.pocket.concepts import CLASSES, PORTIONS, PRONOUNS, VERBS

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
