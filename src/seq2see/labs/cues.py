"""C39: is a fully connected layer enough for attention by nonvolitional cues?

A scene has ten objects; each has a feature, how conspicuous it is, and a value. In the first task the target is the
value of the most conspicuous object: a nonvolitional cue, which is a property of the scene alone. In the second one the
target is the value of the object whose key is nearest to a query: a volitional cue.

Both tasks are learned by the same model without a query: a linear score of each object's features, a softmax, and the
mean of the values. The second task is also learned by Nadaraya-Watson kernel regression, whose scores depend on the
query. The measure is the explained variance on new scenes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.core.seeds import derive_seed
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.verdicts import Effect, Verdict

OBJECTS = 10


def explained_variance(predictions: Tensor, targets: Tensor) -> float:
    """1 − the squared error divided by the variance of the targets."""
    return float(1 - (predictions - targets).square().mean() / targets.var())


def train_scores(features: Tensor, values: Tensor, targets: Tensor, steps: int) -> Tensor:
    """The weights of a linear score of each object, by Adam on the squared error."""
    weights = torch.zeros(features.size(-1), requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.3)
    for _ in range(steps):
        optimizer.zero_grad()
        predictions = ((features @ weights).softmax(-1) * values).sum(-1)
        (predictions - targets).square().mean().backward()
        optimizer.step()
    return weights.detach()


def measure(seed: int, count: int, steps: int) -> Measurement:
    """The explained variance of both tasks without a query, and of the second one with a query."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "scenes"))
    features, values = torch.randn(2 * count, OBJECTS, 2, generator=rng), torch.randn(2 * count, OBJECTS, generator=rng)
    queries = torch.randn(2 * count, generator=rng)
    keys, rows = features[:, :, 1], torch.arange(2 * count)
    salient = values[rows, features[:, :, 0].argmax(1)]
    nearest = values[rows, (keys - queries[:, None]).abs().argmin(1)]
    train, test = slice(0, count), slice(count, None)
    results = {}
    for name, targets in (("salient", salient), ("nearest", nearest)):
        inputs = torch.cat([features, queries[:, None, None].expand(-1, OBJECTS, 1)], -1)
        weights = train_scores(inputs[train], values[train], targets[train], steps)
        predictions = ((inputs[test] @ weights).softmax(-1) * values[test]).sum(-1)
        results[name] = explained_variance(predictions, targets[test])
    squared = -(keys - queries[:, None]).square()[..., None]
    width = train_scores(squared[train], values[train], nearest[train], steps)
    predictions = ((squared[test] @ width).softmax(-1) * values[test]).sum(-1)
    return Measurement(results | {"kernel": explained_variance(predictions, nearest[test])})


LABS = {
    "C39": Experiment(
        claim="C39",
        prediction=(
            "The layer learns to select the most conspicuous object and explains more than 80 % of the variance. For a "
            "cue that depends on a query it explains almost nothing.",
            "全连接层能学会挑出最显眼的对象，解释八成以上的方差；若线索取决于查询，则几乎什么也解释不了。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect(
                "salient",
                ("nonvolitional cue, no query: explained variance", "非自主性提示、没有查询：解释的方差"),
                0.8,
            ),
        ),
        additional=(
            Effect(
                "nearest",
                ("volitional cue, the same layer: explained variance", "自主性提示、同样的层：解释的方差"),
                0.8,
            ),
            Effect(
                "kernel",
                ("volitional cue, kernel of query and key: explained variance", "自主性提示、查询与键的核：解释的方差"),
                0.8,
            ),
        ),
        measure=measure,
        seeds=10,
        size={"count": 2000, "steps": 200},
        tiny={"count": 20, "steps": 2},
        would_change=("a cue that depends on the task, and not on the scene alone", "线索取决于任务，而不只取决于场景"),
    )
}
