"""The experiments by claim; the module of an experiment is imported when it is needed."""

from __future__ import annotations

import importlib

from seq2see.labs.claims import EXPERIMENTS, Claim
from seq2see.labs.experiment import Experiment


def experiment_of(claim: Claim) -> Experiment:
    """The experiment of a claim, from `LABS` in its module."""
    module = importlib.import_module(f"seq2see.labs.{EXPERIMENTS[claim.id]}")
    experiments: dict[str, Experiment] = module.LABS
    return experiments[claim.id]
