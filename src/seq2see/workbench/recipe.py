"""The recipe: everything that decides a run, in one frozen tree of named slots."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2see.decoding.settings import Decoding
from seq2see.models.counting import CountingSettings
from seq2see.models.settings import ModelSettings, Tokens
from seq2see.sequences.tokenisers import BytePairs
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.catalogued_texts import CataloguedText
from seq2see.sources.own_corpus import OwnFiles
from seq2see.sources.pocket.corpus import PocketCorpus
from seq2see.sources.puzzles import PuzzleCorpus
from seq2see.sources.texts import OwnTexts, PythonLibrary
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training

Pairs = PocketCorpus | PuzzleCorpus | CataloguedCorpus | OwnFiles
Texts = OwnTexts | PythonLibrary | CataloguedText
Corpus = Annotated[Pairs | Texts, Field(discriminator="kind")]
Metric = Literal["bleu", "bleu-tokenised", "chrf", "exact", "notes-bleu", "pronunciation", "alignment"]


class Recipe(ModelSettings):
    """A task: its data, its model, how it is trained, decoded and judged."""

    name: str
    """The name of the recipe; run folders are called after it."""
    corpus: Corpus
    """Where the examples come from."""
    objective: NextToken = NextToken()
    training: Training = Training()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact")
    """What an evaluation reports."""

    @model_validator(mode="after")
    def check_running_text(self) -> Recipe:
        """What a language model of running text would ignore is refused."""
        if self.encoder is None:
            if self.training.batches == "packed":
                raise ValueError("windows of running text are full as they are: set training.batches=buckets")
            if self.metrics:
                raise ValueError("running text is judged by perplexity alone: set metrics=[]")
            if isinstance(self.target.tokeniser, BytePairs) and self.target.tokeniser.dropout:
                raise ValueError("running text is cut once: set target.tokeniser.dropout=0")
        return self

    @model_validator(mode="after")
    def check_batches(self) -> Recipe:
        """Lines with several texts are for models that a mask can keep from walking from one text to the next."""
        if self.training.batches == "packed" and self.encoder is not None:
            walking = [side for side in ("encoder", "decoder") if getattr(self, side).kind != "transformer"]
            if walking:
                raise ValueError(f"packed batches need a Transformer as {walking[0]}: set training.batches=buckets")
            if self.objective.feeding.kind != "teacher":
                raise ValueError("packed batches need objective.feeding.kind=teacher: or set training.batches=buckets")
        return self

    @model_validator(mode="after")
    def check_counting(self) -> Recipe:
        """What counting would ignore is refused."""
        if isinstance(self.decoder, CountingSettings):
            for name, given, usual in (
                ("training", self.training, Training()), ("objective", self.objective, NextToken()),
                ("target.frontend", self.target.frontend, Tokens()), ("target.head", self.target.head, "tied"),
            ):  # fmt: skip
                if given != usual:
                    raise ValueError(
                        f"a text is counted in one pass, without vectors: leave {name} as the recipe count has it"
                    )
        return self

    @property
    def steps(self) -> int:
        """How many steps training takes: those of the optimiser, or one for each order that is counted."""
        return self.decoder.order if isinstance(self.decoder, CountingSettings) else self.training.steps

    @property
    def model(self) -> ModelSettings:
        """The slots that decide the model's shape."""
        return ModelSettings(source=self.source, target=self.target, encoder=self.encoder, decoder=self.decoder)
