"""Reading the corpora of the catalogue (`entries.py`): texts, pairs of texts, images and pronunciations.

The classes are the settings of a recipe. `get_corpus` in `corpus_files.py` finds or downloads the files.

Of the pronouncing dictionary CMUdict every line is counted, and it is split by word. A line is a word and its phonemes
in ARPAbet: 24 consonants, and 15 vowels that end in their stress (0 none, 1 primary, 2 secondary). `word(2)` is another
pronunciation of `word`, and a comment may follow after `#`:

    tomato T AH0 M EY1 T OW2
    tomato(2) T AH0 M AA1 T OW2
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.seeds import derive_seed
from seq2see.core.settings import Settings
from seq2see.data.catalogue.corpus_files import (
    MAX_BYTES,
    CorpusFiles,
    find_entry,
    get_corpus,
    print_note,
)
from seq2see.data.catalogue.download import extracted_member, read_tar_members
from seq2see.data.catalogue.entries import (
    FURTHER_TESTS,
    LABELED_CORPORA,
    TAGGED_CORPORA,
)
from seq2see.data.examples import Example
from seq2see.data.hold_out import Splits, hold_out, hold_out_components
from seq2see.data.readers.conll import read_tagged
from seq2see.data.readers.data_report import DataReport, ErrorPolicy, Location
from seq2see.data.readers.image_files import ImageItem, LoadedImages, load_images
from seq2see.data.readers.image_sets import ImageSplits, hold_out_images, resize_packed
from seq2see.data.readers.lines import Line, read_lines
from seq2see.data.readers.packed_images import PackedImages, read_cifar, read_mnist, read_sprites
from seq2see.data.readers.pair_files import read_pairs
from seq2see.data.readers.texts import hold_out_end, read_text
from seq2see.data.readers.user_images import with_captions

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG",
    "P", "R", "S", "SH", "T", "TH", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
PHONEMES = frozenset([*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in "012")])

SPELLING = re.compile(r"[a-z'.-]+")
"""The characters of a word. Dots and hyphens belong to it: `u.s.` is pronounced letter by letter."""
VARIANT = re.compile(r"\(\d+\)$")

SEED = 1
TEST, VALID = 5000, 2000
"""The number of words that are held out ..."""
TEST_SHARE, VALID_SHARE = 20, 50
"""... but of a small dictionary at most one word in 20 and one in 50."""

Dictionary = dict[str, dict[str, str]]
"""For each word its pronunciations in the order of the file, with the location of each."""


def read_dictionary(path: Path, report: DataReport) -> Dictionary:
    """All words of a file; issues are added to the report, and read = kept + skipped + rejected."""
    words: Dictionary = {}
    for line in read_lines(path, report):
        report.read += 1
        word, *phonemes = line.text.partition("#")[0].split() or [""]
        spelling, pronunciation = VARIANT.sub("", word), " ".join(phonemes)
        if not line.is_valid or _has_error(word, phonemes, line, report):
            report.rejected += 1
        elif not word or word.startswith(";;;") or _is_ignored(spelling, pronunciation, words, line, report):
            report.skipped += 1
        else:
            words.setdefault(spelling, {})[pronunciation] = f"{line.file}:{line.number}"
            report.kept += 1
    if not words and report.first_error is None:
        report.add_issue("no examples", Line(str(path), 0, 0, "").location(), "There is no word in it.")
    return words


def _has_error(word: str, phonemes: list[str], line: Line, report: DataReport) -> bool:
    """Whether a word has no phonemes, or an unknown one; if so, an issue is added to the report."""
    if not word or word.startswith(";;;"):
        return False
    if not phonemes:
        report.add_issue("empty field", line.location(), "The word has no phonemes.", text=line.text)
        return True
    unknown = [phoneme for phoneme in phonemes if phoneme not in PHONEMES]
    if unknown:
        report.add_issue("unknown phoneme", line.location(), f"There is no phoneme '{unknown[0]}'.", text=line.text)
    return bool(unknown)


def _is_ignored(spelling: str, pronunciation: str, words: Dictionary, line: Line, report: DataReport) -> bool:
    """Whether a valid entry is skipped: words with digits or accents are too rare, duplicates are redundant."""
    if not SPELLING.fullmatch(spelling):
        message = f"'{spelling}' has other characters than a-z, apostrophes, hyphens and dots."
        report.add_issue("unsupported characters", line.location(), message, text=line.text)
        return True
    first = words.get(spelling, {}).get(pronunciation)
    if first:
        message = f"The same pronunciation is at {first}."
        report.add_issue("duplicate pronunciation", line.location(), message, text=line.text)
    return first is not None


def split_by_word(words: Dictionary) -> Splits:
    """Split by word, pseudo-randomly and reproducibly: no held-out word occurs in training with any pronunciation.

    In training every pronunciation is an example, because each is correct. A held-out word is one example: its first
    pronunciation is the target, and all of them are its `references`. The split of a word depends on a hash of its
    spelling, so a new edition of the dictionary changes the split of few words.
    """
    if len(words) < 3:
        message = (
            f"There are {len(words)} different words, and at least 3 are needed: one each for train, valid and test."
        )
        raise UserError(message, hint="Use a larger dictionary.")
    order = sorted(words, key=lambda word: (derive_seed(SEED, f"pronunciation split {word}"), word))
    test = set(order[: max(1, min(TEST, len(words) // TEST_SHARE))])
    valid = set(order[-max(1, min(VALID, len(words) // VALID_SHARE)) :])
    splits: Splits = {"train": [], "valid": [], "test": []}
    for word, pronunciations in words.items():
        references = tuple(pronunciations)
        examples = [
            Example(word, pronunciation, references=references, location=location)
            for pronunciation, location in pronunciations.items()
        ]
        if word in test or word in valid:
            splits["test" if word in test else "valid"].append(examples[0])
        else:
            splits["train"] += examples
    return splits


SOUND_KINDS = {"digits": "digit-strings", "pinyin": "mandarin-words"}
"""The kind of the corpus that reads recordings with these texts."""


class CatalogueCorpus(Settings):
    """A real corpus of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue"] = "catalogue"
    name: str = "multi30k"
    """The name of the corpus in the catalogue."""
    languages: str | None = None
    """Source and target language, such as en-de or fr-en; by default the first two of the corpus."""

    def splits(self) -> Splits:
        """The examples as train, valid and test; downloaded first if they are not on this machine."""
        source, target = self.column_pair
        return PAIR_READERS[self.name](get_corpus(self.name), source, target)

    @property
    def column_pair(self) -> tuple[str, str]:
        """The names of the source and target columns."""
        entry = find_entry(self.name)
        if entry.columns == ("text",):
            raise UserError(f"{entry.name} is running text, not pairs.", hint="Set corpus.kind=catalogue-text.")
        if entry.columns[0] == "image":
            message = f"{entry.name} is a set of images, not of texts."
            raise UserError(message, hint="Set corpus.kind=catalogue-images, in a recipe for images.")
        if entry.columns[0] == "sound":
            message, kind = f"{entry.name} is a set of recordings, not of texts.", SOUND_KINDS[entry.columns[1]]
            raise UserError(message, hint=f"Set corpus.kind={kind}, in a recipe of the task transcribe.")
        if self.languages is None:
            return entry.columns[0], entry.columns[1]
        source, dash, target = self.languages.partition("-")
        if not dash:
            message = f"'{self.languages}' does not name a source and a target."
            raise UserError(message, hint="Write corpus.languages like en-de.")
        for language in (source, target):
            if language not in entry.columns:
                raise unknown_name(f"language of {entry.name}", language, entry.columns)
        if source == target:
            message = f"Source and target of {entry.name} are both '{source}'."
            raise UserError(message, hint="Write corpus.languages with two different names.")
        return source, target


