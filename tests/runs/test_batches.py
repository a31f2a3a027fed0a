"""The batch of a training step: a function of the step number, with BPE-dropout anew in each epoch."""

import pytest
import torch

from seq2see.core.batch import Batch
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.packed import PackedSampler
from seq2see.data.pair_dataset import NO_EXAMPLE, BucketSampler, PairDataset
from seq2see.data.tokenizers.bpe_dropout import BPEDropoutDataset
from seq2see.recipes.text_encoders import classify_text, tag, tag_zh, ud_english_ewt
from seq2see.recipes.translation import translate
from seq2see.runs.prepare import PreparedData, prepare
from seq2see.runs.train import batches
from seq2see.tasks.model_folder import Recipe
from seq2see.tasks.task import task_of

WORDS = ["red", "house", "yellow", "garden", "window", "flower", "evening"]
EXAMPLES = [
    Example(f"the {one} near the {two}", f"{two} the near {one} the" * (1 + len(one) % 3))
    for one in WORDS
    for two in WORDS
]


def recipe(source: float = 0.0, target: float = 0.0) -> Recipe:
    sizes = {"source.tokenizer.vocab_size": 300, "target.tokenizer.vocab_size": 300, "target.vocabulary": "separate"}
    dropouts = {"source.tokenizer.dropout": source, "target.tokenizer.dropout": target}
    return translate().with_(**sizes, **dropouts, **{"training.batch_tokens": 256, "training.seed": 5})


def prepared(recipe: Recipe) -> PreparedData:
    tokenizers = task_of(recipe).fit(recipe, EXAMPLES)
    pairs = task_of(recipe).dataset(recipe, tokenizers, EXAMPLES)
    return PreparedData({"train": EXAMPLES}, tokenizers, pairs, pairs, {}, [], {})


def bpe_dropout_pairs(recipe: Recipe, pairs: PairDataset) -> BPEDropoutDataset:
    tokenizers = {name: getattr(recipe.slot(name), "tokenizer", None) for name in ("source", "target")}
    dropouts = {name: getattr(each, "dropout", 0.0) for name, each in tokenizers.items()}
    return BPEDropoutDataset(pairs, dropouts, recipe.training.seed, packed=recipe.training.batches == "packed")


def texts(batch: Batch) -> list[list[list[int]]]:
    """The token ids of source and target without padding, row by row."""
    return [
        [row[:length] for row, length in zip(side.values.tolist(), side.lengths.tolist(), strict=True)]
        for side in (batch.source, batch.target)
    ]


@pytest.mark.parametrize("source,target", [(0.0, 0.0), (0.4, 0.0), (0.0, 0.4), (0.4, 0.4)])
def test_sides_with_dropout_are_tokenized_anew_in_each_epoch(source, target):
    chosen = recipe(source, target)
    data = prepared(chosen)
    batch_at = batches(chosen, data)
    steps_per_epoch = BucketSampler(bpe_dropout_pairs(chosen, data.train).lengths, 256, 5).steps_per_epoch
    epochs: list[dict[int, tuple[list[int], list[int]]]] = [{}, {}]
    for epoch, rows in enumerate(epochs):
        for step in range(1 + epoch * steps_per_epoch, 1 + (epoch + 1) * steps_per_epoch):
            batch = batch_at(step)
            rows |= dict(zip(batch.indices.tolist(), zip(*texts(batch), strict=True), strict=True))
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(len(EXAMPLES)))
    changed = [any(epochs[0][index][side] != epochs[1][index][side] for index in epochs[0]) for side in (0, 1)]
    assert changed == [source > 0, target > 0]


