"""Word embeddings from subword information: a word's own vector plus the vectors of its character n-grams.

Bojanowski et al. 2017, section 3.2: "where" is <where>, and <wh, whe, her, ere, re>. The unseen word "unfriendly"
shares "<un", "friend" and "ly>" with seen words, which indicate that it is no verb. Compare `embeddings_and_heads.py`:
there each subword is a token, and the encoder combines them; here the encoder gets one vector for each word.

N-grams are hashed into the rows of a table. N-grams with the same row share a vector, which costs little, since they
seldom occur together. So there is no vocabulary of words, and no word is unknown.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Sequences, WordSequences
from seq2see.layers.norms_and_dropout import Dropout

BASE, PRIME = 1_000_003, 2**31 - 1
"""Constants of the hashes: the product of BASE and any number below PRIME fits into 64 bits."""


def shift_right(values: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """The values shifted right by one position; the first is 0."""
    return functional.pad(values, (1, 0))[:, :-1]


def positions_in_words(words: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """The position of each character in its word, from 0.

    >>> positions_in_words(torch.tensor([[0, 1, 1, 1, 2, 2, 0]])).tolist()
    [[0, 0, 1, 2, 0, 1, 0]]
    """
    positions = torch.arange(words.size(1), device=words.device).expand_as(words)
    begins = words != shift_right(words)
    return positions - torch.where(begins, positions, 0).cummax(1).values


def ngram_hashes(
    characters: Int[Tensor, "row time"], words: Int[Tensor, "row time"], max_n: int
) -> tuple[Int[Tensor, "row time order"], Bool[Tensor, "row time order"]]:
    """The hashes of the n-grams of 1, 2, ... `max_n` characters that end at each position, and which of them exist.

    The hash also depends on whether the n-gram begins or ends the word: this is the role of < and > in the paper.
    """
    positions, ends = positions_in_words(words), words != functional.pad(words, (0, 1))[:, 1:]
    hashes, exists = [], []
    current = torch.zeros_like(characters)
    for size in range(1, max_n + 1):
        # The shorter n-gram that ends one position earlier, followed by this character.
        current = (shift_right(current) * BASE + characters) % PRIME
        begins = positions == size - 1
        hashes.append(4 * current + 2 * begins + ends)
        exists.append(positions >= size - 1)
    return torch.stack(hashes, -1), torch.stack(exists, -1) & (words > 0)[..., None]


def word_hashes(
    characters: Int[Tensor, "row time"], words: Int[Tensor, "row time"], width: int
) -> Int[Tensor, "row word"]:
    """The hash of each whole word: character₀ BASE + character₁ BASE² + ..., as in Karp & Rabin 1987.

    Weights that grow slowly lead to collisions: with 1, 4, 9, ... a third of the words of our own pages collide.
    """
    weights = powers(positions_in_words(words) + 1)
    return sum_by_word((characters * weights % PRIME)[..., None], words, width)[..., 0] % PRIME


def powers(exponents: Int[Tensor, "row time"]) -> Int[Tensor, "row time"]:
    """BASE to the power of each exponent, modulo PRIME, by repeated squaring; exponents are at most the row length.

    >>> powers(torch.tensor([[0, 1, 2]])).tolist() == [[1, BASE, BASE**2 % PRIME]]
    True
    """
    result, square = torch.ones_like(exponents), BASE
    for bit in range(exponents.size(1).bit_length()):
        result = torch.where((exponents >> bit) % 2 == 1, result * square % PRIME, result)
        square = square**2 % PRIME
    return result


def sum_by_word(
    values: Shaped[Tensor, "row time size"], words: Int[Tensor, "row time"], width: int
) -> Shaped[Tensor, "row word size"]:
    """The sums over the characters of each word."""
    sums = values.new_zeros(values.size(0), width, values.size(2))
    return sums.scatter_add(1, words[..., None].expand_as(values), values)


class NgramEmbedding(nn.Module):
    """x = z_w + Σ z_g / √|G|: a word's own vector plus those of its n-grams g; the root bounds the norm of long words.

    Bojanowski et al. 2017, section 3.2, use the sum alone. In training the own vectors of random words are dropped, so
    that the n-grams suffice for unknown words (Lample et al. 2016 drop those of rare words). The output has a position
    for each word; position 0 is <bos>.
    """

    def __init__(self, buckets: int, width: int, max_n: int, word_dropout: float, dropout: float):
        super().__init__()
        self.ngram_table = nn.Embedding(buckets, width)
        self.max_n = max_n
        self.word_dropout, self.dropout = Dropout(word_dropout), Dropout(dropout)

    def forward(self, characters: Sequences) -> Sequences:
        """The embedding of each word."""
        assert isinstance(characters, WordSequences), "n-grams need words"
        words, buckets = characters.word_ids, self.ngram_table.num_embeddings
        width = self.output_length(words)
        hashes, exists = ngram_hashes(characters.values, words, self.max_n)
        weights = exists.to(self.ngram_table.weight.dtype)
        ngram_sums = functional.embedding_bag(
            (hashes % buckets).flatten(0, 1),
            self.ngram_table.weight,
            mode="sum",
            per_sample_weights=weights.flatten(0, 1),
        ).unflatten(0, words.shape)
        counts = sum_by_word(weights.sum(-1, keepdim=True), words, width)
        word_vectors = self.ngram_table(word_hashes(characters.values, words, width) % buckets)
        kept = self.word_dropout((counts > 0).to(word_vectors.dtype))  # 0 at positions without a word
        vectors = kept * word_vectors + sum_by_word(ngram_sums, words, width) / counts.clamp(min=1).sqrt()
        return Sequences(self.dropout(vectors), words.amax(1) + 1)

    def output_length(self, words: Int[Tensor, "row time"]) -> int:
        """The number of positions of the output: the words of the longest row, and <bos>."""
        return int(words.max()) + 1
