"""What the `config.json` of GPT-2 and Llama says, as settings of ours; what we have no part for is refused by name."""

from __future__ import annotations

from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.settings import ModelSettings

HF_ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}

# What we have no part for, and the value with which it does nothing; also what is meant where it is not said.
GPT2_REQUIRED_VALUES = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
LLAMA_REQUIRED_VALUES = {"hidden_act": "silu", "mlp_bias": False}


class JsonConfig:
    """A `config.json`, asked by name."""

    def __init__(self, tree: dict[str, Any], location: str):
        self.tree, self.location = tree, location

    def require(self, name: str) -> Any:
        """A value that must be there."""
        if self.tree.get(name) is None:
            raise UserError(f"There is no '{name}' here.", location=self.location)
        return self.tree[name]

    def positive_int(self, name: str, default: int | None = None) -> int:
        """A whole number, at least 1, that must be there unless something else is meant then."""
        value = self.require(name) if default is None else self.get(name, default)
        if type(value) is not int or value < 1:
            raise UserError(
                f"'{name}' is {value!r}, but it should be a whole number from 1 on.", location=self.location
            )
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """True or false, or what is meant if it is not there."""
        value = self.get(name, default)
        if type(value) is not bool:
            hint = f"Write true or false; where nothing is said {str(default).lower()} is meant."
            raise UserError(f"'{name}' is {value!r}, but it is true or false.", location=self.location, hint=hint)
        return value

    def get(self, name: str, default: Any) -> Any:
        """A value, or what is meant if it is not there."""
        value = self.tree.get(name)
        return default if value is None else value

    def table(self, name: str) -> dict[str, Any]:
        """A table of values, which is empty if it is not there."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"'{name}' is {value!r}, but it should be a table.", location=self.location)
        return value

    def unsupported(self, name: str, value: Any, reason: str) -> UserError:
        """The error for a model that our layers do not make."""
        return UserError(f"We have no part for {name}={value!r}: {reason}.", location=self.location)

    def check(self, required: dict[str, Any]) -> None:
        """Refuse what is not as we have it."""
        for name, ours in required.items():
            if self.get(name, ours) != ours:
                raise self.unsupported(name, self.tree[name], f"only {ours!r} is there")


def gpt2_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """GPT-2's shape."""
    config.check(GPT2_REQUIRED_VALUES)
    activation = config.get("activation_function", "gelu_new")
    if activation not in HF_ACTIVATIONS:
        raise config.unsupported("activation_function", activation, f"there are {', '.join(HF_ACTIVATIONS)}")
    width, longest = config.positive_int("n_embd"), config.positive_int("n_positions")
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
    embedding = {"positions": "learned", "max_positions": longest, "scale": False}
    return _settings(
        config, embedding, longest, decoder, suppress_tokens, tied=config.boolean("tie_word_embeddings", True)
    )


def llama_settings(config: JsonConfig, suppress_tokens: tuple[int, ...]) -> ModelSettings:
    """Llama's shape."""
    config.check(LLAMA_REQUIRED_VALUES)
    width, heads = config.positive_int("hidden_size"), config.positive_int("num_attention_heads")
    groups = config.positive_int("num_key_value_heads", heads)
    if config.positive_int("head_dim", width // heads) * heads != width:
        raise config.unsupported("head_dim", config.tree["head_dim"], f"{heads} heads share a width of {width}")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.positive_int("num_hidden_layers"),
        "heads": heads,
        "kv_heads": 0 if groups == heads else groups,
        "mlp_ratio": config.positive_int("intermediate_size") / width,
        "norm": "rms",
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "activation": "swiglu",
        "bias": config.boolean("attention_bias", False),
        "rope_theta": _rope_theta(config),
        "dropout": 0.0,
    }
    longest = config.positive_int("max_position_embeddings")
    tied = config.boolean("tie_word_embeddings", False)
    return _settings(config, {"positions": "rotary", "scale": False}, longest, decoder, suppress_tokens, tied)


def _rope_theta(config: JsonConfig) -> float:
    """The base of the angles: newer files keep it in a table, which may also stretch the angles for longer texts."""
    rope = config.table("rope_parameters") or config.table("rope_scaling")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise config.unsupported("rope_type", kind, "only 'default' is there")
    return rope.get("rope_theta", config.get("rope_theta", 10_000.0))


def _settings(
    config: JsonConfig,
    embedding: dict[str, Any],
    longest: int,
    decoder: dict[str, Any],
    suppress_tokens: tuple[int, ...],
    tied: bool,
) -> ModelSettings:
    target = {
        "tokenizer": {"kind": "pretrained"},
        "embedding": embedding,
        "max_tokens": longest,
        "head": "tied" if tied else "untied-no-bias",
        "suppress_tokens": suppress_tokens,
    }
    return read_tree(ModelSettings, {"target": target, "decoder": decoder}, location=config.location)


SETTINGS = {"gpt2": gpt2_settings, "llama": llama_settings}
