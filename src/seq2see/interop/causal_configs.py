"""The `config.json` of GPT-2 and Llama as model settings; an unsupported option raises an error with its name."""

from __future__ import annotations

from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.settings import ModelSettings

HF_ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}

# Options without a counterpart here: the only supported value, which is also the default of a missing key.
GPT2_REQUIRED_VALUES = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
LLAMA_REQUIRED_VALUES = {"hidden_act": "silu", "mlp_bias": False}


class JsonConfig:
    """A `config.json` with typed access to its values."""

    def __init__(self, tree: dict[str, Any], location: str):
        self.tree, self.location = tree, location

    def require(self, name: str) -> Any:
        """A required value."""
        if self.tree.get(name) is None:
            raise UserError(f"There is no '{name}' here.", location=self.location)
        return self.tree[name]

    def positive_int(self, name: str, default: int | None = None) -> int:
        """An integer of at least 1, which is required if there is no default."""
        value = self.require(name) if default is None else self.get(name, default)
        if type(value) is not int or value < 1:
            raise UserError(
                f"'{name}' is {value!r}, but it should be a whole number from 1 on.", location=self.location
            )
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, or the default if the key is missing."""
        value = self.get(name, default)
        if type(value) is not bool:
            hint = f"Write true or false; the default is {str(default).lower()}."
            raise UserError(f"'{name}' is {value!r}, but it must be true or false.", location=self.location, hint=hint)
        return value

    def get(self, name: str, default: Any) -> Any:
        """A value, or the default if the key is missing."""
        value = self.tree.get(name)
        return default if value is None else value

    def table(self, name: str) -> dict[str, Any]:
        """A table of values, which is empty if the key is missing."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"'{name}' is {value!r}, but it should be a table.", location=self.location)
        return value

    def unsupported(self, name: str, value: Any, reason: str) -> UserError:
        """The error for a model that the layers of seq2see do not support."""
        return UserError(f"{name}={value!r} is not supported: {reason}.", location=self.location)

    def check(self, required: dict[str, Any]) -> None:
        """Raise an error for an option that has another value than the required one."""
        for name, expected in required.items():
            if self.get(name, expected) != expected:
                raise self.unsupported(name, self.tree[name], f"only {expected!r} is supported")


def gpt2_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """The model settings of a GPT-2."""
    config.check(GPT2_REQUIRED_VALUES)
    activation = config.get("activation_function", "gelu_new")
    if activation not in HF_ACTIVATIONS:
        raise config.unsupported("activation_function", activation, f"there are {', '.join(HF_ACTIVATIONS)}")
    width, max_positions = config.positive_int("n_embd"), config.positive_int("n_positions")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("n_layer"),
        "heads": config.positive_int("n_head"),
        "mlp_ratio": config.positive_int("n_inner", 4 * width) / width,
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "activation": HF_ACTIVATIONS[activation],
        "dropout": config.get("resid_pdrop", 0.1),
    }
    embedding = {"positions": "learned", "max_positions": max_positions, "scale": False}
    tied = config.boolean("tie_word_embeddings", True)
    return _settings(config, embedding, max_positions, decoder, suppress_tokens, tied)


def llama_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """The model settings of a Llama."""
    config.check(LLAMA_REQUIRED_VALUES)
    width, heads = config.positive_int("hidden_size"), config.positive_int("num_attention_heads")
    kv_heads = config.positive_int("num_key_value_heads", heads)
    if config.positive_int("head_dim", width // heads) * heads != width:
        raise config.unsupported("head_dim", config.tree["head_dim"], f"{heads} heads share a width of {width}")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("num_hidden_layers"),
        "heads": heads,
        "kv_heads": 0 if kv_heads == heads else kv_heads,
        "mlp_ratio": config.positive_int("intermediate_size") / width,
        "norm": "rms",
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "activation": "swiglu",
        "bias": config.boolean("attention_bias", False),
        "rope_theta": _rope_theta(config),
        "dropout": 0.0,
    }
    max_tokens = config.positive_int("max_position_embeddings")
    tied = config.boolean("tie_word_embeddings", False)
    return _settings(config, {"positions": "rotary", "scale": False}, max_tokens, decoder, suppress_tokens, tied)


def _rope_theta(config: JsonConfig) -> float:
    """The base of the rotary angles: newer files store it in a table; a scaling of the angles is not supported."""
    rope = config.table("rope_parameters") or config.table("rope_scaling")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise config.unsupported("rope_type", kind, "only 'default' is supported")
    return rope.get("rope_theta", config.get("rope_theta", 10_000.0))


def _settings(
    config: JsonConfig,
    embedding: dict[str, Any],
    max_tokens: int,
    decoder: dict[str, Any],
    suppress_tokens: tuple[int, ...],
    tied: bool,
) -> ModelSettings:
    target = {
        "tokenizer": {"kind": "pretrained"},
        "embedding": embedding,
        "max_tokens": max_tokens,
        "head": "tied" if tied else "untied-no-bias",
        "suppress_tokens": suppress_tokens,
    }
    return read_tree(ModelSettings, {"target": target, "decoder": decoder}, location=config.location)


SETTINGS = {"gpt2": gpt2_settings, "llama": llama_settings}