class CatalogueText(Settings):
    """A running text of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-text"] = "catalogue-text"
    name: Literal["tinyshakespeare", "timemachine", "ptb"] = "tinyshakespeare"
    """The text: Shakespeare's plays, The Time Machine, or the sentences of the Penn Treebank."""

    def splits(self) -> Splits:
        """Train, valid and test; downloaded first if they are not on this machine."""
        return TEXT_READERS[self.name](get_corpus(self.name).paths)


class CatalogueImages(Settings):
    """An image set of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-images"] = "catalogue-images"
    name: Literal["mnist", "fashion-mnist", "cifar10", "flickr8k-small"] = "cifar10"
    """The name of the image set in the catalogue."""

    def images(self, image_size: int, channels: int) -> tuple[ImageSplits, list[DataReport]]:
        """Train, valid and test in this size; downloaded first if they are not on this machine."""
        report = DataReport(unit="images")
        splits = IMAGE_READERS[self.name](get_corpus(self.name), image_size, channels, report)
        report.raise_for_errors(ErrorPolicy())
        return hold_out_images(splits), [report]


# --- pairs: two texts, a text and its label, words and their tags, spelling and pronunciation ---


def read_multi30k(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Multi30k: line n of one language is the translation of line n of another; the splits are the authors'."""
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr", **FURTHER_TESTS}
    paths = {path.name: path for path in corpus_files.paths}
    splits: Splits = {}
    for split, name in names.items():
        files = [f"{name}.{language}.gz" for language in (source, target)]
        if split not in FURTHER_TESTS or all(file in paths for file in files):
            splits[split] = read_pairs([paths[file] for file in files])[0]
    return splits


