"""The recipe: everything that decides a run, in one frozen tree of named slots."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2see.core.settings import Settings, default_kind
from seq2see.decoding.settings import Decoding
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import (
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
from seq2see.sequences.augmentation import Augmentation
from seq2see.sequences.tokenizers import BPE
from seq2see.sources.catalogue import CatalogueCorpus
from seq2see.sources.catalogue_images import CatalogueImages
from seq2see.sources.catalogue_texts import CatalogueText
from seq2see.sources.conll import UserTaggedTexts
from seq2see.sources.number_series import NoisySine, UserSeries
from seq2see.sources.pocket.pocket_corpus import PocketCorpus
from seq2see.sources.pocket.tense import PocketTense
from seq2see.sources.puzzle_corpus import PuzzleCorpus
from seq2see.sources.shapes.shapes_corpus import MovingShapesCorpus, ShapesCorpus
from seq2see.sources.texts import PythonLibrary, UserTexts
from seq2see.sources.user_images import UserCaptionedImages, UserCaptionedVideos, UserImages
from seq2see.sources.user_pairs import UserLabeledTexts, UserPairs
from seq2see.training.objectives import (
    Classification,
    MaskedToken,
    MaskedTokenNextSentence,
    NextToken,
    NextValue,
    Objective,
)
from seq2see.training.settings import Training

PairCorpus = (
    PocketCorpus | PocketTense | PuzzleCorpus | CatalogueCorpus | UserPairs | UserLabeledTexts | UserTaggedTexts
)
TextCorpus = UserTexts | PythonLibrary | CatalogueText
ImageCorpus = ShapesCorpus | UserImages | UserCaptionedImages | CatalogueImages
"""Corpora of images."""
VideoCorpus = MovingShapesCorpus | UserCaptionedVideos
"""Corpora of videos."""
Corpus = Annotated[
    PairCorpus | TextCorpus | UserSeries | NoisySine | ImageCorpus | VideoCorpus, Field(discriminator="kind")
]
Metric = Literal["bleu", "bleu-tokenized", "chrf", "exact_match", "d2l-bleu", "pronunciation", "alignment"]


OBJECTIVES: dict[type, type[Settings]] = {
    TextTarget: NextToken,
    MaskedTokensTarget: MaskedToken,
    MaskedTokensNSPTarget: MaskedTokenNextSentence,
    Label: Classification,
    ImageLabel: Classification,
    Tags: Classification,
    Series: NextValue,
}
"""Which question goes with which answer."""


class Recipe(ModelSettings):
    """A task: its data, its model, how it is trained, decoded and judged."""

    name: str
    """The name of the recipe; run folders are called after it."""
    corpus: Corpus
    """Where the examples come from."""
    augmentation: Augmentation | None = None
    pretrained: str | None = None
    """Of a model that only reads: a run, or a BERT or ViT, whose tokenizer and reading parts it starts from."""
    objective: Annotated[Objective, Field(discriminator="kind"), default_kind("next-token")] = NextToken()
    """What is asked of the model; it goes with the target."""
    training: Training = Training()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    """What an evaluation reports."""

    @property
    def is_running_text(self) -> bool:
        """Whether it learns from running text: a language model does, and so does whoever guesses hidden tokens."""
        return self.source is None or isinstance(self.target, MaskedTokensTarget | MaskedTokensNSPTarget)

    @model_validator(mode="after")
    def check_running_text(self) -> Recipe:
        """What a model of running text would ignore is refused."""
        if self.is_running_text:
            if self.training.batches == "packed":
                raise ValueError("windows of running text are full as they are: set training.batches=bucketed")
            if self.metrics:
                raise ValueError("running text is judged by perplexity alone: set metrics=[]")
            if isinstance(self.target, Series):
                return self
            side, text = ("target", self.target_text) if self.source is None else ("source", self.source_text)
            if isinstance(text.tokenizer, BPE) and text.tokenizer.dropout:
                raise ValueError(f"running text is cut once: set {side}.tokenizer.dropout=0")
        return self

    @model_validator(mode="after")
    def check_objective(self) -> Recipe:
        """A question that the model has no answer to is refused."""
        if isinstance(self.target, EmbeddingTarget):
            raise ValueError("vectors come with real weights, and no recipe teaches them: set target.kind=label, say")
        wanted = OBJECTIVES[type(self.target)]
        if not self.generates and self.metrics:
            raise ValueError("metrics are for texts that are written: set metrics=[]")
        tokenizer = self.source.tokenizer if isinstance(self.source, Text) else None
        if isinstance(self.target, Tags) and isinstance(tokenizer, BPE) and tokenizer.dropout:
            raise ValueError("tagged words are cut once: set source.tokenizer.dropout=0")
        if self.decoder is not None and self.pretrained is not None:
            raise ValueError("only models that read can start from a run: leave out start")
        if type(self.objective) is not wanted:
            kind = wanted.model_fields["kind"].default
            raise ValueError(f"target.kind={self.target.kind} goes with objective.kind={kind}")
        return self

    @model_validator(mode="after")
    def check_images(self) -> Recipe:
        """Images come from corpora of images, and texts do not."""
        kind = "image" if isinstance(self.corpus, ImageCorpus) else "text"
        kind = "video" if isinstance(self.corpus, VideoCorpus) else kind
        if (self.source.kind if isinstance(self.source, ImageSource) else "text") != kind:
            raise ValueError(f"corpus.kind={self.corpus.kind} goes with source.kind={kind}")
        if self.augmentation is not None and not isinstance(self.source, ImageSource):
            raise ValueError("only images have views: leave out [views]")
        if isinstance(self.source, VideoSource) and self.augmentation is not None:
            raise ValueError("videos have no views: leave out [views]")
        if self.generates and self.augmentation is not None and (self.augmentation.mixup or self.augmentation.cutmix):
            raise ValueError("two images in one have no caption: set augmentation.mixup=0 and augmentation.cutmix=0")
        return self

    @model_validator(mode="after")
    def check_batches(self) -> Recipe:
        """Lines with several texts are for models that a mask can keep from walking from one text to the next."""
        if self.training.batches == "packed" and self.encoder is not None:
            if not self.generates:
                raise ValueError("packed batches are for models that write: set training.batches=bucketed")
            walking = [side for side in ("encoder", "decoder") if getattr(self, side).kind != "transformer"]
            if walking:
                raise ValueError(f"packed batches need a Transformer as {walking[0]}: set training.batches=bucketed")
            if self.objective.feeding.kind != "teacher":
                raise ValueError("packed batches need objective.feeding.kind=teacher: or set training.batches=bucketed")
        return self

    @model_validator(mode="after")
    def check_contiguous(self) -> Recipe:
        """Streams are for whoever carries a state that does not grow, and is fed the text itself."""
        if self.training.batches != "contiguous":
            return self
        if not isinstance(self.decoder, RecurrentDecoderSettings) or self.encoder is not None:
            raise ValueError("contiguous batches are for recurrent language models: set training.batches=bucketed")
        if self.target_text.embedding.positions != "none":
            raise ValueError("a stream has no end, so its places have no numbers: set target.embedding.positions=none")
        assert isinstance(self.objective, NextToken)
        if self.objective.feeding.kind != "teacher" or self.objective.r_drop:
            raise ValueError(
                "contiguous batches are read once, unchanged: set objective.feeding.kind=teacher and objective.r_drop=0"
            )
        return self

    @model_validator(mode="after")
    def check_ngram(self) -> Recipe:
        """What counting would ignore is refused."""
        if isinstance(self.decoder, NgramSettings):
            for name, given, usual in (
                ("training", self.training, Training()), ("objective", self.objective, NextToken()),
                ("target.embedding", self.target_text.embedding, TokenEmbeddingSettings()), ("target.head", self.target_text.head, "tied"),
            ):  # fmt: skip
                if given != usual:
                    raise ValueError(
                        f"a text is counted in one pass, without vectors: leave {name} as the recipe ngram has it"
                    )
        return self

    @property
    def unit(self) -> str:
        """What a step asks for so many of, in short."""
        return "images" if isinstance(self.target, ImageLabel) else "tok"

    @property
    def steps(self) -> int:
        """How many steps training takes: those of the optimizer, or one for each order that is counted."""
        return self.decoder.order if isinstance(self.decoder, NgramSettings) else self.training.steps

    @property
    def model(self) -> ModelSettings:
        """The slots that decide the model's shape."""
        return ModelSettings(source=self.source, target=self.target, encoder=self.encoder, decoder=self.decoder)
