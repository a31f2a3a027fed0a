"""The recipe: all settings of a run, as one frozen tree. Each task has its own type, with the slots that it has."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from seq2see.core.settings import OpenKinds, Settings
from seq2see.models.convolutional import GatedCNNSettings, TextCNNSettings
from seq2see.models.recurrent import RecurrentEncoderSettings
from seq2see.models.settings import OWN_ENCODERS, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.training.settings import Training

TextEncoder = Annotated[
    TransformerSettings | RecurrentEncoderSettings | GatedCNNSettings | TextCNNSettings,
    Field(discriminator="kind"),
    OpenKinds(OWN_ENCODERS),
]
"""The encoders of texts."""


class Recipe(Settings):
    """All settings of a run: data, model, training and evaluation."""

    task: str
    """What the model is trained for; the task determines which other settings there are."""
    name: str
    """The name of the recipe, and of its run folders."""
    training: Training = Training()

    model_settings: ClassVar[type[ModelSettings]] = ModelSettings
    """The type of the settings of the model."""

    @property
    def model(self) -> ModelSettings:
        """The settings of the model: those of the slots source, target, encoder and decoder that the recipe has."""
        slots = {slot: self.slot(slot) for slot in self.model_settings.model_fields if self.slot(slot)}
        return self.model_settings(**slots)

    def slot(self, name: str) -> Any:
        """The settings of a slot; None if recipes of this task have no such slot."""
        return getattr(self, name) if name in type(self).model_fields else None

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return self.training.steps

    @model_validator(mode="after")
    def check_model(self) -> Recipe:
        """Refuse a model whose parts do not fit together."""
        try:
            _ = self.model
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(str(first["ctx"]["error"]) if "ctx" in first else str(error)) from None
        return self
