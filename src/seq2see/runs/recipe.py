"""The recipe: all settings of a run, as one frozen tree."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2see.core.settings import Settings, default_kind
from seq2see.data.augmentation import Augmentation
from seq2see.data.catalogue.catalogue import CatalogueCorpus
from seq2see.data.catalogue.catalogue_images import CatalogueImages
from seq2see.data.catalogue.catalogue_texts import CatalogueText
from seq2see.data.generated.pocket.pocket_corpus import PocketCorpus
from seq2see.data.generated.pocket.tense import PocketTense
from seq2see.data.generated.puzzle_corpus import PuzzleCorpus
from seq2see.data.generated.shapes.shapes_corpus import MovingShapesCorpus, ShapesCorpus
from seq2see.data.readers.conll import UserTaggedTexts
from seq2see.data.readers.number_series import NoisySine, UserSeries
from seq2see.data.readers.texts import PythonLibrary, UserTexts
from seq2see.data.readers.user_images import UserCaptionedImages, UserCaptionedVideos, UserImages
from seq2see.data.readers.user_pairs import UserLabeledTexts, UserPairs
from seq2see.data.tokenizers.tokenizer import BPE
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
"""The training objective for each kind of target."""


class Recipe(ModelSettings):
    """All settings of a run: data, model, training, decoding and evaluation."""

    name: str
    """The name of the recipe, and of its run folders."""
    corpus: Corpus
    """The source of the examples."""
    augmentation: Augmentation | None = None
    pretrained: str | None = None
    """For encoder-only models: a run, a BERT or a ViT whose tokenizer and encoder are fine-tuned."""
    objective: Annotated[Objective, Field(discriminator="kind"), default_kind("next-token")] = NextToken()
    """The training objective; it must match the kind of the target."""
    training: Training = Training()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    """The metrics that an evaluation computes."""

    @property
    def is_running_text(self) -> bool:
        """Whether it trains on running text: language models and masked language models do."""
        return self.source is None or isinstance(self.target, MaskedTokensTarget | MaskedTokensNSPTarget)

    @model_validator(mode="after")
    def check_running_text(self) -> Recipe:
        """Refuse settings that have no effect on running text."""
        if self.is_running_text:
            if self.training.batches == "packed":
                raise ValueError("windows of running text have no padding to save: set training.batches=bucketed")
            if self.metrics:
                raise ValueError("running text is evaluated by perplexity only: set metrics=[]")
            if isinstance(self.target, Series):
                return self
            side, text = ("target", self.target_text) if self.source is None else ("source", self.source_text)
            if isinstance(text.tokenizer, BPE) and text.tokenizer.dropout:
                raise ValueError(f"running text is tokenized once: set {side}.tokenizer.dropout=0")
        return self

    @model_validator(mode="after")
    def check_objective(self) -> Recipe:
        """Refuse an objective that does not match the target."""
        if isinstance(self.target, EmbeddingTarget):
            raise ValueError("embedding models are pretrained, not trained by recipes: set target.kind=label")
        objective = OBJECTIVES[type(self.target)]
        if not self.generates and self.metrics:
            raise ValueError("metrics are for generated texts: set metrics=[]")
        tokenizer = self.source.tokenizer if isinstance(self.source, Text) else None
        if isinstance(self.target, Tags) and isinstance(tokenizer, BPE) and tokenizer.dropout:
            raise ValueError("tagged words are tokenized once: set source.tokenizer.dropout=0")
        if self.decoder is not None and self.pretrained is not None:
            raise ValueError("only encoder-only models can start from pretrained weights: leave out pretrained")
        if type(self.objective) is not objective:
            kind = objective.model_fields["kind"].default
            raise ValueError(f"target.kind={self.target.kind} goes with objective.kind={kind}")
        return self

    @model_validator(mode="after")
    def check_images(self) -> Recipe:
        """Refuse a corpus whose kind (text, image or video) does not match the source."""
        kind = "image" if isinstance(self.corpus, ImageCorpus) else "text"
        kind = "video" if isinstance(self.corpus, VideoCorpus) else kind
        if (self.source.kind if isinstance(self.source, ImageSource) else "text") != kind:
            raise ValueError(f"corpus.kind={self.corpus.kind} goes with source.kind={kind}")
        if self.augmentation is not None and not isinstance(self.source, ImageSource):
            raise ValueError("only images have augmentation: leave out [augmentation]")
        if isinstance(self.source, VideoSource) and self.augmentation is not None:
            raise ValueError("videos have no augmentation: leave out [augmentation]")
        if self.generates and self.augmentation is not None and (self.augmentation.mixup or self.augmentation.cutmix):
            raise ValueError("mixed images have no caption: set augmentation.mixup=0 and augmentation.cutmix=0")
        return self

    @model_validator(mode="after")
    def check_batches(self) -> Recipe:
        """Refuse packed batches for models without an attention mask between the packed texts."""
        if self.training.batches == "packed" and self.encoder is not None:
            if not self.generates:
                raise ValueError("packed batches are for generative models: set training.batches=bucketed")
            unmasked = [side for side in ("encoder", "decoder") if getattr(self, side).kind != "transformer"]
            if unmasked:
                raise ValueError(f"packed batches need a Transformer as {unmasked[0]}: set training.batches=bucketed")
            if self.objective.feeding.kind != "teacher":
                raise ValueError("packed batches need objective.feeding.kind=teacher: or set training.batches=bucketed")
        return self

    @model_validator(mode="after")
    def check_contiguous(self) -> Recipe:
        """Refuse contiguous batches for models without a recurrent state, and without teacher forcing."""
        if self.training.batches != "contiguous":
            return self
        if not isinstance(self.decoder, RecurrentDecoderSettings) or self.encoder is not None:
            raise ValueError("contiguous batches are for recurrent language models: set training.batches=bucketed")
        if self.target_text.embedding.positions != "none":
            raise ValueError("contiguous batches have no last position: set target.embedding.positions=none")
        assert isinstance(self.objective, NextToken)
        if self.objective.feeding.kind != "teacher" or self.objective.r_drop:
            raise ValueError(
                "contiguous batches are read once, unchanged: set objective.feeding.kind=teacher and objective.r_drop=0"
            )
        return self

    @model_validator(mode="after")
    def check_ngram(self) -> Recipe:
        """Refuse settings that have no effect on an n-gram model."""
        if isinstance(self.decoder, NgramSettings):
            for name, value, default in (
                ("training", self.training, Training()), ("objective", self.objective, NextToken()),
                ("target.embedding", self.target_text.embedding, TokenEmbeddingSettings()),
                ("target.head", self.target_text.head, "tied"),
            ):  # fmt: skip
                if value != default:
                    raise ValueError(
                        f"an n-gram model has no embeddings and no optimizer: leave {name} as in the recipe ngram"
                    )
        return self

    @property
    def unit(self) -> str:
        """The unit of the training speed."""
        return "images" if isinstance(self.target, ImageLabel) else "tok"

    @property
    def steps(self) -> int:
        """The number of training steps; an n-gram model has one for each order."""
        return self.decoder.order if isinstance(self.decoder, NgramSettings) else self.training.steps

    @property
    def model(self) -> ModelSettings:
        """The settings of the model."""
        return ModelSettings(source=self.source, target=self.target, encoder=self.encoder, decoder=self.decoder)
