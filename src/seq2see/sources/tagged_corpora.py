"""Tagged words of the catalogue: two treebanks of Universal Dependencies."""

from __future__ import annotations

from seq2see.sources.conll import read_tagged
from seq2see.sources.corpus_files import CatalogueEntry, CorpusFiles, File
from seq2see.sources.hold_out import Splits, hold_out

TAGGED_CORPORA: dict[str, CatalogueEntry] = {
    "ud-english-ewt": CatalogueEntry(
        name="ud-english-ewt",
        description="English of the web, every word with its part of speech; 12,544 + 2,001 sentences",
        license="CC BY-SA 4.0",
        home="https://github.com/UniversalDependencies/UD_English-EWT",
        columns=("words", "tags"),
        files=(
            File(
                "ud-english-ewt/en_ewt-ud-train.conllu.xz",
                14_203_025,
                "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
            ),
            File(
                "ud-english-ewt/en_ewt-ud-dev.conllu.xz",
                1_805_545,
                "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
            ),
        ),
    ),
    "ud-chinese-gsd": CatalogueEntry(
        name="ud-chinese-gsd",
        description="Chinese (traditional characters), every word with its part of speech; 3,997 + 500 sentences",
        license="CC BY-NC-SA 4.0",
        home="https://github.com/UniversalDependencies/UD_Chinese-GSD",
        columns=("words", "tags"),
        files=(
            File(
                "ud-chinese-gsd-r1.4/zh-ud-train.conllu.xz",
                3_281_947,
                "94c1ad7f8f7d545169bafbef367852b965ec5eada13d614d8e8b6b9297ee6d0d",
            ),
            File(
                "ud-chinese-gsd-r1.4/zh-ud-dev.conllu.xz",
                422_074,
                "574a2c826fc4207530be65b9cd9d8d9611a9749716ab1e3349ec681b93c7a42f",
            ),
        ),
    ),
}


def read_universal_dependencies(corpus_files: CorpusFiles, source: str, target: str) -> Splits:
    """The development sentences are the test split; some of the training sentences are held out as valid."""
    train, test = (read_tagged(path)[0] for path in corpus_files.paths)
    return hold_out(train, test=test, allow_overlap=True)  # short sentences such as "Thanks !" occur many times
