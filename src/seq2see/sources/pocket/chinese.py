"""Chinese surface realization: time and place before the verb, modifiers before the noun, no inflection.

我 昨天 在 学校 读 了 一 本 新 书        subject, time, place, verb, object
桌子 上 有 两 支 笔                      the place precedes the verb of existence
我 喜欢 的 书                            a relative clause precedes its noun
"""

from __future__ import annotations

from seq2see.sources.pocket.concepts import FAMILY, NAMES, PORTIONS, PRONOUNS, TOWNS
from seq2see.sources.pocket.lexicon_zh import MEASURES, WITHOUT_DE, WORDS
from seq2see.sources.pocket.meaning import Clause, Meaning, NounPhrase, Place, Word, is_question

NUMBERLESS = ("every", "plural", "some", "many")
PLURAL_DEMONSTRATIVES = {"this": "these", "that": "those"}


def realize(meaning: Meaning) -> list[Word]:
    """The Chinese words of a meaning."""
    if isinstance(meaning, Clause):
        return _clause(meaning, "")
    comma = Word("，", "PUNCT")
    first, second = _clause(meaning.first, "first."), _clause(meaning.second, "second.")
    if meaning.conjunction == "because":
        # The reason precedes the effect in Chinese and follows it in English.
        return [
            Word("因为", "SCONJ", "link"), *second, comma, Word("所以", "CCONJ", "", ("link",)), *first,
        ]  # fmt: skip
    return [*first, comma, Word("但是", "CCONJ", "link"), *second]


def detokenize(words: list[Word]) -> str:
    """Chinese is written without spaces."""
    return "".join(word.text for word in words)


def _clause(clause: Clause, path: str) -> list[Word]:
    """A clause with its question words at the end: 吗？ for yes or no, only ？ after 谁, 什么, 哪里."""
    rules = {"exist": _existence, "be": _copula_clause}
    words = rules.get(clause.verb, _verb_clause)(clause, path)
    if clause.polar_question:
        words.append(Word("吗", "PART"))
    if is_question(clause):
        words.append(Word("？", "PUNCT", path + "mark"))
    return words


def _verb_clause(clause: Clause, path: str, relative: bool = False) -> list[Word]:
    verb = path + "verb"
    words = _opening(clause, path)
    if clause.adverb:
        words.append(Word(WORDS[clause.adverb], "ADV", verb + ".adverb"))
    if clause.negated and clause.verb != "have":
        # 没有 negates the past, 不 negates all other tenses.
        words.append(Word("没有" if clause.tense == "past" else "不", "ADV", verb + ".not"))
    words += _auxiliaries(clause, path)
    if clause.companion:
        words.append(Word("跟", "ADP", path + "companion.with"))
        words += _noun_phrase(clause.companion, path + "companion")
        words.append(Word("一起", "ADV", "", (path + "companion.with",)))
    if clause.place:
        # 正在 already contains the 在 of the place: 正在公园里跑步.
        words += _place(clause.place, path + "place")[_holds_place(clause) :]
    if clause.negated and clause.verb == "have":
        words.append(Word("没有", "VERB", verb, (verb + ".not",)))
    else:
        words.append(Word(WORDS[clause.verb], "VERB", verb))
    if clause.tense == "past" and not clause.negated and clause.verb != "have" and not relative:
        words.append(Word("了", "PART", "", (verb,)))
    if clause.recipient:
        words += _noun_phrase(clause.recipient, path + "recipient")
    if clause.object:
        words += _noun_phrase(clause.object, path + "object", silent_one=clause.negated and clause.verb == "have")
    if clause.goal:
        words.append(Word(WORDS[clause.goal.concept], _noun_tag(clause.goal.concept), path + "goal"))
    return words


def _copula_clause(clause: Clause, path: str) -> list[Word]:
    words = _opening(clause, path)
    verb = path + "verb"
    if clause.negated:
        words.append(Word("不", "ADV", verb + ".not"))
    words += _auxiliaries(clause, path)
    if clause.adjective:
        if clause.degree:
            words.append(Word(WORDS[clause.degree], "ADV", path + "quality.degree"))
        elif clause.tense == "future" or not (clause.negated or clause.polar_question):
            # A bare adjective would express a comparison; 很 completes the sentence and need not mean "very".
            words.append(Word("很", "ADV", "", (verb,)))
        words.append(Word(WORDS[clause.adjective], "ADJ", path + "quality"))
        if clause.degree == "too":
            words.append(Word("了", "PART", "", (path + "quality.degree",)))
    elif clause.object:
        words.append(Word("是", "AUX", verb))
        words += _noun_phrase(clause.object, path + "object", silent_one=clause.negated)
    elif clause.place:
        there, *where = _place(clause.place, path + "place")
        words += [there._replace(tag="VERB", node=verb, secondary_nodes=(path + "place.relation",)), *where]
    return words


