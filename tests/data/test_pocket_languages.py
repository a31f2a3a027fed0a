"""The pocket languages, sentence by sentence, and a third one made of a handful of words."""

from __future__ import annotations

import pytest

from seq2see.core.seeds import generator
from seq2see.data.generated.pocket.english import PLURALS, VERB_FORMS
from seq2see.data.generated.pocket.meaning import Clause, CompoundSentence, NounPhrase, Place, Word
from seq2see.data.generated.pocket.pocket_corpus import LANGUAGES, Language, translate
from seq2see.data.generated.pocket.sample_noun_phrases import RandomChoice
from seq2see.data.generated.pocket.sample_sentences import Transformations

ZH, EN = LANGUAGES["zh"], LANGUAGES["en"]
ME, YOU, HE, MARY = NounPhrase("I"), NounPhrase("you"), NounPhrase("he"), NounPhrase("Mary")
PEN = Clause("have", ME, NounPhrase("pen"))
BOUGHT = Clause("buy", ME, tense="past", time="yesterday")

SENTENCES = {
    "measure word": (PEN, "我有一支笔", "I have a pen"),
    "another measure word": (Clause("have", HE, NounPhrase("cat", "three")), "他有三只猫", "he has three cats"),
    "not a": (PEN._replace(negated=True), "我没有笔", "I do not have a pen"),
    "an": (
        Clause("eat", ME, NounPhrase("apple"), tense="past", time="yesterday"),
        "我昨天吃了一个苹果",
        "I ate an apple yesterday",
    ),
    "an before an adjective": (
        Clause("have", MARY, NounPhrase("car", adjectives=("old",))),
        "玛丽有一辆旧汽车",
        "Mary has an old car",
    ),
    "a before useful": (
        Clause("be", NounPhrase("this"), NounPhrase("map", adjectives=("useful",))),
        "这是一张有用的地图",
        "this is a useful map",
    ),
    "portions": (
        Clause("drink", HE, NounPhrase("tea", "two", adjectives=("hot",)), time="every-day"),
        "他每天喝两杯热茶",
        "he drinks two cups of hot tea every day",
    ),
    "pairs": (Clause("be", NounPhrase("shoes", owner=HE), adjective="new"), "他的鞋很新", "his shoes are new"),
    "a pair": (
        Clause("be", NounPhrase("shoes", determiner="that"), adjective="new"),
        "那双鞋很新",
        "that pair of shoes is new",
    ),
    "time and place": (
        Clause("read", MARY, NounPhrase("book", "every"), tense="future", time="tomorrow", place=Place("school", "at")),
        "玛丽明天会在学校读书",
        "Mary will read books at school tomorrow",
    ),
    "doing": (
        Clause("run", NounPhrase("dog", "two", "this"), tense="now", place=Place("park")),
        "这两只狗正在公园里跑步",
        "these two dogs are running in the park",
    ),
    "doing with a companion": (
        Clause("swim", ME, companion=MARY, tense="now", place=Place("China")),
        "我正在跟玛丽一起在中国游泳",
        "I am swimming with Mary in China",
    ),
    "yes or no": (
        Clause("like", YOU, NounPhrase("cat", "every"), polar_question=True),
        "你喜欢猫吗？",
        "do you like cats?",
    ),
    "who": (Clause("like", NounPhrase("who"), NounPhrase("tea", "every")), "谁喜欢茶？", "who likes tea?"),
    "what": (
        Clause("buy", HE, NounPhrase("what"), tense="past", time="yesterday"),
        "他昨天买了什么？",
        "what did he buy yesterday?",
    ),
    "where": (
        Clause("be", NounPhrase("cat", owner=ME), place=Place("where", "at")),
        "我的猫在哪里？",
        "where is my cat?",
    ),
    "where to": (Clause("go", YOU, goal=Place("where"), time="today"), "你今天去哪里？", "where do you go today?"),
    "when": (Clause("swim", HE, time="when"), "他什么时候游泳？", "when does he swim?"),
    "how many": (Clause("have", YOU, NounPhrase("book", "how-many")), "你有几本书？", "how many books do you have?"),
    "whose": (
        Clause("be", NounPhrase("this"), NounPhrase("pen", owner=NounPhrase("who"))),
        "这是谁的笔？",
        "whose pen is this?",
    ),
    "not in the past": (
        Clause("write", ME, NounPhrase("letter", "every"), tense="past", time="last-week", negated=True),
        "我上周没有写信",
        "I did not write letters last week",
    ),
    "cannot": (Clause("swim", HE, modal="can", negated=True), "他不能游泳", "he cannot swim"),
    "wants to": (
        Clause("listen", HE, NounPhrase("music", "every"), modal="want-to"),
        "他想听音乐",
        "he wants to listen to music",
    ),
    "family": (
        Clause("be", NounPhrase("mother", owner=ME), adjective="busy", degree="very"),
        "我妈妈非常忙",
        "my mother is very busy",
    ),
    "too": (
        Clause("be", NounPhrase("pen", determiner="this"), adjective="expensive", degree="too"),
        "这支笔太贵了",
        "this pen is too expensive",
    ),
    "was": (
        Clause("be", ME, adjective="tired", tense="past", time="yesterday", negated=True),
        "我昨天不累",
        "I was not tired yesterday",
    ),
    "there is": (
        Clause("exist", object=NounPhrase("book"), place=Place("table", "on")),
        "桌子上有一本书",
        "there is a book on the table",
    ),
    "there is no": (
        Clause("exist", object=NounPhrase("book", adjectives=("old",)), place=Place("table", "on"), negated=True),
        "桌子上没有旧书",
        "there is no old book on the table",
    ),
    "giving": (
        Clause("give", MARY, NounPhrase("letter"), recipient=HE, tense="past", time="yesterday"),
        "玛丽昨天给了他一封信",
        "Mary gave him a letter yesterday",
    ),
    "relative clause": (
        Clause("like", HE, NounPhrase("book", determiner="the", clause=BOUGHT)),
        "他喜欢我昨天买的书",
        "he likes the book that I bought yesterday",
    ),
    "and": (
        Clause("be", NounPhrase("Tom", second=MARY), NounPhrase("student", "every")),
        "汤姆和玛丽是学生",
        "Tom and Mary are students",
    ),
    "but": (
        CompoundSentence(
            "but",
            Clause("like", ME, NounPhrase("dog", "every")),
            Clause("like", ME, NounPhrase("cat", "every"), negated=True),
        ),
        "我喜欢狗，但是我不喜欢猫",
        "I like dogs but I do not like cats",
    ),
    "because": (
        CompoundSentence("because", Clause("be", ME, adjective="happy"), PEN),
        "因为我有一支笔，所以我很高兴",
        "I am happy because I have a pen",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_meaning_is_realized_as_correct_sentences(name):
    meaning, chinese, english = SENTENCES[name]
    example = translate(meaning, ZH, EN)
    assert (example.source, example.target) == (chinese, english)


def linked(example, links):
    return {(example.source_words[a], example.target_words[b]) for a, b in links}


def test_the_pen_is_aligned_by_hand():
    example = translate(PEN, ZH, EN)
    assert example.source_words == ("我", "有", "一", "支", "笔")
    assert example.sure_links == ((0, 0), (1, 1), (2, 2), (4, 3))
    assert example.possible_links == ((3, 3),)
    assert example.source_tags == ("PRON", "VERB", "NUM", "CLF", "NOUN")
    assert example.target_tags == ("PRON", "VERB", "DET", "NOUN")


def test_order_differs_and_helpers_are_only_possible():
    example = translate(SENTENCES["not in the past"][0], ZH, EN)
    assert linked(example, example.sure_links) == {
        ("我", "I"), ("上周", "week"), ("没有", "not"), ("写", "write"), ("信", "letters"),
    }  # fmt: skip
    assert linked(example, example.possible_links) == {("上周", "last")}


def test_a_reason_is_aligned_across_the_sentence():
    example = translate(SENTENCES["because"][0], ZH, EN)
    assert example.sure_links[0] == (0, 3)
    assert ("所以", "because") in linked(example, example.possible_links)


def test_swapping_the_direction_swaps_the_links():
    for meaning, _, _ in SENTENCES.values():
        there, back = translate(meaning, ZH, EN), translate(meaning, EN, ZH)
        assert set(back.sure_links) == {(b, a) for a, b in there.sure_links}
        assert set(back.possible_links) == {(b, a) for a, b in there.possible_links}


def test_english_spelling_rules_have_their_exceptions():
    assert [PLURALS[noun] for noun in ("pen", "box", "child", "knife", "strawberry", "sheep")] == [
        "pens", "boxes", "children", "knives", "strawberries", "sheep",
    ]  # fmt: skip
    assert VERB_FORMS["cut"] == ("cut", "cuts", "cut", "cutting")
    assert VERB_FORMS["carry"] == ("carry", "carries", "carried", "carrying")
    assert VERB_FORMS["have"] == ("have", "has", "had", "having")
    assert VERB_FORMS["dance"] == ("dance", "dances", "danced", "dancing")
    assert VERB_FORMS["await"].past == "waited"


def test_negation_keeps_the_translation_a_function():
    """After 没有 a bare noun means "a", after any other denial it means "in general"."""
    turns = Transformations(RandomChoice(generator(3, "turns")))
    apple = translate(turns.negative(Clause("eat", ME, NounPhrase("apple"))), ZH, EN)
    assert (apple.source, apple.target) == ("我不吃苹果", "I do not eat apples")
    pens = translate(turns.negative(PEN._replace(object=NounPhrase("pen", "two"))), ZH, EN)
    assert (pens.source, pens.target) == ("我没有笔", "I do not have a pen")
    tea = translate(turns.negative(Clause("have", ME, NounPhrase("tea"))), ZH, EN)
    assert (tea.source, tea.target) == ("我没有茶", "I do not have tea")


TOY_WORDS = {"I": "mi", "you": "tu", "have": "ten", "like": "lik", "pen": "kalam", "cat": "miau", "one": "un"}


def say_in_toy(clause: Clause) -> list[Word]:
    """A language with the verb last and the number behind its noun; what is denied ends in "ne"."""
    words = [Word(TOY_WORDS[clause.subject.concept], "PRON", "subject")]
    words.append(Word(TOY_WORDS[clause.object.concept], "NOUN", "object"))
    if clause.object.number == "one":
        words.append(Word("un", "NUM", "object.number"))
    words.append(Word(TOY_WORDS[clause.verb], "VERB", "verb"))
    if clause.negated:
        words.append(Word("ne", "PART", "verb.not"))
    return words


def test_a_third_language_needs_only_words_and_rules():
    toy = Language(say_in_toy, lambda words: "-".join(word.text for word in words))
    example = translate(PEN, ZH, toy)
    assert example.target == "mi-kalam-un-ten"
    assert linked(example, example.sure_links) == {("我", "mi"), ("有", "ten"), ("一", "un"), ("笔", "kalam")}
    assert linked(example, example.possible_links) == {("支", "kalam")}
    denied = translate(Clause("like", YOU, NounPhrase("cat", "every"), negated=True), toy, EN)
    assert (denied.source, denied.target) == ("tu-miau-lik-ne", "you do not like cats")
    assert linked(denied, denied.sure_links) == {("tu", "you"), ("miau", "cats"), ("lik", "like"), ("ne", "not")}
