"""The description of each run for the page: its model family, its task, its capabilities and its views."""

from __future__ import annotations

from typing import Any

from seq2see.explorer.inputs import first_example
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
"""The task of a model by its target; the task of generative models depends on the source."""


def list_runs(workspace: Workspace) -> dict[str, Any]:
    """The descriptions of all runs, in the order in which they were opened."""
    return {"runs": [describe_run(run) for run in workspace.runs.values()]}


def describe_run(run: OpenRun) -> dict[str, Any]:
    """The description of one run."""
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
    """The common name of this kind of model."""
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
    """The task of a model."""
    if not settings.generates:
        return TASKS[type(settings.target)]
    if settings.source is None:
        return "write"
    return "caption" if isinstance(settings.source, ImageSource) else "translate"


def capabilities_of(run: OpenRun) -> list[str]:
    """What the views can show of a run; of an unfinished run only the training curves."""
    if not run.ready:
        return ["curves"]
    settings, is_single = run.settings, not run.config.members  # the members of an ensemble differ
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    has_attention = getattr(settings.decoder, "attention", "") not in ("", "none", "context-vector")
    capabilities = {
        "curves": run.folder is not None,
        "text": isinstance(settings.source, Text) or (settings.source is None and settings.generates),
        "images": isinstance(settings.source, ImageSource) and not isinstance(settings.source, VideoSource),
        "videos": isinstance(settings.source, VideoSource),
        "series": isinstance(settings.target, Series),
        "embeddings": is_single
        and not isinstance(settings.decoder, NgramSettings)
        and isinstance(_embedding_settings(settings), TokenEmbeddingSettings | BertEmbeddingSettings),
        "attention": is_single and ("transformer" in kinds or has_attention),
        "recurrent": is_single and "recurrent" in kinds,
        "decode": isinstance(settings.target, TextTarget),
        "evaluation": run.folder is not None and run.folder.evaluation.is_dir(),
    }
    return [name for name, holds in capabilities.items() if holds]


def _embedding_settings(settings: ModelSettings) -> Any:
    """The settings of the source embedding; of models without a source text, those of the target embedding."""
    side = settings.source if isinstance(settings.source, Text) else settings.target
    return getattr(side, "embedding", None)


def views_of(run: OpenRun) -> list[str]:
    """The views that support a run: the menu of the page, and the views of a saved page."""
    capabilities, is_single = {*capabilities_of(run)}, run.ready and not run.config.members
    settings = run.settings
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    has_positions = "transformer" in kinds and capabilities & {"text", "images"}
    reorderable = (
        "text" in capabilities
        and not isinstance(settings.decoder, NgramSettings)
        and not isinstance(settings.target, Tags | EmbeddingTarget)
    )
    has_input = capabilities & {"text", "images", "videos", "series"}
    supported = {
        "runs": "curves" in capabilities,
        "tokenize": capabilities & {"text", "decode"},
        "attention": "attention" in capabilities,
        "single-head": "attention" in capabilities,
        "next-token": "decode" in capabilities or (run.ready and task_of(settings) == "fill"),
        "decode": "decode" in capabilities,
        "recurrent": "recurrent" in capabilities,
        "vit": is_single and capabilities & {"images", "videos"},
        "positions": is_single and (has_positions or reorderable),
        "compare": has_input and not isinstance(settings.target, EmbeddingTarget),
        "mistakes": run.ready and "curves" in capabilities,
        "architecture": run.ready,
        "embeddings": "embeddings" in capabilities,
    }
    return [view for view, holds in supported.items() if holds]


def languages_of(run: OpenRun) -> list[str]:
    """The source and target language of the corpus, if it has languages."""
    if run.folder is None:
        return []
    corpus = run.recipe.slot("corpus")
    languages = [getattr(corpus, side, None) for side in ("source", "target")]
    return [each for each in languages if isinstance(each, str)]