def read_tatoeba(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """Tatoeba: English, the other language and (not always) an attribution, separated by tabs.

    One sentence often has several translations, so a pair is held out together with all pairs that share a text.
    """
    file, path = corpus_files.files[0], corpus_files.paths[0]
    shown_path = f"{path}/{file.member}" if file.member else str(path)
    with ExitStack() as stack:
        table = stack.enter_context(extracted_member(path, file.member, MAX_BYTES)) if file.member else path
        # Volunteers write this corpus: a few invalid lines in a new edition are skipped, with a message.
        examples, report = read_pairs([table], ErrorPolicy("skip"))
    if report.rejected:
        print_note(f"{path}: {report.rejected:,} of {report.read:,} lines are invalid and were skipped.")
    return hold_out_components([_swap_languages(example, source, str(table), shown_path) for example in examples])


def _swap_languages(example: Example, source: str, table: str, shown_path: str) -> Example:
    """The example in this direction; its location has the path of the corpus file instead of the temporary one."""
    location = example.location.replace(table, shown_path)
    if source == "en":
        return replace(example, location=location)
    return replace(example, source=example.target, target=example.source, location=location)


def read_cmudict(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """CMUdict: spelling to phonemes. A word with several pronunciations has several references."""
    if source != "letters":
        hint = "Remove corpus.languages, or set it to letters-phonemes."
        raise UserError("cmudict can only be read from letters to phonemes.", hint=hint)
    report = DataReport()
    words = read_dictionary(corpus_files.paths[0], report)
    report.raise_for_errors(ErrorPolicy())
    if skipped := report.counts["unsupported characters"]:
        reason = "they have digits or other unsupported characters"
        print_note(f"{corpus_files.paths[0]}: {skipped:,} of {report.read:,} words were skipped: {reason}.")
    return split_by_word(words)


LABEL_NAMES = {"0": "negative", "1": "positive"}
"""The names of the labels of SST-2."""


def read_labeled(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The published development texts are the test split; some of the training texts are held out as valid.

    Training texts that also occur in the test split are removed.
    """
    train, test = ([_labeled(example) for example in read_pairs([path])[0]] for path in corpus_files.paths)
    train, test = ([example for example in each if example.target != "label"] for each in (train, test))
    test_sources = {example.source for example in test}
    return hold_out([example for example in train if example.source not in test_sources], test=test)


def _labeled(example: Example) -> Example:
    """The example with the text as source and the label as target; SST-2 has them swapped, with a header."""
    if example.source in (*LABEL_NAMES, "label"):
        label = LABEL_NAMES.get(example.source, example.source)
        return replace(example, source=example.target.strip(), target=label)
    return example


def read_universal_dependencies(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The development sentences are the test split; some of the training sentences are held out as valid."""
    train, test = (read_tagged(path)[0] for path in corpus_files.paths)
    return hold_out(train, test=test, allow_overlap=True)  # short sentences such as "Thanks !" occur many times


PAIR_READERS: dict[str, Callable[[CorpusFiles, str, str], Splits]] = {
    "multi30k": read_multi30k,
    "tatoeba-zh-en": read_tatoeba,
    "tatoeba-fr-en": read_tatoeba,
    "cmudict": read_cmudict,
    **dict.fromkeys(LABELED_CORPORA, read_labeled),
    **dict.fromkeys(TAGGED_CORPORA, read_universal_dependencies),
}


# --- running text: plays, a novel, the sentences of a treebank ---


TRAIN_SHARE = 0.9
"""The share of the plays, from their beginning, that is the usual training split."""


def read_tinyshakespeare(paths: list[Path]) -> Splits:
    """The first 90 % of the characters as train and the rest as valid, the usual split; there is no test split."""
    text, _ = read_text(paths[0])
    cut = int(TRAIN_SHARE * len(text.target))
    parts = {"train": text.target[:cut], "valid": text.target[cut:]}
    return {name: [Example("", part, location=text.location)] for name, part in parts.items()} | {"test": []}


def read_timemachine(paths: list[Path]) -> Splits:
    """One text, whose end is held out."""
    return hold_out_end({"train": [read_text(paths[0])[0]], "valid": [], "test": []})


def read_ptb(paths: list[Path]) -> Splits:
    """A file for each split; a line is a sentence, and the line ending is a token like any other."""
    return {name: [read_text(path)[0]] for name, path in zip(("train", "valid", "test"), paths, strict=True)}


TEXT_READERS: dict[str, Callable[[list[Path]], Splits]] = {
    "tinyshakespeare": read_tinyshakespeare,
    "timemachine": read_timemachine,
    "ptb": read_ptb,
}

# --- images ---


FASHION_MNIST_CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
"""The classes of Fashion-MNIST in their order (Xiao, Rasul & Vollgraf 2017)."""


def read_mnist_corpus(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """MNIST: the label of an image is its digit."""
    return _all_in_size(read_mnist(corpus_files.paths[0].parent), image_size, channels, report)


def read_fashion_mnist(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """Fashion-MNIST: the label of an image is the name of its class, not the class index."""
    splits = {
        split: PackedImages(each.pixels, tuple(FASHION_MNIST_CLASSES[int(label)] for label in each.labels), each.file)
        for split, each in read_mnist(corpus_files.paths[0].parent).items()
    }
    return _all_in_size(splits, image_size, channels, report)


def read_cifar10(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """CIFAR-10, in the format that was found: sprites or binary batches."""
    first = corpus_files.paths[0]
    read = read_sprites if first.suffix == ".png" else read_cifar
    return _all_in_size(read(first.parent), image_size, channels, report)


def _all_in_size(
    splits: dict[str, PackedImages], image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    return {name: resize_packed(each, image_size, channels, report) for name, each in splits.items()}


def read_flickr8k(
    corpus_files: CorpusFiles, image_size: int, channels: int, report: DataReport
) -> dict[str, LoadedImages]:
    """Flickr8k: the development images are the test split; some of the training images are held out as valid."""
    archive, captions, *lists = corpus_files.paths
    captions_of: dict[str, list[str]] = {}
    for row in read_pairs([captions])[0]:
        captions_of.setdefault(row.source.partition("#")[0], []).append(row.target.strip())
    names_of = {split: _read_names(path) for split, path in zip(("train", "test"), lists, strict=True)}
    contents = read_tar_members(archive, {name for names in names_of.values() for name in names})
    splits = {}
    for split, names in names_of.items():
        for name in names:
            if name not in contents or name not in captions_of:
                message = f"There is no {'image' if name not in contents else 'caption of'} '{name}'."
                raise UserError(message, location=str(archive if name not in contents else captions))
        items = [ImageItem(Path(name), captions_of[name][0], name, Location(f"{archive}/{name}")) for name in names]
        loaded = load_images(items, image_size, channels, report, lambda each: contents[each.name])
        splits[split] = with_captions(loaded, captions_of)
    return splits


def _read_names(path: Path) -> list[str]:
    """The names of a file, one per line."""
    report = DataReport()
    names = [line.text.strip() for line in read_lines(path, report)]
    report.raise_for_errors(ErrorPolicy())
    return [name for name in names if name]


IMAGE_READERS: dict[str, Callable[[CorpusFiles, int, int, DataReport], dict[str, LoadedImages]]] = {
    "mnist": read_mnist_corpus,
    "fashion-mnist": read_fashion_mnist,
    "cifar10": read_cifar10,
    "flickr8k-small": read_flickr8k,
}
