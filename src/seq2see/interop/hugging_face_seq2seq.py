"""Export of encoder-decoder Transformers to folders that Hugging Face `transformers` loads.

| norm | positions | layout | model |
|---|---|---|---|
| post | sinusoidal | Marian | MarianMTModel |
| pre | sinusoidal | Pegasus | PegasusForConditionalGeneration |
| pre | learned, none, or different ones | Blenderbot | BlenderbotForConditionalGeneration |

The three layouts share their weight names. In Marian and Pegasus, all sines of a position encoding are in the first
half of the vector and all cosines in the second; in seq2see they alternate. The result of a Transformer does not depend
on the order of the dimensions of its residual stream, so the weights that read or write the stream are permuted: each
sum has the same terms, and the queries, keys and values of the heads, which are not in the stream, stay unchanged.

These layouts have one vocabulary. Two vocabularies are concatenated: the target's ids begin where the source's end, and
a logit bias of -1e9 suppresses the tokens of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from seq2see.core.files import atomic_folder, write_bytes, write_json
from seq2see.interop.exportable import (
    ExportableModel,
    position_table,
    positions_needed,
    require_seq2seq,
    require_transformers,
    unsupported,
)
from seq2see.interop.hugging_face_files import ENGINE, config_json, generation_json, write_tokenizer
from seq2see.models.settings import ModelSettings

SUPPRESSED_BIAS = -1e9
"""A logit bias with which a token is never generated."""

Weights = dict[str, Tensor]


def seq2seq_layout(settings: ModelSettings) -> str:
    """The layout for a model with these settings; an unsupported setting raises an error."""
    encoder, decoder = require_transformers(settings, ENGINE)
    for side, part in (("encoder", encoder), ("decoder", decoder)):
        if part.norm != "layer":
            raise unsupported(ENGINE, f"{side}.norm={part.norm}", "these encoder-decoder layouts have layer norm only")
    for name in ("width", "norm_order"):
        if getattr(encoder, name) != getattr(decoder, name):
            setting = f"encoder.{name}={getattr(encoder, name)} and decoder.{name}={getattr(decoder, name)}"
            raise unsupported(ENGINE, setting, f"encoder and decoder have the same {name} there")
    assert settings.source is not None  # as there is an encoder
    positions = {"source": settings.source.embedding.positions, "target": settings.target_text.embedding.positions}
    other = next((side for side, kind in positions.items() if kind != "sinusoidal"), None)
    if other is None:
        return "pegasus" if encoder.norm_order == "pre" else "marian"
    if encoder.norm_order == "post":
        setting = f"encoder.norm_order=post and {other}.embedding.positions={positions[other]}"
        raise unsupported(ENGINE, setting, "its post-norm layout has sinusoidal positions", "Export it to ct2 or onnx.")
    return "blenderbot"


def write_seq2seq(stored: ExportableModel, folder: Path) -> None:
    """Write a folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load."""
    module: Any = require_seq2seq(stored, ENGINE)
    layout = seq2seq_layout(stored.config.model)
    with atomic_folder(folder) as temporary:
        rows, shift = positions_needed(stored), 0 if stored.tokenizers.shared else len(stored.tokenizers.source)
        size = shift + len(stored.tokenizers.target)
        write_json(temporary / "config.json", config_json(stored.config.model, layout, size, shift, rows))
        write_json(temporary / "generation_config.json", generation_json(stored.config.decoding, shift))
        write_tokenizer(stored.tokenizers, temporary, stored.config.model.source_text.max_tokens)
        _, decoder = require_transformers(stored.config.model, ENGINE)
        permutation = _permutation(decoder.width, layout)
        weights = WeightExporter(permutation).weights(module, rows) | _embeddings(module, shift, permutation)
        content = {name: tensor.float().cpu().contiguous() for name, tensor in weights.items()}
        write_bytes(temporary / "model.safetensors", save(content, metadata={"format": "pt"}))


def _permutation(width: int, layout: str) -> Tensor:
    """The index in seq2see of each dimension of the layout's residual stream."""
    dimensions = torch.arange(width)
    if layout == "blenderbot":  # its positions are a table, so any order will do
        return dimensions
    return torch.cat([dimensions[0::2], dimensions[1::2]])