def test_a_batch_depends_only_on_the_step_number():
    chosen = recipe(0.2, 0.2)
    data = prepared(chosen)
    uninterrupted, resumed = batches(chosen, data), batches(chosen, data)
    expected = [texts(uninterrupted(step)) for step in range(1, 40)]
    assert texts(resumed(31)) == expected[30]
    assert texts(resumed(3)) == expected[2]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_full_batches_have_the_same_examples_in_one_shape_for_each_width(dropout):
    chosen = recipe(dropout, dropout)
    data = prepared(chosen)
    plain, full = batches(chosen, data), batches(chosen, data, full=True)
    shapes = set()
    for step in range(1, 40):
        batch, padded = plain(step), full(step)
        rows = len(batch.indices)
        assert [side[:rows] for side in texts(padded)] == texts(batch)
        assert padded.indices.tolist()[rows:] == [NO_EXAMPLE] * (len(padded.indices) - rows)
        assert padded.source.values.shape == padded.target.values.shape == padded.labels.shape
        shapes.add(tuple(padded.labels.shape))
    assert len(shapes) == len({width for _, width in shapes})


DROPOUT = classify_text().with_(**{"name": "classify-text, with dropout", "source.tokenizer.dropout": 0.5})
WITH_BOS = [tag(), tag_zh(), classify_text(), DROPOUT, ud_english_ewt()]


@pytest.mark.parametrize("chosen", WITH_BOS, ids=lambda each: each.name)
def test_full_batches_with_bos_before_each_text_fill_their_bucket(chosen):
    """<bos> counts: a text that fills its bucket without it belongs to the next."""
    chosen = chosen.with_(corpus=tag().corpus if chosen.name.startswith("ud") else chosen.corpus)
    chosen = chosen.with_(**{"corpus.size": 200, "training.batch_tokens": 400})
    data = prepare(chosen, log=lambda line: None)
    plan = BucketSampler(bpe_dropout_pairs(chosen, data.train).lengths, 400, chosen.training.seed)
    plain, full = batches(chosen, data), batches(chosen, data, full=True)
    for step in range(3 * plan.steps_per_epoch):
        batch, padded = plain(step + 1).source.values, full(step + 1).source.values
        assert padded.shape == (plan.batch_at(step).rows, plan.batch_at(step).width)
        assert torch.equal(padded[: len(batch), : batch.size(1)], batch)


def test_only_training_batches_have_dropout():
    chosen = recipe(0.4, 0.4)
    data = prepared(chosen)
    before = data.valid.fingerprint
    batches(chosen, data)(1)
    assert data.valid.fingerprint == data.train.fingerprint == before


def test_packed_batches_are_those_of_their_epoch():
    chosen = recipe(0.4, 0.4).with_(**{"training.batches": "packed"})
    data = prepared(chosen)
    pairs, batch_at = bpe_dropout_pairs(chosen, data.train), batches(chosen, data)
    plan = PackedSampler(pairs.lengths, 256, 5)
    for number in (1, plan.steps_per_epoch, plan.steps_per_epoch + 1, 2 * plan.steps_per_epoch):
        epoch = (number - 1) // plan.steps_per_epoch
        expected = plan.batch(pairs.epoch(epoch), plan.indices_at(number - 1))
        assert texts(batch_at(number)) == texts(expected)
        assert batch_at(number).labels.tolist() == expected.labels.tolist()
    assert texts(batch_at(1)) != texts(batch_at(plan.steps_per_epoch + 1))


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"encoder.kind": "recurrent"}, "need a Transformer as encoder"),
        ({"decoder.kind": "recurrent"}, "need a Transformer as decoder"),
        ({"objective.feeding.kind": "free"}, "objective.feeding.kind=teacher"),
    ],
)
def test_packed_batches_are_refused_for_models_without_a_mask_between_texts(change, reason):
    packed = recipe().with_(**{"training.batches": "packed"})
    with pytest.raises(UserError, match=reason):
        packed.with_(**change)


def test_a_violated_rule_between_settings_is_reported_in_one_sentence():
    with pytest.raises(UserError) as caught:
        recipe().with_(**{"encoder.heads": 5})
    assert str(caught.value) == "encoder.width 128 must be a multiple of twice its 5 heads."
