"""What the page is told about each run: which family it is of, what it does, and what can be looked at in it."""

from __future__ import annotations

from typing import Any

from seq2see.explorer.default_inputs import first_example
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import (
    BertEmbeddingSettings,
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Series,
    Tags,
    Text,
    TextTarget,
    TokenEmbeddingSettings,
)

TASKS: dict[type, str] = {
    MaskedTokensTarget: "fill", MaskedTokensNSPTarget: "fill", Label: "classify", ImageLabel: "classify", Tags: "tag",
    Series: "forecast", EmbeddingTarget: "embed",
}  # fmt: skip
"""What a model does, by the kind of its target; those that write texts differ by what they read."""


def list_runs(workspace: Workspace) -> dict[str, Any]:
    """All runs, in the order in which they were opened."""
    return {"runs": [describe_run(run) for run in workspace.runs.values()]}


def describe_run(run: OpenRun) -> dict[str, Any]:
    """One run, as the page knows it."""
    settings = run.settings
    return {
        "id": run.id,
        "name": run.name,
        "load_name": run.load_name or run.name,
        "recipe": run.recipe.name if run.folder else run.config.name,
        "family": family_of(settings),
        "task": task_of(settings),
        "encoder": settings.encoder.kind if settings.encoder else None,
        "decoder": settings.decoder.kind if settings.decoder else None,
        "ready": run.ready,
        "capabilities": capabilities_of(run),
        "views": views_of(run),
        "languages": languages_of(run),
        "example": first_example(run),
    }


def family_of(settings: ModelSettings) -> str:
    """The name by which a learner knows this kind of model."""
    if settings.encoder is None:
        assert settings.decoder is not None
        return "gpt" if settings.decoder.kind == "transformer" else settings.decoder.kind
    if isinstance(settings.source, ImageSource):
        if settings.generates:
            return "video" if isinstance(settings.source, VideoSource) else "caption"
        return "vit" if settings.encoder.kind == "transformer" else settings.encoder.kind
    if settings.decoder is None:
        return "bert" if settings.encoder.kind == "transformer" else settings.encoder.kind
    kinds = {settings.encoder.kind, settings.decoder.kind}
    return "recurrent" if "recurrent" in kinds else settings.decoder.kind


def task_of(settings: ModelSettings) -> str:
    """What it does."""
    if not settings.generates:
        return TASKS[type(settings.target)]
    if settings.source is None:
        return "write"
    return "caption" if isinstance(settings.source, ImageSource) else "translate"


def capabilities_of(run: OpenRun) -> list[str]:
    """What can be looked at in it; while it is trained, no more than how that goes."""
    if not run.ready:
        return ["curves"]
    settings, alone = run.settings, not run.config.members  # what members of an ensemble do differs
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    attends = getattr(settings.decoder, "attention", "") not in ("", "none", "context-vector")
    facts = {
        "curves": run.folder is not None,
        "text": isinstance(settings.source, Text) or (settings.source is None and settings.generates),
        "images": isinstance(settings.source, ImageSource) and not isinstance(settings.source, VideoSource),
        "videos": isinstance(settings.source, VideoSource),
        "series": isinstance(settings.target, Series),
        "embeddings": alone
        and not isinstance(settings.decoder, NgramSettings)
        and isinstance(_embedding_settings(settings), TokenEmbeddingSettings | BertEmbeddingSettings),
        "attention": alone and ("transformer" in kinds or attends),
        "recurrent": alone and "recurrent" in kinds,
        "decode": isinstance(settings.target, TextTarget),
        "evaluation": run.folder is not None and run.folder.evaluation.is_dir(),
    }
    return [name for name, holds in facts.items() if holds]


def _embedding_settings(settings: ModelSettings) -> Any:
    """What makes vectors of words: those that are read; of a model that reads none, those that are written."""
    side = settings.source if isinstance(settings.source, Text) else settings.target
    return getattr(side, "embedding", None)


def views_of(run: OpenRun) -> list[str]:
    """The views that have something to show of a run: the page's menu, and what a saved page asks."""
    can, alone, settings = {*capabilities_of(run)}, run.ready and not run.config.members, run.settings
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    told = "transformer" in kinds and can & {"text", "images"}  # where something stands
    has_order = not isinstance(settings.decoder, NgramSettings) and not isinstance(settings.target, Tags | EmbeddingTarget)
    movable = "text" in can and has_order
    shows = {
        "runs": "curves" in can,
        "tokenize": can & {"text", "decode"},
        "attention": "attention" in can,
        "single-head": "attention" in can,
        "next-token": "decode" in can or (run.ready and task_of(settings) == "fill"),
        "decode": "decode" in can,
        "recurrent": "recurrent" in can,
        "vit": alone and can & {"images", "videos"},
        "positions": alone and (told or movable),
        "compare": can & {"text", "images", "videos", "series"} and not isinstance(settings.target, EmbeddingTarget),
        "mistakes": run.ready and "curves" in can,
        "architecture": run.ready,
        "embeddings": "embeddings" in can,
    }
    return [view for view, holds in shows.items() if holds]


def languages_of(run: OpenRun) -> list[str]:
    """The languages of a corpus that names them, source first."""
    if run.folder is None:
        return []
    corpus = run.recipe.corpus
    found = [getattr(corpus, side, None) for side in ("source", "target")]
    return [each for each in found if isinstance(each, str)]
