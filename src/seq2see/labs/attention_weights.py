"""C41, C42 and C44: dot products, their scale, and the mask before the softmax.

C41 draws vectors of equal norm and compares the order of their dot products with the order of their cosines. C42 draws
queries and keys with independent standard normal entries, as at initialization, for widths up to 1,024. C44 sets random
scores to −∞; every query has at least one visible key. A query without any visible key is measured as well.
"""

from __future__ import annotations

import torch

from seq2see.core.seeds import derive_seed
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtMost, Effect, Verdict
from seq2see.layers.attention import attention_weights
from seq2see.layers.masks import full_mask

WIDTHS = (1, 4, 16, 64, 256, 1024)
KEYS = 50


def measure_cosine(seed: int, width: int) -> Measurement:
    """Pairs of keys that the dot product and the cosine order differently, and the cosine of an orthogonal vector."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "vectors"))
    query, keys = (
        torch.randn(width, dtype=torch.float64, generator=rng),
        torch.randn(KEYS, width, dtype=torch.float64, generator=rng),
    )
    equal = 3 * torch.nn.functional.normalize(keys, dim=1)
    cosines = torch.nn.functional.cosine_similarity(query[None], keys)
    values = {}
    for name, vectors in (("equal", equal), ("unequal", keys)):
        products = vectors @ query
        differ = (products[:, None] > products[None]) != (cosines[:, None] > cosines[None])
        values[name] = differ.double().mean().item()
    orthogonal = keys[0] - (keys[0] @ query) / (query @ query) * query
    values["orthogonal"] = abs(torch.nn.functional.cosine_similarity(query, orthogonal, dim=0).item())
    return Measurement(values)


def measure_scale(seed: int, queries: int) -> Measurement:
    """The largest weight of each query, with and without the division by √d, and the gradient of the softmax."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "scores"))
    largest: dict[str, list[float]] = {"with √d": [], "without √d": []}
    gradients, variances = {}, []
    for width in WIDTHS:
        first, second = torch.randn(1, 1, queries, width, generator=rng), torch.randn(1, 1, KEYS, width, generator=rng)
        scores = first @ second.mT
        variances.append(scores.var().item())
        for name, weights in (
            ("with √d", attention_weights(first, second, full_mask())),
            ("without √d", scores.softmax(-1)),
        ):
            largest[name].append(weights.amax(-1).mean().item())
            gradients[name] = (weights * (1 - weights)).sum(-1).mean().item()
    log_variances = torch.tensor(variances).log2()
    values = {
        "growth": float((log_variances[-1] - log_variances[0]) / 10),
        "saturation": largest["without √d"][-1] - largest["with √d"][-1],
        "gradient": float(torch.tensor(gradients["with √d"] / gradients["without √d"]).log2()),
        "constant": largest["with √d"][-1] - largest["with √d"][2],
    }
    return Measurement(values, {name: (WIDTHS, each) for name, each in largest.items()})


def measure_mask(seed: int, width: int) -> Measurement:
    """The largest weight of a masked key, and whether a query without a visible key has a weight that is a number."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "mask"))
    scores = width**0.5 * torch.randn(KEYS, KEYS, generator=rng)
    hidden = torch.rand(KEYS, KEYS, generator=rng) < 0.5
    hidden[torch.arange(KEYS), torch.randint(KEYS, (KEYS,), generator=rng)] = False
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    all_hidden = torch.full((1, KEYS), -torch.inf).softmax(-1)
    values = {"weight": weights[hidden].max().item(), "sum": (weights.sum(-1) - 1).abs().max().item()}
    return Measurement(values | {"not a number": all_hidden.isnan().float().mean().item()})


LABS = {
    "C41": Experiment(
        claim="C41",
        prediction=("It is arithmetic: q · k = ‖q‖ ‖k‖ cos θ.", "这是算术：q · k = ‖q‖ ‖k‖ cos θ。"),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost("equal", ("equal norms: share of pairs in another order", "模长相等：次序不同的比例"), 0.0),
            AtMost("orthogonal", ("cosine of a vector whose dot product is 0", "内积为 0 的向量的余弦"), 1e-12),
        ),
        additional=(
            AtMost("unequal", ("unequal norms: share of pairs in another order", "模长不等：次序不同的比例"), 0.0),
        ),
        measure=measure_cosine,
        seeds=100,
        size={"width": 32},
        tiny={"width": 3},
        would_change=("unequal norms, as those of real keys are", "模长不相等；真实的键正是如此"),
    ),
    "C42": Experiment(
        claim="C42",
        prediction=(
            "The variance of a dot product is d, so without the division the largest weight tends to 1 and the "
            "gradient "
            "of the softmax to 0. With it both are the same for every d.",
            "点积的方差是 d。不除的话，最大权重趋于 1，softmax 的梯度趋于 0；除了之后，两者都与 d 无关。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect("growth", ("exponent of the variance of a dot product over d", "点积方差随 d 的指数"), 0.5),
            Effect(
                "saturation",
                ("d = 1,024: largest weight without minus with √d", "d = 1024：最大权重之差（不除减除）"),
                0.3,
            ),
            Effect(
                "gradient",
                (
                    "d = 1,024: log₂ of the ratio of gradients, with over without",
                    "d = 1024：梯度之比的 log₂（除比不除）",
                ),
                1.0,
            ),
        ),
        additional=(
            Effect(
                "constant", ("with √d: largest weight at 1,024 minus at 16", "除以 √d：1024 与 16 的最大权重之差"), 0.05
            ),
        ),
        measure=measure_scale,
        seeds=20,
        size={"queries": 200},
        tiny={"queries": 20},
        would_change=(
            "trained queries and keys, whose entries are neither independent nor of variance 1; a norm of queries "
            "and keys",
            "训练之后的查询和键：它们的分量既不独立，方差也不是 1；或者对查询和键做归一化",
        ),
        axes=Axes(
            ("width d of queries and keys", "查询和键的宽度 d"),
            ("largest weight of 50 keys", "50 个键中的最大权重"),
            log_x=True,
        ),
    ),
    "C44": Experiment(
        claim="C44",
        prediction=(
            "exp(−∞) is exactly 0. A query without any visible key has 0 / 0, which is not a number.",
            "exp(−∞) 恰好是 0。若一个查询看不到任何键，就是 0 / 0，结果不是数。",
        ),
        expected=Verdict.HOLDS,
        decisive=(AtMost("weight", ("largest weight of a masked key", "被遮住的键的最大权重"), 0.0),),
        additional=(
            AtMost("sum", ("distance of the sum of the weights from 1", "权重之和与 1 的差"), 1e-5),
            AtMost(
                "not a number",
                ("no visible key: share of weights that are not numbers", "没有可见的键：权重不是数的比例"),
                0.0,
            ),
        ),
        measure=measure_mask,
        seeds=100,
        size={"width": 64},
        tiny={"width": 4},
        would_change=(
            "a query that may attend to nothing; a large negative number instead of −∞ in half precision",
            "查询没有任何可见的键；或在半精度下用很大的负数代替 −∞",
        ),
    ),
}
