"""The settings of the pocket corpus."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.sources.examples import Example
from seq2see.sources.pocket.pairing import LANGUAGES, LanguageCode
from seq2see.sources.pocket.splits import fill_splits


class PocketCorpus(Settings):
    """A small bilingual world: Chinese and English sentences with gold alignments and parts of speech."""

    kind: Literal["pocket"] = "pocket"
    source: LanguageCode = "zh"
    """The source language: zh or en."""
    target: LanguageCode = "en"
    """The target language."""
    size: int = Field(default=32_000, ge=1, le=1_000_000)
    """The number of different training pairs; the other splits do not depend on it."""

    @model_validator(mode="after")
    def _two_languages(self) -> PocketCorpus:
        if self.source == self.target:
            raise UserError(
                f"The pocket corpus cannot translate from '{self.source}' into itself.",
                hint=f"Choose another source or target; there are: {', '.join(LANGUAGES)}.",
            )
        return self

    def splits(self) -> dict[str, list[Example]]:
        """train, valid, test, and the three that test generalization: pairs, roles, length."""
        return fill_splits(LANGUAGES[self.source], LANGUAGES[self.target], self.size)
