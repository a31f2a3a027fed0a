"""The pocket corpora: pairs of sentences with gold alignments, and sentences labeled with their tense.

**Alignment.** A pair is two realizations of one meaning. Two words that express the same path of the meaning have a
*sure* link (笔 and "pen"). A word that only helps to express a path (了, 的, 支, "last") has a *possible* link to the
word that expresses it. Words without a counterpart (吗, "do", "the") have no link. The alignment error rate is computed
from sure and possible links (Och & Ney 2003, section 4).

**Splits.** The split of a sentence is a function of its *content* (`meaning.content_words`): its nouns, names, verbs,
adjectives and places with their roles. Sentences of equal content may differ in number, tense, question or pronoun;
they always belong to the same split.

* `train`, `valid`, `test`: by a hash of the content.
* `pairs`: an adjective with a noun, or a verb with an object, that never occur together in training, though each of
  the two is common there (systematicity in the sense of Lake & Baroni 2018).
* `roles`: a few words occur in training only as subjects; here they are objects.
* `length`: 13 to 24 words in both languages; training has at most 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from seq2see.core.errors import UserError
from seq2see.core.seeds import derive_seed, generator, uniform
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.generated.pocket import chinese, english
from seq2see.data.generated.pocket.meaning import (
    ADJECTIVES,
    PRONOUNS,
    VERBS,
    Clause,
    CompoundSentence,
    Meaning,
    NounPhrase,
    Word,
    content_words,
)
from seq2see.data.generated.pocket.sample_sentences import SentenceSampler

# --- pairs ---


class Language(NamedTuple):
    """The two functions of a language: surface realization (meaning to words) and detokenization (words to text)."""

    realize: Callable[[Meaning], list[Word]]
    detokenize: Callable[[list[Word]], str]


LanguageCode = Literal["zh", "en"]
LANGUAGES: dict[str, Language] = {
    "zh": Language(chinese.realize, chinese.detokenize),
    "en": Language(english.realize, english.detokenize),
}


def translate(meaning: Meaning, source: Language, target: Language) -> Example:
    """Realize one meaning in two languages and align the words.

    Chinese text is the words joined without spaces, English text the words joined by spaces, except that
    there is no space before a question mark.
    """
    source_words, target_words = source.realize(meaning), target.realize(meaning)
    links, possible_links = align(source_words, target_words)
    source_texts, source_tags, *_ = zip(*source_words, strict=True)
    target_texts, target_tags, *_ = zip(*target_words, strict=True)
    return Example(
        source.detokenize(source_words),
        target.detokenize(target_words),
        sure_links=links,
        possible_links=possible_links,
        source_words=source_texts,
        target_words=target_texts,
        source_tags=source_tags,
        target_tags=target_tags,
    )


Links = tuple[tuple[int, int], ...]


def align(source: list[Word], target: list[Word]) -> tuple[Links, Links]:
    """Sure and possible links between two realizations of one meaning."""
    source_nodes = {word.node: index for index, word in enumerate(source) if word.node}
    target_nodes = {word.node: index for index, word in enumerate(target) if word.node}
    sure = [(index, target_nodes[node]) for node, index in source_nodes.items() if node in target_nodes]
    possible_links = []
    for index, word in enumerate(source):
        possible_links += [(index, target_nodes[node]) for node in word.secondary_nodes if node in target_nodes]
    for index, word in enumerate(target):
        possible_links += [(source_nodes[node], index) for node in word.secondary_nodes if node in source_nodes]
    return tuple(sure), tuple(dict.fromkeys(possible_links))


# --- splits ---


SEED = 2025
SIZES = {"valid": 750, "test": 750, "pairs": 500, "roles": 500, "length": 500}
MAX_TRAIN_WORDS, MAX_WORDS = 12, 24
MAX_CONTENT_WORDS = 7
"""The most content words of a training sentence; a sentence with more can only be in `length`."""
SUBJECT_ONLY = frozenset(["Lucy", "Jack", "nurse", "singer", "woman", "neighbour", "monkey", "panda"])
DEMO_SENTENCE = Clause("have", NounPhrase("I"), NounPhrase("pen"))
"""我有一支笔, the sentence of the first tutorial: always in `test`, so that no model is trained on it."""
DEMO_CONTENT = content_words(DEMO_SENTENCE)


def _held_out(kind: str, word: str, partners: tuple[str, ...]) -> list[tuple[str, str]]:
    """One in eight of a word's partners, chosen by hash; every word retains enough partners for training."""
    chosen = sorted(partners, key=lambda partner: derive_seed(SEED, f"{kind}/{word}/{partner}"))
    return [(word, partner) for partner in chosen[: round(len(partners) / 8)]]


