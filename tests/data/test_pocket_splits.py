"""The pocket corpus: what it contains, and what training may never have seen."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter

import pytest

from seq2see.core.errors import UserError
from seq2see.core.seeds import generator
from seq2see.core.settings import read_tree
from seq2see.data.generated.pocket import chinese, pocket_corpus
from seq2see.data.generated.pocket.meaning import ADJECTIVES, PRONOUNS, VERBS, Clause, NounPhrase, content_words
from seq2see.data.generated.pocket.pocket_corpus import LANGUAGES, PocketCorpus
from seq2see.data.generated.pocket.sample_sentences import SentenceSampler

ZH, EN = LANGUAGES["zh"], LANGUAGES["en"]
TAGS = {
    "NOUN", "VERB", "ADJ", "PRON", "NUM", "DET", "ADP", "ADV", "AUX", "PART", "PROPN", "PUNCT", "CCONJ", "SCONJ", "CLF",
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus():
    """The corpus as it comes, drawn once."""
    return PocketCorpus().splits()


@pytest.fixture(scope="module")
def everything(corpus):
    return [example for examples in corpus.values() for example in examples]


@pytest.fixture(scope="module")
def meanings():
    """What the splits are drawn from, before anything is refused: short and long sentences."""
    return [
        *itertools.islice(pocket_corpus._short(), 16_000),
        *itertools.islice(pocket_corpus._roles(), 1_000),
        *itertools.islice(pocket_corpus._long(), 4_000),
    ]


@pytest.fixture(scope="module")
def spoken(meanings):
    return [(meaning, ZH.realize(meaning), EN.realize(meaning)) for meaning in meanings]


def test_there_are_more_than_a_hundred_thousand_sentences():
    draw = SentenceSampler(generator(11, "count"))
    assert len({ZH.detokenize(ZH.realize(draw.sentence())) for _ in range(118_000)}) > 100_000


def test_every_sentence_has_one_translation_in_both_directions(spoken):
    """Before duplicates are dropped: neither language leaves anything to choose."""
    for first, second in ((1, 2), (2, 1)):
        known: dict[str, str] = {}
        languages = {1: ZH, 2: EN}
        for words in spoken:
            source, target = languages[first].detokenize(words[first]), languages[second].detokenize(words[second])
            assert known.setdefault(source, target) == target


def test_sizes_are_as_promised(corpus):
    assert {name: len(examples) for name, examples in corpus.items()} == {
        "train": 32_000, "valid": 750, "test": 750, "pairs": 500, "roles": 500, "length": 500,
    }  # fmt: skip


def test_no_sentence_is_in_two_splits(everything):
    assert len({example.source for example in everything}) == len(everything)
    assert len({example.target for example in everything}) == len(everything)


def test_the_words_of_both_languages_are_many_and_each_is_often_in_training(corpus, everything):
    for side in ("source_words", "target_words"):
        trained = Counter(word for example in corpus["train"] for word in getattr(example, side))
        assert len(trained) >= 250
        rare = {word for example in everything for word in getattr(example, side) if trained[word] < 25}
        assert not rare


def test_every_chinese_word_of_the_lexicon_is_used(corpus):
    used = {word for example in corpus["train"] for word in example.source_words}
    assert set(chinese.WORDS.values()) | set(chinese.MEASURES.values()) <= used | {"-"}


def test_words_reproduce_the_text(everything):
    for example in everything:
        assert "".join(example.source_words) == example.source
        assert " ".join(example.target_words).replace(" ?", "?") == example.target
        assert len(example.source_tags) == len(example.source_words)
        assert len(example.target_tags) == len(example.target_words)
        assert {*example.source_tags, *example.target_tags} <= TAGS


def test_sure_links_are_one_to_one_and_possible_links_are_others(everything):
    for example in everything:
        sources, targets = zip(*example.sure_links, strict=True)
        assert len(set(sources)) == len(sources)
        assert len(set(targets)) == len(targets)
        assert not set(example.sure_links) & set(example.possible_links)
        for a, b in (*example.sure_links, *example.possible_links):
            assert 0 <= a < len(example.source_words)
            assert 0 <= b < len(example.target_words)


def test_content_words_are_always_linked(everything):
    """A noun, name or adjective of one language has a counterpart in the other."""
    for example in everything:
        linked_sources, linked_targets = map(set, zip(*example.sure_links, strict=True))
        for tags, linked in ((example.source_tags, linked_sources), (example.target_tags, linked_targets)):
            missing = {place for place, tag in enumerate(tags) if tag in ("NOUN", "PROPN")} - linked
            assert not missing, example


def test_only_questions_end_with_a_mark_and_nothing_else_is_capitalised(everything):
    for example in everything:
        assert example.source.endswith("？") == example.target.endswith("?")
        assert not set("。.!！") & set(example.source + example.target)
        for word, tag in zip(example.target_words, example.target_tags, strict=True):
            assert word[0].islower() or word in ("I", "?") or tag == "PROPN"


def test_twins_share_a_split(meanings):
    """Whatever has the same content words in the same roles goes the same way."""
    way: dict[tuple[tuple[str, str], ...], str] = {}
    for meaning in meanings:
        assert way.setdefault(tuple(content_words(meaning)), pocket_corpus.split_of(meaning)) == pocket_corpus.split_of(
            meaning
        )


def test_changing_details_does_not_change_the_split():
    meaning = Clause("buy", NounPhrase("Mary"), NounPhrase("book"), tense="past", time="yesterday")
    twins = [
        meaning._replace(negated=True, object=NounPhrase("book", "every")),
        meaning._replace(polar_question=True, tense="future", time="tomorrow"),
        meaning._replace(object=NounPhrase("book", "three", "this"), modal="can", tense="present", time=""),
    ]
    assert {pocket_corpus.split_of(twin) for twin in twins} == {pocket_corpus.split_of(meaning)}
    assert content_words(meaning) == [("verb", "buy"), ("subject", "Mary"), ("object", "book")]


def test_the_sentence_shown_to_newcomers_is_in_the_test_split_and_has_no_twin_in_training(corpus):
    assert corpus["test"][0].source == "我有一支笔"
    assert corpus["test"][0].target == "I have a pen"
    for example in corpus["train"]:
        tagged = zip(example.target_words, example.target_tags, strict=True)
        words = {word for word, tag in tagged if tag in ("NOUN", "PROPN", "ADJ", "VERB")}
        assert not (len(words) == 2 and words & {"have", "has"} and words & {"pen", "pens"}), example


@pytest.fixture(scope="module")
def accepted(meanings):
    """What the splits are drawn from, sorted by split."""
    ways: dict[str, list] = {name: [] for name in ("", "train", "valid", "test", "pairs", "roles", "length")}
    for meaning in meanings:
        ways[pocket_corpus.split_of(meaning)].append(meaning)
    return ways


def test_held_out_pairs_meet_only_in_the_pairs_split(accepted):
    held_out = pocket_corpus.HELD_OUT
    for meaning in accepted["pairs"]:
        assert held_out & set(pocket_corpus.pairs_of(meaning))
    for name in ("train", "valid", "test", "roles", "length"):
        for meaning in accepted[name]:
            assert not held_out & set(pocket_corpus.pairs_of(meaning))


def test_held_out_pairs_do_not_meet_in_the_text_of_training(corpus):
    """The same again, without trusting the code: look for adjective + noun in the Chinese words."""
    adjectives = {chinese.WORDS[quality.concept] for quality in ADJECTIVES}
    forbidden = {
        (chinese.WORDS[first], chinese.WORDS[second])
        for first, second in pocket_corpus.HELD_OUT
        if chinese.WORDS[first] in adjectives
    }
    assert len(forbidden) > 50
    for name in ("train", "valid", "test", "roles", "length"):
        for example in corpus[name]:
            words = [word for word in example.source_words if word != "的"]
            for pair in itertools.pairwise(words):
                assert pair not in forbidden


def test_a_fair_share_of_pairs_is_held_out_and_no_word_loses_all_partners():
    for rows, partners in ((ADJECTIVES, "nouns"), (VERBS, "objects")):
        pairs = {(row.concept, word) for row in rows for word in getattr(row, partners)}
        pairs = {pair for pair in pairs if pair[1] not in PRONOUNS}
        assert 0.09 < len(pairs & pocket_corpus.HELD_OUT) / len(pairs) < 0.16
        for row in rows:
            kept = [word for word in getattr(row, partners) if (row.concept, word) not in pocket_corpus.HELD_OUT]
            assert len(kept) >= 2 or not getattr(row, partners)


def test_words_for_roles_are_only_subjects_in_training(accepted):
    for name in ("train", "valid", "test", "pairs", "length"):
        for meaning in accepted[name]:
            roles = {role for role, word in content_words(meaning) if word in pocket_corpus.SUBJECT_ONLY}
            assert roles <= {"subject"}
    for meaning in accepted["roles"]:
        assert any(role == "object" and word in pocket_corpus.SUBJECT_ONLY for role, word in content_words(meaning))


def test_only_the_object_of_a_verb_is_a_new_role():
    nurse = NounPhrase("nurse")
    assert pocket_corpus.split_of(Clause("see", NounPhrase("Tom"), nurse)) == "roles"
    assert pocket_corpus.split_of(Clause("be", NounPhrase("Tom"), nurse)) == ""
    assert pocket_corpus.split_of(Clause("give", NounPhrase("Tom"), NounPhrase("cup"), recipient=nurse)) == ""


def test_names_for_roles_never_follow_a_verb_in_the_text_of_training(corpus):
    """The same again, without trusting the code."""
    for example in corpus["train"]:
        tags = dict(zip(example.target_words[1:], example.target_tags, strict=False))
        assert "VERB" not in (tags.get("Jack"), tags.get("Lucy")), example


def test_training_is_short_and_the_length_split_is_long(corpus):
    for name, examples in corpus.items():
        lengths = [size for e in examples for size in (len(e.source_words), len(e.target_words))]
        assert (min(lengths) >= 13 and max(lengths) <= 24) if name == "length" else max(lengths) <= 12


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(corpus):
    smaller = PocketCorpus(size=211).splits()
    assert smaller["train"] == corpus["train"][:211]
    assert all(smaller[name] == corpus[name] for name in corpus if name != "train")


def test_the_other_direction_has_the_same_pairs(corpus):
    back = PocketCorpus(source="en", target="zh", size=101).splits()
    for name in ("valid", "length"):
        assert [(e.target, e.source) for e in back[name]] == [(e.source, e.target) for e in corpus[name]]


def test_the_corpus_is_the_same_on_every_machine_and_in_every_process(corpus):
    """pytest runs with another hash seed each time. If you changed the language on purpose, change this too."""
    texts = "\n".join(example.source + "\t" + example.target for name in corpus for example in corpus[name])
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "8e5af06ef2fb1ef0"


def test_a_language_cannot_be_translated_into_itself():
    with pytest.raises(UserError, match="into itself"):
        read_tree(PocketCorpus, {"source": "en"})


def test_an_unknown_language_is_a_clear_error():
    with pytest.raises(UserError, match="source"):
        read_tree(PocketCorpus, {"source": "fr"})
