"""Every question that the page can put, in one table: its name, what it says, and who answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from seq2see.explorer.bench import Bench
from seq2see.explorer.messages import MOST_PICTURE_BYTES, AboutRun, Asked, Numbers
from seq2see.explorer.records import AboutInput
from seq2see.explorer.views import (
    architecture,
    attention,
    compare,
    decode,
    embeddings,
    exposure,
    mistakes,
    next_token,
    pictures,
    positions,
    predict,
    recurrent,
    runs,
    series,
    tokenise,
    vit,
)

TEXT, MEDIA = 1 << 20, 2 * MOST_PICTURE_BYTES
"""Bytes that a question may have: texts, or pictures."""

Answer = dict[str, Any] | BaseModel | Numbers


@dataclass(frozen=True)
class Route:
    """One question, and who answers it."""

    asked: type[Asked]
    answer: Callable[[Bench, Any], Answer]
    most: int = TEXT
    """Bytes that a question may have."""
    waits: bool = True
    """Whether it waits until the model is free; what only reads files need not."""


ROUTES: dict[str, Route] = {
    "tokenise": Route(tokenise.TokeniseAsked, tokenise.tokenise),
    "architecture/blocks": Route(architecture.BlocksAsked, architecture.blocks),
    "architecture/source": Route(architecture.SourceAsked, architecture.source, waits=False),
    "compare/sides": Route(compare.SidesAsked, compare.sides),
    "embeddings/analogy": Route(embeddings.AnalogyAsked, embeddings.analogy),
    "embeddings/contexts": Route(embeddings.ContextsAsked, embeddings.contexts),
    "embeddings/map": Route(embeddings.MapAsked, embeddings.map_of),
    "embeddings/near": Route(embeddings.NearAsked, embeddings.near),
    "embeddings/words": Route(embeddings.MapAsked, embeddings.words),
    "mistakes/confusion": Route(mistakes.SplitAsked, mistakes.confused, waits=False),
    "mistakes/forecasts": Route(mistakes.SplitAsked, mistakes.forecast, waits=False),
    "mistakes/rows": Route(mistakes.RowsAsked, mistakes.rows, waits=False),
    "mistakes/splits": Route(mistakes.SplitsAsked, mistakes.listed, waits=False),
    "decode/exposure": Route(exposure.ExposureAsked, exposure.exposure, most=MEDIA),
    "decode/tree": Route(decode.TreeAsked, decode.tree, most=MEDIA),
    "next-token/text": Route(next_token.TextAsked, next_token.text_of),
    "next-token/told": Route(next_token.ToldAsked, next_token.told, most=MEDIA),
    "predict": Route(predict.PredictAsked, predict.predict, most=MEDIA),
    "runs/metrics": Route(runs.MetricsAsked, runs.metrics, waits=False),
    "runs/samples": Route(runs.SamplesAsked, runs.samples, waits=False),
    "examples": Route(attention.ExamplesAsked, attention.offered),
    "attention/layers": Route(AboutInput, attention.listed, most=MEDIA),
    "attention/head": Route(attention.HeadAsked, attention.head, most=MEDIA),
    "attention/row": Route(attention.RowAsked, attention.row, most=MEDIA),
    "attention/thumbnails": Route(attention.LayerAsked, attention.thumbnails, most=MEDIA),
    "attention/measures": Route(attention.LayerAsked, attention.measures, most=MEDIA),
    "attention/part": Route(attention.PartAsked, attention.part, most=MEDIA),
    "recurrent/read": Route(AboutInput, recurrent.read, most=MEDIA),
    "recurrent/states": Route(recurrent.StatesAsked, recurrent.states, most=MEDIA),
    "recurrent/left": Route(recurrent.LeftAsked, recurrent.left, most=MEDIA),
    "recurrent/given": Route(AboutInput, recurrent.given, most=MEDIA),
    "recurrent/needed": Route(AboutInput, recurrent.needed, most=MEDIA),
    "series/said": Route(series.SeriesAsked, series.said),
    "vit/see": Route(pictures.PictureAsked, vit.see, most=MEDIA),
    "vit/about": Route(pictures.PictureAsked, pictures.about, most=MEDIA),
    "vit/picture": Route(pictures.PictureAsked, pictures.picture, most=MEDIA),
    "vit/upload": Route(pictures.FilesAsked, pictures.upload, most=MEDIA),
    "vit/say": Route(vit.SayAsked, vit.say, most=MEDIA),
    "vit/look": Route(vit.LookAsked, vit.look, most=MEDIA),
    "vit/rollout": Route(vit.RolloutAsked, vit.reached, most=MEDIA),
    "vit/regions": Route(vit.RegionAsked, vit.regions, most=MEDIA),
    "vit/similar": Route(AboutRun, vit.similar),
    "positions/told": Route(AboutRun, positions.told),
    "positions/table": Route(positions.TableAsked, positions.table),
    "positions/similar": Route(positions.TableAsked, positions.similar),
    "positions/answers": Route(positions.OrderAsked, positions.answers),
    "positions/distances": Route(positions.OrderAsked, positions.distances),
}
"""`POST /api/<name>`."""