def held_out_pairs() -> frozenset[tuple[str, str]]:
    """(adjective, noun) and (verb, object) pairs that occur together only in `pairs`."""
    pairs = [pair for adjective in ADJECTIVES for pair in _held_out("quality", adjective.concept, adjective.nouns)]
    for verb in VERBS:
        partners = tuple(noun for noun in verb.objects if noun not in PRONOUNS)
        pairs += _held_out("deed", verb.concept, partners)
    return frozenset(pairs) - {("have", "pen")}


HELD_OUT = held_out_pairs()


def pairs_of(meaning: Meaning) -> Iterator[tuple[str, str]]:
    """All (adjective, noun) and (verb, object) pairs of a sentence."""
    if isinstance(meaning, CompoundSentence):
        yield from pairs_of(meaning.first)
        yield from pairs_of(meaning.second)
        return
    for noun_phrase in (meaning.subject, meaning.object, meaning.recipient, meaning.companion):
        if noun_phrase:
            yield from _pairs_in(noun_phrase)
    if meaning.goal:
        yield (meaning.verb, meaning.goal.concept)
    noun_phrase = meaning.object
    while noun_phrase:
        yield (meaning.verb, noun_phrase.concept)
        noun_phrase = noun_phrase.second
    noun_phrase = meaning.subject
    while noun_phrase and meaning.adjective:
        yield (meaning.adjective, noun_phrase.concept)
        noun_phrase = noun_phrase.second


def _pairs_in(noun_phrase: NounPhrase) -> Iterator[tuple[str, str]]:
    for adjective in noun_phrase.adjectives:
        yield (adjective, noun_phrase.concept)
    if noun_phrase.clause:
        yield from pairs_of(noun_phrase.clause._replace(object=NounPhrase(noun_phrase.concept)))
    if noun_phrase.owner:
        yield from _pairs_in(noun_phrase.owner)
    if noun_phrase.second:
        yield from _pairs_in(noun_phrase.second)


def split_of(meaning: Meaning) -> str:
    """The split of a sentence and of all others with the same content; "" if it would leak held-out combinations."""
    words = content_words(meaning)
    if words == DEMO_CONTENT:
        return "test"
    misplaced = [role for role, word in words if word in SUBJECT_ONLY and role != "subject"]
    unseen = any(pair in HELD_OUT for pair in pairs_of(meaning))
    if len(words) > MAX_CONTENT_WORDS:
        return "" if misplaced or unseen else "length"
    if misplaced:
        return "" if unseen or set(misplaced) != {"object"} else "roles"
    if unseen:
        return "pairs"
    if len(words) < 2:
        # "I sing": always in training, or this verb would hardly ever occur there with a pronoun.
        return "train"
    share = uniform(SEED, f"split {words}")
    return "valid" if share < 0.04 else "test" if share < 0.08 else "train"


def fill_splits(source: Language, target: Language, size: int) -> dict[str, list[Example]]:
    """Sample sentences until every split is full; `train` has `size` of them."""
    target_sizes = {"train": size, **SIZES}
    splits: dict[str, list[Example]] = {name: [] for name in target_sizes}
    splits["test"].append(translate(DEMO_SENTENCE, source, target))
    sources = {splits["test"][0].source}
    for meanings, names in (
        (_short(), ("train", "valid", "test", "pairs")),
        (_roles(), ("roles",)),
        (_long(), ("length",)),
    ):
        while any(len(splits[name]) < target_sizes[name] for name in names):
            meaning = next(meanings)
            name = split_of(meaning)
            if name in names and len(splits[name]) < target_sizes[name]:
                example = translate(meaning, source, target)
                if has_split_length(example, name) and example.source not in sources:
                    sources.add(example.source)
                    splits[name].append(example)
    return splits


def has_split_length(example: Example, split: str) -> bool:
    """Whether a sentence has the right length for its split, counted in words of both languages."""
    shorter, longer = sorted((len(example.source_words), len(example.target_words)))
    return shorter > MAX_TRAIN_WORDS and longer <= MAX_WORDS if split == "length" else longer <= MAX_TRAIN_WORDS


