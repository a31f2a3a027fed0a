"""The description of each run for the page: its model family, its task, its capabilities and its views."""

from __future__ import annotations

from typing import Any

from seq2see.explorer.inputs import first_example
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.settings import ModelSettings


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
        "family": run.task.family(settings),
        "task": run.task.name,
        "encoder": settings.encoder.kind if settings.encoder else None,
        "decoder": settings.decoder.kind if settings.decoder else None,
        "ready": run.ready,
        "capabilities": capabilities_of(run),
        "views": views_of(run),
        "settings": run.task.shown_settings(run.model) if run.ready else {},
        "languages": languages_of(run),
        "example": first_example(run),
    }


def capabilities_of(run: OpenRun) -> list[str]:
    """What the views can show of a run; of an unfinished run only the training curves."""
    if not run.ready:
        return ["curves"]
    settings, is_single = run.settings, not run.config.members  # the members of an ensemble differ
    kinds = {part.kind for part in (settings.encoder, settings.decoder) if part}
    has_attention = getattr(settings.decoder, "attention", "") not in ("", "none", "context-vector")
    capabilities = {
        "curves": run.folder is not None,
        "text": run.task.input_kind == "text",
        "images": run.task.input_kind == "image",
        "videos": run.task.input_kind == "video",
        "series": run.task.input_kind == "series",
        "sounds": run.task.input_kind == "sound",
        "embeddings": is_single and "embeddings" in run.task.views and _has_table(settings),
        "attention": is_single and ("transformer" in kinds or has_attention),
        "recurrent": is_single and "recurrent" in kinds,
        "target": run.task.generates and settings.source is not None,
        "masks": run.task.fills_masks,
        "decode": "decode" in run.task.views,
        "evaluation": run.folder is not None and run.folder.evaluation.is_dir(),
    }
    return [name for name, holds in capabilities.items() if holds]


def _has_table(settings: ModelSettings) -> bool:
    """Whether the source is embedded by a table of tokens; of models without a source text, the target."""
    sides = [getattr(side, "embedding", None) for side in (settings.source, settings.target)]
    return any(getattr(embedding, "kind", "") in ("tokens", "bert") for embedding in sides)


def views_of(run: OpenRun) -> list[str]:
    """The views that support a run: the menu of the page, and the views of a saved page."""
    capabilities, is_single = {*capabilities_of(run)}, run.ready and not run.config.members
    kinds = {part.kind for part in (run.settings.encoder, run.settings.decoder) if part}
    has_positions = "transformer" in kinds and capabilities & {"text", "images"}
    supported = {
        "runs": "curves" in capabilities,
        "tokenize": run.ready,
        "attention": "attention" in capabilities,
        "single-head": "attention" in capabilities,
        "next-token": run.ready,
        "decode": run.ready,
        "recurrent": "recurrent" in capabilities,
        "vit": is_single,
        "speech": is_single,
        "positions": is_single and (has_positions or not run.task.fixed_order),
        "compare": run.ready,
        "mistakes": run.ready and "curves" in capabilities,
        "architecture": run.ready,
        "embeddings": "embeddings" in capabilities,
    }
    return [view for view, holds in supported.items() if holds and view in run.task.views]


def languages_of(run: OpenRun) -> list[str]:
    """The source and target language of the corpus, if it has languages."""
    if run.folder is None:
        return []
    corpus = run.recipe.slot("corpus")
    languages = [getattr(corpus, side, None) for side in ("source", "target")]
    return [each for each in languages if isinstance(each, str)]