@torch.no_grad()
def _embeddings(module: Any, shift: int, permutation: Tensor) -> Weights:
    """The token embeddings, and the head."""
    target = module.target.table.weight.cpu()
    both = torch.cat([module.source.table.weight.cpu(), target]) if shift else target
    head, bias = module.head.weight_and_bias()
    biases = torch.zeros(1, both.size(0))
    biases[:, :shift] = SUPPRESSED_BIAS
    weights = {"model.shared.weight": both[:, permutation], "final_logits_bias": biases}
    if bias is None:  # tied: the head is the table
        return weights
    biases[:, shift:] = bias.cpu()
    # Untied, newer versions of `transformers` have three embedding tables, older ones only the first.
    for half in ("encoder", "decoder"):
        weights[f"model.{half}.embed_tokens.weight"] = both[:, permutation]
    unused = torch.zeros(shift, permutation.numel())
    return weights | {"lm_head.weight": torch.cat([unused, head.cpu()[:, permutation]])}


@dataclass(frozen=True)
class WeightExporter:
    """The weights of encoder and decoder by the layouts' names, with the residual stream permuted."""

    permutation: Tensor

    @torch.no_grad()
    def weights(self, module: Any, rows: int) -> Weights:
        """All weights except the token embeddings and the head."""
        weights: Weights = {}
        for half, embedding, stack in (
            ("model.encoder", module.source, module.encoder),
            ("model.decoder", module.target, module.decoder),
        ):
            weights[f"{half}.embed_positions.weight"] = position_table(embedding, rows)[:, self.permutation]
            if stack.final_norm is not None:
                weights |= self._norm(f"{half}.layer_norm", stack.final_norm)
        for number, block in enumerate(module.encoder.blocks):
            name = f"model.encoder.layers.{number}"
            weights |= self._self_attention(
                f"{name}.self_attn", block.self_attention, block.self_attention_residual.norm
            )
            weights |= self._feed_forward(name, block.feed_forward, block.feed_forward_residual.norm)
        for number, block in enumerate(module.decoder.blocks):
            name = f"model.decoder.layers.{number}"
            weights |= self._self_attention(
                f"{name}.self_attn", block.self_attention, block.self_attention_residual.norm
            )
            weights |= self._cross_attention(
                f"{name}.encoder_attn", block.cross_attention, block.cross_attention_residual.norm
            )
            weights |= self._feed_forward(name, block.feed_forward, block.feed_forward_residual.norm)
        return weights

    def _self_attention(self, name: str, part: Any, norm: nn.Module) -> Weights:
        projections = zip("qkv", _split(part.qkv_proj, 3), strict=True)
        return self._attention(name, dict(projections), part.out_proj, norm)

    def _cross_attention(self, name: str, part: Any, norm: nn.Module) -> Weights:
        keys, values = _split(part.kv_proj, 2)
        queries = (part.q_proj.weight, part.q_proj.bias)
        return self._attention(name, {"q": queries, "k": keys, "v": values}, part.out_proj, norm)

    def _attention(self, name: str, projections: dict[str, Any], output: nn.Linear, norm: nn.Module) -> Weights:
        weights = self._output_projection(f"{name}.out_proj", output) | self._norm(f"{name}_layer_norm", norm)
        for letter, (weight, bias) in projections.items():
            weights |= self._input_projection(f"{name}.{letter}_proj", weight, bias)
        return weights

    def _feed_forward(self, name: str, part: Any, norm: nn.Module) -> Weights:
        return (
            self._input_projection(f"{name}.fc1", part.up_proj.weight, part.up_proj.bias)
            | self._output_projection(f"{name}.fc2", part.down_proj)
            | self._norm(f"{name}.final_layer_norm", norm)
        )

    def _input_projection(self, name: str, weight: Tensor, bias: Tensor) -> Weights:
        """A linear layer whose input is the residual stream."""
        return {f"{name}.weight": weight.cpu()[:, self.permutation], f"{name}.bias": bias.cpu().clone()}

    def _output_projection(self, name: str, part: nn.Linear) -> Weights:
        """A linear layer whose output is added to the residual stream."""
        return {
            f"{name}.weight": part.weight.cpu()[self.permutation],
            f"{name}.bias": part.bias.cpu()[self.permutation],
        }

    def _norm(self, name: str, norm: Any) -> Weights:
        return {
            f"{name}.weight": norm.weight.cpu()[self.permutation],
            f"{name}.bias": norm.bias.cpu()[self.permutation],
        }


def _split(part: nn.Linear, count: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(part.weight.chunk(count), part.bias.chunk(count), strict=True))
