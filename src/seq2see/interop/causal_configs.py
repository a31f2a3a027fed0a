"""What the `config.json` of GPT-2 and Llama says, as settings of ours; what we have no part for is refused by name."""

from __future__ import annotations

from typing import Any

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.settings import ModelSettings

GPT2_THINKS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}

# What we have no part for, and the value with which it does nothing; also what is meant where it is not said.
GPT2_FIXED = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
LLAMA_FIXED = {"hidden_act": "silu", "mlp_bias": False}


class Config:
    """A `config.json`, asked by name."""

    def __init__(self, tree: dict[str, Any], where: str):
        self.tree, self.where = tree, where

    def need(self, name: str) -> Any:
        """A value that must be there."""
        if self.tree.get(name) is None:
            raise UserError(f"There is no '{name}' here.", where=self.where)
        return self.tree[name]

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, at least 1, that must be there unless something else is meant then."""
        value = self.need(name) if default is None else self.get(name, default)
        if type(value) is not int or value < 1:
            raise UserError(f"'{name}' is {value!r}, but it should be a whole number from 1 on.", where=self.where)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false, or what is meant if it is not there."""
        value = self.get(name, default)
        if type(value) is not bool:
            remedy = f"Write true or false; where nothing is said {str(default).lower()} is meant."
            raise UserError(f"'{name}' is {value!r}, but it is true or false.", where=self.where, remedy=remedy)
        return value

    def get(self, name: str, default: Any) -> Any:
        """A value, or what is meant if it is not there."""
        value = self.tree.get(name)
        return default if value is None else value

    def table(self, name: str) -> dict[str, Any]:
        """A table of values, which is empty if it is not there."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise UserError(f"'{name}' is {value!r}, but it should be a table.", where=self.where)
        return value

    def refuse(self, name: str, value: Any, why: str) -> UserError:
        """The error for a model that our layers do not make."""
        return UserError(f"We have no part for {name}={value!r}: {why}.", where=self.where)

    def check(self, fixed: dict[str, Any]) -> None:
        """Refuse what is not as we have it."""
        for name, ours in fixed.items():
            if self.get(name, ours) != ours:
                raise self.refuse(name, self.tree[name], f"only {ours!r} is there")


def gpt2_settings(config: Config, missing: tuple[int, ...]) -> ModelSettings:
    """GPT-2's shape."""
    config.check(GPT2_FIXED)
    activation = config.get("activation_function", "gelu_new")
    if activation not in GPT2_THINKS:
        raise config.refuse("activation_function", activation, f"there are {', '.join(GPT2_THINKS)}")
    width, longest = config.number("n_embd"), config.number("n_positions")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.number("n_layer"),
        "heads": config.number("n_head"),
        "expansion": config.number("n_inner", 4 * width) / width,
        "epsilon": config.get("layer_norm_epsilon", 1e-5),
        "think": GPT2_THINKS[activation],
        "dropout": config.get("resid_pdrop", 0.1),
    }
    frontend = {"positions": "learned", "longest": longest, "vectors": "plain"}
    return _settings(config, frontend, longest, decoder, missing, tied=config.flag("tie_word_embeddings", True))


def llama_settings(config: Config, missing: tuple[int, ...]) -> ModelSettings:
    """Llama's shape."""
    config.check(LLAMA_FIXED)
    width, heads = config.number("hidden_size"), config.number("num_attention_heads")
    groups = config.number("num_key_value_heads", heads)
    if config.number("head_dim", width // heads) * heads != width:
        raise config.refuse("head_dim", config.tree["head_dim"], f"{heads} heads share a width of {width}")
    decoder = {
        "kind": "transformer",
        "width": width,
        "depth": config.number("num_hidden_layers"),
        "heads": heads,
        "key_heads": 0 if groups == heads else groups,
        "expansion": config.number("intermediate_size") / width,
        "norm": "rms",
        "epsilon": config.get("rms_norm_eps", 1e-6),
        "think": "swiglu",
        "matrices": "biased" if config.flag("attention_bias", False) else "plain",
        "rotary_base": _rotary_base(config),
        "dropout": 0.0,
    }
    longest = config.number("max_position_embeddings")
    tied = config.flag("tie_word_embeddings", False)
    return _settings(config, {"positions": "rotary", "vectors": "plain"}, longest, decoder, missing, tied)


def _rotary_base(config: Config) -> float:
    """The base of the angles: newer files keep it in a table, which may also stretch the angles for longer texts."""
    told = config.table("rope_parameters") or config.table("rope_scaling")
    kind = told.get("rope_type", told.get("type", "default"))
    if kind != "default":
        raise config.refuse("rope_type", kind, "only 'default' is there")
    return told.get("rope_theta", config.get("rope_theta", 10_000.0))


def _settings(
    config: Config,
    frontend: dict[str, Any],
    longest: int,
    decoder: dict[str, Any],
    missing: tuple[int, ...],
    tied: bool,
) -> ModelSettings:
    target = {
        "tokeniser": {"kind": "given"},
        "frontend": frontend,
        "longest": longest,
        "head": "tied" if tied else "plain",
        "missing": missing,
    }
    return read_tree(ModelSettings, {"target": target, "decoder": decoder}, where=config.where)


SETTINGS = {"gpt2": gpt2_settings, "llama": llama_settings}
