"""The recipe: everything that decides a run, in one frozen tree of named slots."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2see.core.settings import Settings, usually
from seq2see.decoding.settings import Decoding
from seq2see.models.counting import CountingSettings
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import (
    Blanks,
    BlanksAndPairs,
    Label,
    ModelSettings,
    PictureLabel,
    Series,
    Tags,
    Text,
    TextTarget,
    Tokens,
    Vector,
)
from seq2see.sequences.tokenisers import BytePairs
from seq2see.sequences.views import Views
from seq2see.sources.catalogue import CataloguedCorpus
from seq2see.sources.catalogued_pictures import CataloguedPictures
from seq2see.sources.catalogued_texts import CataloguedText
from seq2see.sources.conll import OwnTagged
from seq2see.sources.own_corpus import OwnFiles, OwnLabelled
from seq2see.sources.own_pictures import OwnCaptions, OwnFilms, OwnPictures
from seq2see.sources.pocket.corpus import PocketCorpus
from seq2see.sources.pocket.times import PocketTimes
from seq2see.sources.puzzles import PuzzleCorpus
from seq2see.sources.series import OwnSeries, Waves
from seq2see.sources.shapes.corpus import MovingShapes, Shapes
from seq2see.sources.texts import OwnTexts, PythonLibrary
from seq2see.training.objectives import (
    Classify,
    MaskedToken,
    MaskedTokenNextSentence,
    NextToken,
    NextValue,
    Objective,
)
from seq2see.training.settings import Training

Pairs = PocketCorpus | PocketTimes | PuzzleCorpus | CataloguedCorpus | OwnFiles | OwnLabelled | OwnTagged
Texts = OwnTexts | PythonLibrary | CataloguedText
Looked = Shapes | OwnPictures | OwnCaptions | CataloguedPictures
"""Corpora of pictures."""
Watched = MovingShapes | OwnFilms
"""Corpora of films."""
Corpus = Annotated[Pairs | Texts | OwnSeries | Waves | Looked | Watched, Field(discriminator="kind")]
Metric = Literal["bleu", "bleu-tokenised", "chrf", "exact", "notes-bleu", "pronunciation", "alignment"]


OBJECTIVES: dict[type, type[Settings]] = {
    TextTarget: NextToken,
    Blanks: MaskedToken,
    BlanksAndPairs: MaskedTokenNextSentence,
    Label: Classify,
    PictureLabel: Classify,
    Tags: Classify,
    Series: NextValue,
}
"""Which question goes with which answer."""


class Recipe(ModelSettings):
    """A task: its data, its model, how it is trained, decoded and judged."""

    name: str
    """The name of the recipe; run folders are called after it."""
    corpus: Corpus
    """Where the examples come from."""
    views: Views | None = None
    start: str | None = None
    """Of a model that only reads: a run, or a BERT or ViT, whose tokeniser and reading parts it starts from."""
    objective: Annotated[Objective, Field(discriminator="kind"), usually("next-token")] = NextToken()
    """What is asked of the model; it goes with the target."""
    training: Training = Training()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact")
    """What an evaluation reports."""

    @property
    def runs_on(self) -> bool:
        """Whether it learns from running text: a language model does, and so does whoever guesses hidden tokens."""
        return self.source is None or isinstance(self.target, Blanks | BlanksAndPairs)

    @model_validator(mode="after")
    def check_running_text(self) -> Recipe:
        """What a model of running text would ignore is refused."""
        if self.runs_on:
            if self.training.batches == "packed":
                raise ValueError("windows of running text are full as they are: set training.batches=buckets")
            if self.metrics:
                raise ValueError("running text is judged by perplexity alone: set metrics=[]")
            if isinstance(self.target, Series):
                return self
            side, text = ("target", self.written) if self.source is None else ("source", self.read)
            if isinstance(text.tokeniser, BytePairs) and text.tokeniser.dropout:
                raise ValueError(f"running text is cut once: set {side}.tokeniser.dropout=0")
        return self

    @model_validator(mode="after")
    def check_objective(self) -> Recipe:
        """A question that the model has no answer to is refused."""
        if isinstance(self.target, Vector):
            raise ValueError("vectors come with real weights, and no recipe teaches them: set target.kind=label, say")
        wanted = OBJECTIVES[type(self.target)]
        if not self.writes and self.metrics:
            raise ValueError("metrics are for texts that are written: set metrics=[]")
        tokeniser = self.source.tokeniser if isinstance(self.source, Text) else None
        if isinstance(self.target, Tags) and isinstance(tokeniser, BytePairs) and tokeniser.dropout:
            raise ValueError("tagged words are cut once: set source.tokeniser.dropout=0")
        if self.decoder is not None and self.start is not None:
            raise ValueError("only models that read can start from a run: leave out start")
        if type(self.objective) is not wanted:
            kind = wanted.model_fields["kind"].default
            raise ValueError(f"target.kind={self.target.kind} goes with objective.kind={kind}")
        return self

    @model_validator(mode="after")
    def check_pictures(self) -> Recipe:
        """Pictures come from corpora of pictures, and texts do not."""
        kind = "picture" if isinstance(self.corpus, Looked) else "text"
        kind = "film" if isinstance(self.corpus, Watched) else kind
        if (self.source.kind if isinstance(self.source, Picture) else "text") != kind:
            raise ValueError(f"corpus.kind={self.corpus.kind} goes with source.kind={kind}")
        if self.views is not None and not isinstance(self.source, Picture):
            raise ValueError("only pictures have views: leave out [views]")
        if isinstance(self.source, Film) and self.views is not None:
            raise ValueError("films have no views: leave out [views]")
        if self.writes and self.views is not None and (self.views.mixup or self.views.cutmix):
            raise ValueError("two pictures in one have no caption: set views.mixup=0 and views.cutmix=0")
        return self

    @model_validator(mode="after")
    def check_batches(self) -> Recipe:
        """Lines with several texts are for models that a mask can keep from walking from one text to the next."""
        if self.training.batches == "packed" and self.encoder is not None:
            if not self.writes:
                raise ValueError("packed batches are for models that write: set training.batches=buckets")
            walking = [side for side in ("encoder", "decoder") if getattr(self, side).kind != "transformer"]
            if walking:
                raise ValueError(f"packed batches need a Transformer as {walking[0]}: set training.batches=buckets")
            if self.objective.feeding.kind != "teacher":
                raise ValueError("packed batches need objective.feeding.kind=teacher: or set training.batches=buckets")
        return self

    @model_validator(mode="after")
    def check_streams(self) -> Recipe:
        """Streams are for whoever carries a state that does not grow, and is fed the text itself."""
        if self.training.batches != "streams":
            return self
        if not isinstance(self.decoder, RecurrentDecoderSettings) or self.encoder is not None:
            raise ValueError("streams are for recurrent language models: set training.batches=buckets")
        if self.written.frontend.positions != "none":
            raise ValueError("a stream has no end, so its places have no numbers: set target.frontend.positions=none")
        assert isinstance(self.objective, NextToken)
        if self.objective.feeding.kind != "teacher" or self.objective.agreement:
            raise ValueError(
                "streams are read once and as they are: set objective.feeding.kind=teacher and objective.agreement=0"
            )
        return self

    @model_validator(mode="after")
    def check_counting(self) -> Recipe:
        """What counting would ignore is refused."""
        if isinstance(self.decoder, CountingSettings):
            for name, given, usual in (
                ("training", self.training, Training()), ("objective", self.objective, NextToken()),
                ("target.frontend", self.written.frontend, Tokens()), ("target.head", self.written.head, "tied"),
            ):  # fmt: skip
                if given != usual:
                    raise ValueError(
                        f"a text is counted in one pass, without vectors: leave {name} as the recipe count has it"
                    )
        return self

    @property
    def unit(self) -> str:
        """What a step asks for so many of, in short."""
        return "pictures" if isinstance(self.target, PictureLabel) else "tok"

    @property
    def steps(self) -> int:
        """How many steps training takes: those of the optimiser, or one for each order that is counted."""
        return self.decoder.order if isinstance(self.decoder, CountingSettings) else self.training.steps

    @property
    def model(self) -> ModelSettings:
        """The slots that decide the model's shape."""
        return ModelSettings(source=self.source, target=self.target, encoder=self.encoder, decoder=self.decoder)
