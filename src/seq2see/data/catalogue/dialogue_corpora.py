"""Reading the corpora of dialogues of the catalogue: everyday dialogues, chit-chat, and questions with answers.

They are dialogues of two people, without a user and an assistant. The first speaker becomes the user. In training, each
dialogue is also used from its second message on, with exchanged roles, so that every message but the first is a reply.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.catalogue.corpus_files import CorpusFiles, get_corpus
from seq2see.data.dialogue import Dialogue, alternating
from seq2see.data.examples import Example
from seq2see.data.hold_out import hold_out
from seq2see.data.readers.lines import read_chunks

END_OF_MESSAGE = "__eou__"
MAX_MEMBER = 1 << 20
"""No file of an archive is larger than this."""


class CatalogueDialogues(Settings):
    """Real dialogues of the catalogue: `seq2see data list` shows them."""

    kind: Literal["catalogue-dialogues"] = "catalogue-dialogues"
    name: Literal["xdailydialog", "chitchat", "chatterbot"] = "xdailydialog"
    """Everyday dialogues (xdailydialog), chit-chat of strangers (chitchat), or questions and answers (chatterbot)."""
    language: Literal["en", "zh"] = "en"
    """The language; chitchat is English."""

    def splits(self) -> dict[str, list[Example]]:
        """Train, valid and test; downloaded first if they are not on this machine."""
        if self.name == "chitchat" and self.language != "en":
            raise UserError("chitchat has English dialogues only.", hint="Set corpus.language=en.")
        dialogues = DIALOGUE_READERS[self.name](get_corpus(self.name), self.language)
        return hold_out_dialogues(dialogues)


def read_xdailydialog(corpus_files: CorpusFiles, language: str) -> list[Dialogue]:
    """XDailyDialog (Liu et al. 2023): two files of a thousand dialogues, of which some occur in both.

    A dialogue of the second file that shares two adjacent messages with the first is left out.
    """
    paths = [path for path in corpus_files.paths if path.name.lower().find(language) >= 0]
    first, second = ([_eou_dialogue(line) for line in read_text_lines(path)] for path in sorted(paths))
    first_pairs = {pair for texts in first for pair in pair_hashes(texts)}
    kept = [texts for texts in second if first_pairs.isdisjoint(pair_hashes(texts))]
    return [alternating(texts, f"xdailydialog {language}") for texts in (*first, *kept) if len(texts) > 1]


def _eou_dialogue(line: str) -> list[str]:
    """The messages of a line; after them may be numbers (topic, emotions), separated by tabs."""
    return [each.strip() for each in line.split("\t")[0].split(END_OF_MESSAGE) if each.strip()]


def pair_hashes(texts: Sequence[str]) -> set[bytes]:
    """A hash of every two adjacent messages, without case, punctuation and spaces."""
    plain = ["".join(letter for letter in text.lower() if letter.isalnum()) for text in texts]
    return {hashlib.sha256(f"{first}\n{second}".encode()).digest() for first, second in pairwise(plain)}


def read_chitchat(corpus_files: CorpusFiles, language: str) -> list[Dialogue]:
    """The chitchat dataset (Myers et al. 2020): a message consists of what one person writes in a row."""
    path = corpus_files.paths[0]
    try:
        conversations = json.loads(b"".join(read_chunks(path)))
        found = [
            [" ".join(" ".join(part["text"].split()) for part in message) for message in each["messages"]]
            for each in conversations.values()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"This is not the chitchat dataset: {error!r}.", location=str(path)) from None
    found = [[text for text in texts if text] for texts in found]
    return [alternating(texts, f"chitchat {number + 1}") for number, texts in enumerate(found) if len(texts) > 1]


def read_chatterbot(corpus_files: CorpusFiles, language: str) -> list[Dialogue]:
    """The ChatterBot corpus: one file for each subject, from an archive or from the installed package."""
    folder = {"en": "english", "zh": "chinese"}[language]
    path = corpus_files.paths[0]
    contents = _tar_texts(path, f"/{folder}/") if path.name.endswith(".tar.xz") else _folder_texts(path, folder)
    return [alternating(texts, f"chatterbot {language}") for text in contents for texts in parse_yaml_lists(text)]


def _folder_texts(path: Path, folder: str) -> list[str]:
    return [each.read_text(encoding="utf-8") for each in sorted((path.parent.parent / folder).glob("*.yml"))]


def _tar_texts(path: Path, folder: str) -> list[str]:
    """The .yml files of a folder of a compressed archive, read into memory."""
    try:
        with tarfile.open(fileobj=io.BytesIO(b"".join(read_chunks(path))), mode="r:") as archive:
            members = [each for each in archive if each.isreg() and folder in each.name and each.name.endswith(".yml")]
            files = [archive.extractfile(each) for each in members if each.size <= MAX_MEMBER]
            return [file.read().decode("utf-8") for file in files if file]
    except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"This archive cannot be read: {error}.", location=str(path)) from None


def parse_yaml_lists(text: str) -> list[list[str]]:
    """The lists of texts in a file of ChatterBot: `- - first` begins one, `  - next` continues it.

    >>> parse_yaml_lists("conversations:\\n- - Hi\\n  - Hello\\n- - Bye\\n  - See you")
    [['Hi', 'Hello'], ['Bye', 'See you']]
    """
    found: list[list[str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("- - "):
            found.append([_unquote(stripped[4:])])
        elif found and stripped.startswith("- ") and line.startswith((" ", "\t")):
            found[-1].append(_unquote(stripped[2:]))
        elif found and stripped and line.startswith("    "):  # a text that continues on the next line
            found[-1][-1] = f"{found[-1][-1]} {_unquote(stripped)}".strip()
    return [texts for each in found if len(texts := [text for text in each if text]) > 1]


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def read_text_lines(path: Path) -> list[str]:
    """The lines of a compressed text file that are not blank."""
    lines = b"".join(read_chunks(path)).decode("utf-8").split("\n")
    return [line for line in lines if line.strip()]


DIALOGUE_READERS: dict[str, Callable[[CorpusFiles, str], list[Dialogue]]] = {
    "xdailydialog": read_xdailydialog,
    "chitchat": read_chitchat,
    "chatterbot": read_chatterbot,
}


def hold_out_dialogues(dialogues: Sequence[Dialogue]) -> dict[str, list[Example]]:
    """Train, valid and test by a hash of the dialogues; in training each is also used from its second message on."""
    splits: dict[str, Any] = hold_out(list(dialogues), allow_overlap=True)
    held_out = [*splits["valid"], *splits["test"]]
    held_out_pairs = {pair for each in held_out for pair in pair_hashes([message.content for message in each.messages])}
    train: list[Example] = []
    for each in splits["train"]:
        texts = [message.content for message in each.messages]
        if held_out_pairs.isdisjoint(pair_hashes(texts)):
            train += [each, *_from_second(texts, each.location)]
    return {"train": train, "valid": splits["valid"], "test": splits["test"]}


def _from_second(texts: Sequence[str], location: str) -> Iterable[Dialogue]:
    """The dialogue from its second message on, in which the roles are exchanged."""
    return [alternating(texts[1:], location)] if len(texts) > 2 else []
