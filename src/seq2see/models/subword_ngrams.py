"""Words from their letters: a word's vector is its own, and what the vectors of its n-grams add up to.

Bojanowski et al. 2017, section 3.2: "where" is <where>, and <wh, whe, her, ere, re>. Whoever has never read
"unfriendly" has read "<un", "friend" and "ly>", and so knows that it is no verb. Compare `frontends.py`: there each
piece of a word is a token of its own, and an encoder must put them together; here it reads words, one vector for each.

N-grams are not listed but hashed, each into one row of a table. Two that share a row must get along, which costs
little: they seldom meet. So no vocabulary of words is learned or kept, and no word is unknown.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Sequences, WordSequences
from seq2see.layers.dropout import Dropout

BASE, PRIME = 1_000_003, 2**31 - 1
"""Of the hashes: BASE times any number below PRIME still fits into 64 bits."""


def shift_right(values: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """At each time what stood one earlier; 0 at the first."""
    return functional.pad(values, (1, 0))[:, :-1]


def positions_in_words(words: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """How many letters of its word stand before each letter.

    >>> places_in_words(torch.tensor([[0, 1, 1, 1, 2, 2, 0]])).tolist()
    [[0, 0, 1, 2, 0, 1, 0]]
    """
    times = torch.arange(words.size(1), device=words.device).expand_as(words)
    begins = words != shift_right(words)
    return times - torch.where(begins, times, 0).cummax(1).values


def ngram_hashes(
    characters: Int[Tensor, "row time"], words: Int[Tensor, "row time"], max_n: int
) -> tuple[Int[Tensor, "row time order"], Bool[Tensor, "row time order"]]:
    """The hashes of the n-grams of 1, 2, ... `max_n` letters that end at each place, and which of them there are.

    An n-gram at the beginning or the end of a word is another one than the same letters in its middle: that is what
    < and > stand for.
    """
    places, ends = positions_in_words(words), words != functional.pad(words, (0, 1))[:, 1:]
    hashes, found = [], []
    hashed = torch.zeros_like(characters)
    for size in range(1, max_n + 1):
        # The n-gram that is shorter by a letter and ends one earlier, and behind it this letter.
        hashed = (shift_right(hashed) * BASE + characters) % PRIME
        begins = places == size - 1
        hashes.append(4 * hashed + 2 * begins + ends)
        found.append(places >= size - 1)
    return torch.stack(hashes, -1), torch.stack(found, -1) & (words > 0)[..., None]


def word_hashes(
    characters: Int[Tensor, "row time"], words: Int[Tensor, "row time"], width: int
) -> Int[Tensor, "row word"]:
    """The hash of each whole word: letter₀ BASE + letter₁ BASE² + ..., as in Karp & Rabin 1987.

    Weights that grow slowly will not do: with 1, 4, 9, ... a third of the words of our own pages share theirs.
    """
    weights = powers(positions_in_words(words) + 1)
    return sum_by_word((characters * weights % PRIME)[..., None], words, width)[..., 0] % PRIME


def powers(exponents: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """BASE to each of these, which are at most as many as there are times, modulo PRIME; by repeated squaring.

    >>> powers(torch.tensor([[0, 1, 2]])).tolist() == [[1, BASE, BASE**2 % PRIME]]
    True
    """
    found, square = torch.ones_like(exponents), BASE
    for bit in range(exponents.size(1).bit_length()):
        found = torch.where((exponents >> bit) % 2 == 1, found * square % PRIME, found)
        square = square**2 % PRIME
    return found


def sum_by_word(
    values: Shaped[Tensor, "row time size"], words: Int[Tensor, "row time"], width: int
) -> Shaped[Tensor, "row word size"]:
    """The sums over each word's letters."""
    sums = values.new_zeros(values.size(0), width, values.size(2))
    return sums.scatter_add(1, words[..., None].expand_as(values), values)


class NgramEmbedding(nn.Module):
    """x = z_w + Σ z_g / √|G|: a word's own vector, and those of its n-grams g; the root keeps long words in bounds.

    Bojanowski et al. 2017, section 3.2, where it is the sum alone. While training some words are left out at random and
    must be known by their n-grams, as they will be by those who have never read them (Lample et al. 2016 leave out rare
    ones). What comes out has words for times; its time 0 is no word, but the beginning.
    """

    def __init__(self, buckets: int, width: int, max_n: int, word_dropout: float, dropout: float):
        super().__init__()
        self.table = nn.Embedding(buckets, width)
        self.max_n = max_n
        self.word_dropout, self.dropout = Dropout(word_dropout), Dropout(dropout)

    def forward(self, characters: Sequences) -> Sequences:
        """A vector for each word."""
        assert isinstance(characters, WordSequences), "n-grams need words"
        words, buckets = characters.word_ids, self.table.num_embeddings
        # Asking a GPU how many words there are would hold it up, so there rows are as wide as their letters.
        width = words.size(1) if words.is_cuda else int(words.max()) + 1
        hashes, found = ngram_hashes(characters.values, words, self.max_n)
        shares = found.to(self.table.weight.dtype)
        parts = functional.embedding_bag(
            (hashes % buckets).flatten(0, 1), self.table.weight, mode="sum", per_sample_weights=shares.flatten(0, 1)
        ).unflatten(0, words.shape)
        counts = sum_by_word(shares.sum(-1, keepdim=True), words, width)
        own = self.table(word_hashes(characters.values, words, width) % buckets)
        stays = self.word_dropout((counts > 0).to(own.dtype))  # nothing but a word has a vector of its own
        vectors = stays * own + sum_by_word(parts, words, width) / counts.clamp(min=1).sqrt()
        return Sequences(self.dropout(vectors), words.amax(1) + 1)