def _short() -> Iterator[Meaning]:
    sampler = SentenceSampler(generator(SEED, "pocket short"))
    while True:
        yield sampler.sentence()


def _roles() -> Iterator[Meaning]:
    """Clauses whose object is a word that training has only as a subject."""
    sampler = SentenceSampler(generator(SEED, "pocket roles"))
    objects = [(verb, tuple(word for word in verb.objects if word in SUBJECT_ONLY)) for verb in VERBS]
    verbs = [verb._replace(objects=words) for verb, words in objects if words]
    while True:
        yield sampler.transform(sampler.verb_clause(sampler.random.choice(verbs)))


def _long() -> Iterator[Meaning]:
    """Longer sentences of the same grammar: two clauses, or one clause with many modifiers."""
    sampler = SentenceSampler(generator(SEED, "pocket long"), detail=3.0)
    while True:
        yield (
            sampler.compound_sentence()
            if sampler.random.with_probability(0.7)
            else sampler.transform(sampler.verb_clause(sampler.random.choice(VERBS)))
        )


class PocketCorpus(Settings):
    """A small bilingual world: Chinese and English sentences with gold alignments and parts of speech."""

    kind: Literal["pocket"] = "pocket"
    source: LanguageCode = "zh"
    """The source language: zh or en."""
    target: LanguageCode = "en"
    """The target language."""
    size: int = Field(default=32_000, ge=1, le=1_000_000)
    """The number of different training pairs; the other splits do not depend on it."""

    @model_validator(mode="after")
    def _two_languages(self) -> PocketCorpus:
        if self.source == self.target:
            raise UserError(
                f"The pocket corpus cannot translate from '{self.source}' into itself.",
                hint=f"Choose another source or target; there are: {', '.join(LANGUAGES)}.",
            )
        return self

    def splits(self) -> dict[str, list[Example]]:
        """train, valid, test, and the three that test generalization: pairs, roles, length."""
        return fill_splits(LANGUAGES[self.source], LANGUAGES[self.target], self.size)


# --- Sentences labeled with their tense. English marks tense on the verb (went, is going, will go, did not go),
# Chinese by function words (了, 没有, 正在, 会). Time adverbials (yesterday, 昨天), which would reveal the label, are
# omitted. Test and training sentences have no content in common. A few English sentences are ambiguous ("they cut
# bread"); none occurs with both labels. ---


TENSE_LABELS = {"past": "past", "now": "now", "present": "usual", "future": "future"}
"""The label of each tense."""
TENSE_HELD_OUT = 400
"""Sentences to validate on, and to test on."""


class PocketTense(Settings):
    """Sentences of the pocket world, labeled by tense: past, now, usual or future."""

    kind: Literal["tense"] = "tense"
    language: LanguageCode = "en"
    """The language of the sentences: zh or en."""
    size: int = Field(default=4000, ge=1, le=100_000)
    """The number of different training sentences; the other splits do not depend on it."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid and test; each label has a quarter of each."""
        language, sampler = LANGUAGES[self.language], SentenceSampler(generator(SEED, "pocket times"))
        target_sizes = {"train": self.size, "valid": TENSE_HELD_OUT, "test": TENSE_HELD_OUT}
        splits: dict[str, list[Example]] = {name: [] for name in target_sizes}
        remaining = {
            (name, label): -(-size // len(TENSE_LABELS))
            for name, size in target_sizes.items()
            for label in TENSE_LABELS.values()
        }
        texts: set[str] = set()
        while any(len(splits[name]) < size for name, size in target_sizes.items()):
            meaning = sampler.sentence()
            if not isinstance(meaning, Clause):
                continue
            name, label = split_of(meaning), tense_label(meaning)
            if remaining.get((name, label), 0) and len(splits[name]) < target_sizes[name]:
                words = language.realize(meaning._replace(time=""))
                text = language.detokenize(words)
                if text not in texts and not any(
                    word.node.endswith(".time") for word in words
                ):  # the book I read today
                    texts.add(text)
                    remaining[name, label] -= 1
                    splits[name].append(Example(text, label))
        return splits


def tense_label(clause: Clause) -> str:
    """The label of a clause; "" for a copula or existence, a modal verb, or a question about the time."""
    if clause.verb in ("be", "exist") or clause.modal or clause.time == "when":
        return ""
    return TENSE_LABELS[clause.tense]