def _existence(clause: Clause, path: str) -> list[Word]:
    assert clause.place
    assert clause.object
    words = _place(clause.place, path + "place")[1:]
    verb = path + "verb"
    if clause.negated:
        words.append(Word("没有", "VERB", verb, (verb + ".not",)))
    else:
        words.append(Word("有", "VERB", verb))
    return words + _noun_phrase(clause.object, path + "object", silent_one=clause.negated)


def _opening(clause: Clause, path: str) -> list[Word]:
    """The subject and the time."""
    words = _noun_phrase(clause.subject, path + "subject") if clause.subject else []
    if clause.time:
        tag = "ADV" if clause.time == "when" else "NOUN"
        words.append(Word(WORDS[clause.time], tag, path + "time"))
    return words


def _auxiliaries(clause: Clause, path: str) -> list[Word]:
    if clause.modal:
        return [Word(WORDS[clause.modal], "AUX", path + "verb.modal")]
    if clause.tense == "future":
        return [Word("会", "AUX", path + "verb.tense")]
    if clause.tense == "now":
        helps = (path + "place.relation",) if _holds_place(clause) else ()
        return [Word("正在", "ADV", path + "verb.aspect", helps)]
    return []


def _holds_place(clause: Clause) -> bool:
    return clause.tense == "now" and clause.place is not None and clause.companion is None


def _place(place: Place, path: str) -> list[Word]:
    """在 and the place, and for most relations a word after it: 在 桌子 上."""
    after = WORDS[place.relation] if place.concept not in TOWNS and place.concept != "where" else "-"
    relation = path + ".relation"
    noun = Word(WORDS[place.concept], _noun_tag(place.concept), path)
    if after == "-":
        return [Word("在", "ADP", relation), noun]
    return [Word("在", "ADP", "", (relation,)), noun, Word(after, "ADP", relation)]


def _noun_phrase(noun_phrase: NounPhrase, path: str, silent_one: bool = False) -> list[Word]:
    words = [*_owner(noun_phrase, path), *_count(noun_phrase, path, silent_one)]
    if noun_phrase.clause:
        words += _verb_clause(noun_phrase.clause, path + ".clause.", relative=True)
        words.append(Word("的", "PART", path + ".clause"))
    for index, adjective in enumerate(noun_phrase.adjectives):
        words.append(Word(WORDS[adjective], "ADJ", f"{path}.quality{index}"))
        if adjective not in WITHOUT_DE:
            words.append(Word("的", "PART", "", (f"{path}.quality{index}",)))
    concept = noun_phrase.concept
    if concept in PLURAL_DEMONSTRATIVES and noun_phrase.number == "plural":
        concept = PLURAL_DEMONSTRATIVES[concept]
    words.append(Word(WORDS[concept], _noun_tag(noun_phrase.concept), path))
    if noun_phrase.second:
        words.append(Word("和", "CCONJ", path + ".and"))
        words += _noun_phrase(noun_phrase.second, path + ".second", silent_one)
    return words


def _owner(noun_phrase: NounPhrase, path: str) -> list[Word]:
    if not noun_phrase.owner:
        return []
    words = _noun_phrase(noun_phrase.owner, path + ".owner")
    # 我妈妈: there is no 的 between a pronoun and a family member.
    if not (noun_phrase.concept in FAMILY and noun_phrase.owner.concept in PRONOUNS):
        words.append(Word("的", "PART", "", (path + ".owner",)))
    return words


def _count(noun_phrase: NounPhrase, path: str, silent_one: bool) -> list[Word]:
    """这 两 支: determiner, number, and the measure word that the noun selects."""
    words = []
    number, determiner = noun_phrase.number, noun_phrase.determiner
    if determiner in ("this", "that"):
        plural = PLURAL_DEMONSTRATIVES[determiner] if number == "plural" else determiner
        words.append(Word(WORDS[plural], "DET", path + ".determiner"))
    if number in ("some", "many"):
        words.append(Word(WORDS[number], "DET" if number == "some" else "NUM", path + ".number"))
    if number in NUMBERLESS or MEASURES.get(noun_phrase.concept) is None or noun_phrase.concept in NAMES:
        return words
    if number == "one" and (silent_one or noun_phrase.owner or determiner == "the"):
        return words
    if not (number == "one" and determiner):
        words.append(Word(WORDS[number], "NUM", path + ".number"))
    if noun_phrase.concept in PORTIONS:
        words.append(Word(WORDS[PORTIONS[noun_phrase.concept] + "-of"], "CLF", path + ".portion"))
    else:
        words.append(Word(MEASURES[noun_phrase.concept], "CLF", "", (path,)))
    return words


def _noun_tag(concept: str) -> str:
    if concept in NAMES or concept in TOWNS:
        return "PROPN"
    if concept in PRONOUNS or concept in ("who", "what", "where", "this", "that"):
        return "PRON"
    return "NOUN"
