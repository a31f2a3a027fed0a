"""Adapters on whole models: which matrices, which weights are trained, and merging."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from seq2see.adapters.adapt import (
    adapt,
    adapter_weights,
    adapters_of,
    is_adapted,
    load_adapter_weights,
    matrix_shapes,
    merge,
    merged,
)
from seq2see.adapters.expert import Expert, ExpertConfig, check_base, read_expert, write_expert
from seq2see.adapters.settings import SVF, AdapterSettings, LoRA, NormalizedSVF
from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.errors import UserError
from seq2see.models.build import fresh_model
from seq2see.models.settings import ModelSettings
from seq2see.recipes.registry import recipe

TINY = {"width": 24, "heads": 4, "depth": 2}
KINDS: list[AdapterSettings] = [SVF(), NormalizedSVF(), LoRA(rank=2, alpha=6.0)]


def texts(sizes: tuple[int, ...] = (5, 3)) -> Sequences:
    return Sequences.of([torch.randint(5, 50, (size,)).tolist() for size in sizes])


def settings_of(name: str, *stacks: str, **changes: object) -> ModelSettings:
    all_changes = {f"{stack}.{key}": value for stack in stacks for key, value in TINY.items()}
    return recipe(name).with_(**{**all_changes, **changes}).model


def batch(source: Sequences | Images | None, target: Sequences | None) -> Batch:
    rows = len((source or target).values)  # type: ignore[union-attr]
    labels = torch.zeros(rows, 5 if target is not None else 1, dtype=torch.long)
    return Batch(source=source, target=target, labels=labels, indices=torch.arange(rows))


FAMILIES: dict[str, tuple[Callable[[], ModelSettings], Callable[[], Batch]]] = {
    "encoder-decoder": (
        lambda: settings_of("pocket-transformer", "encoder", "decoder"),
        lambda: batch(texts(), texts()),
    ),
    "gpt": (lambda: settings_of("write", "decoder"), lambda: batch(None, texts())),
    "llama": (lambda: settings_of("write-llama", "decoder", **{"decoder.kv_heads": 2}), lambda: batch(None, texts())),
    "bert": (lambda: settings_of("fill-bert", "encoder"), lambda: batch(texts(), None)),
    "classifier": (lambda: settings_of("classify-text", "encoder"), lambda: batch(texts(), None)),
    "vit": (
        lambda: settings_of("classify-image", "encoder"),
        lambda: batch(Images.of(torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8)), None),
    ),
}


def model_of(family: str) -> nn.Module:
    return fresh_model(FAMILIES[family][0](), (53, 59), "xavier", 1).eval()


def disturb(model: nn.Module) -> None:
    for weight in adapter_weights(model).values():
        weight.add_(0.3 * torch.randn_like(weight))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
def test_a_merged_model_computes_the_same_as_with_adapters(family, kind):
    model, inputs = model_of(family), FAMILIES[family][1]()
    names = list(model.state_dict())
    before = model(inputs)
    adapt(model, kind)
    disturb(model)
    adapted = model(inputs)
    assert not torch.allclose(adapted, before, atol=1e-2)
    with merged(model):
        assert not is_adapted(model)
        torch.testing.assert_close(model(inputs), adapted, atol=1e-4, rtol=1e-4)
    assert is_adapted(model)
    assert torch.equal(model(inputs), adapted)
    merge(model)
    torch.testing.assert_close(model(inputs), adapted, atol=1e-4, rtol=1e-4)
    assert list(model.state_dict()) == names
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_adapter_changes_nothing(family):
    for kind in (SVF(), LoRA(rank=2)):
        model, inputs = model_of(family), FAMILIES[family][1]()
        before = model(inputs)
        adapt(model, kind)
        torch.testing.assert_close(model(inputs), before, atol=1e-4, rtol=1e-4)


def test_queries_keys_and_values_are_matrices_of_their_own():
    model = model_of("llama")
    names = adapt(model, SVF(matrices=("decoder.blocks.0.*",)))
    assert names == [
        f"decoder.blocks.0.{name}"
        for name in (
            "self_attention.out_proj", "self_attention.q_proj", "self_attention.k_proj", "self_attention.v_proj",
            "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj",
        )
    ]  # fmt: skip
    # Width 24 with 4 heads of 6, and 2 heads of keys and values: 24 + 24 + 12 + 12 singular values; then 3 · 24.
    assert sum(weight.numel() for weight in adapter_weights(model).values()) == 72 + 72


def test_a_pattern_chooses_single_matrices_of_a_stacked_one():
    model, inputs = model_of("llama"), FAMILIES["llama"][1]()
    assert adapt(model, LoRA(rank=2, matrices=("*.q_proj", "*.v_proj"))) == [
        f"decoder.blocks.{block}.self_attention.{name}_proj" for block in (0, 1) for name in "qv"
    ]
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert len(trained) == 8
    disturb(model)
    adapted = model(inputs)
    torch.testing.assert_close(merge(model)(inputs), adapted, atol=1e-4, rtol=1e-4)


def test_embeddings_and_heads_are_not_adapted_unless_they_are_named():
    model = model_of("encoder-decoder")
    assert {name.partition(".")[0] for name in adapt(model, SVF())} == {"encoder", "decoder"}


def test_all_weights_are_frozen_except_those_of_adapters_and_new_parts():
    model = model_of("classifier")
    head = [name for name, _ in model.named_parameters() if name.startswith("head.")]
    adapt(model, SVF(), new=head)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained == {*head, *(name for name, _ in model.named_parameters() if name.endswith(".scales"))}
    assert head


def test_a_pattern_without_a_match_is_an_error_that_lists_the_matrices():
    model = model_of("gpt")
    with pytest.raises(UserError, match=r"No matrix of this model matches '\*.mlp.\*'.*decoder.blocks.\*.self_att"):
        adapt(model, SVF(matrices=("decoder.*", "*.mlp.*")))
    assert not is_adapted(model)
    assert all(weight.requires_grad for weight in model.parameters())


def test_an_error_about_the_rank_names_the_matrix():
    with pytest.raises(UserError, match=r"decoder.blocks.0.feed_forward.down_proj.*rank 25 is above 24"):
        adapt(model_of("gpt"), LoRA(rank=25))


def test_a_model_with_adapters_gets_no_further_ones():
    model = model_of("gpt")
    adapt(model, SVF())
    with pytest.raises(UserError, match="has adapters already"):
        adapt(model, SVF())


def test_initial_weights_depend_on_the_seed_and_the_matrix_alone():
    def initial(seed: int, matrices: tuple[str, ...]) -> dict[str, torch.Tensor]:
        model = model_of("gpt")
        adapt(model, LoRA(rank=2, matrices=matrices), seed)
        return adapter_weights(model)

    every, some, other = initial(1, ()), initial(1, ("*.down_proj",)), initial(2, ())
    name = "decoder.blocks.1.feed_forward.down_proj.a"
    assert torch.equal(every[name], some[name])
    assert not torch.equal(every[name], other[name])
    assert not torch.equal(every[name], every[name.replace("blocks.1", "blocks.0")])


def test_weights_of_adapters_can_be_stored_and_loaded():
    first, second = model_of("llama"), model_of("llama")
    for model in (first, second):
        adapt(model, NormalizedSVF())
    disturb(first)
    load_adapter_weights(second, adapter_weights(first))
    inputs = FAMILIES["llama"][1]()
    assert torch.equal(first(inputs), second(inputs))
    with pytest.raises(UserError, match="is missing"):
        load_adapter_weights(second, {})


def test_matrix_names_of_an_adapted_model_are_those_of_its_adapters():
    model = model_of("encoder-decoder")
    names = [name for name in matrix_shapes(model) if name.startswith(("encoder.", "decoder."))]
    assert adapt(model, SVF()) == names == list(adapters_of(model))


def test_an_expert_is_a_small_folder_that_fits_its_base_alone(tmp_path):
    model, inputs = model_of("classifier"), FAMILIES["classifier"][1]()
    adapt(model, SVF(), new=[name for name, _ in model.named_parameters() if name.startswith("head.")])
    disturb(model)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("head."):
                weight.add_(1.0)
    expected = model(inputs)
    config = ExpertConfig(base="runs/base", fingerprint="abc", adapter=SVF())
    write_expert(tmp_path / "expert", Expert.of(model, config))
    assert sum(path.stat().st_size for path in (tmp_path / "expert").iterdir()) < 10_000

    stored = read_expert(tmp_path / "expert")
    torch.testing.assert_close(stored.apply(model_of("classifier"))(inputs), expected)
    check_base(stored, "abc", "runs/base")
    with pytest.raises(UserError, match="belongs to another base model than runs/base"):
        check_base(stored, "abd", "runs/other")


def test_a_damaged_expert_is_refused(tmp_path):
    model = model_of("gpt")
    adapt(model, SVF())
    folder = tmp_path / "expert"
    write_expert(folder, Expert.of(model, ExpertConfig(base="b", fingerprint="f", adapter=SVF())))
    path = folder / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(UserError, match=r"This expert is damaged: .*adapter.safetensors"):
        read_expert(folder)
