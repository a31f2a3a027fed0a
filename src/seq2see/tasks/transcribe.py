"""transcribe: the text of a recording. Sound is a sequence, too: four frames of its spectrogram become one vector.

Four outputs with one encoder: CTC (Graves et al. 2006), a decoder with attention (Chan et al. 2016), both (Watanabe et
al. 2017), a transducer (Graves 2012) with or without attention. `speech_outputs.py` decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from seq2see.core.batch import IGNORE_INDEX, Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.catalogue.digit_strings import DigitStrings
from seq2see.data.catalogue.mandarin_words import MandarinWords
from seq2see.data.examples import Example, short_name
from seq2see.data.generated.morse import MorseCorpus
from seq2see.data.generated.tones import ToneCorpus
from seq2see.data.log_mel import LogMel
from seq2see.data.pair_dataset import NO_EXAMPLE, BucketSampler, padded_width
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.user_recordings import UserRecordings
from seq2see.data.recording_dataset import RecordingDataset
from seq2see.data.recordings import RecordingExamples
from seq2see.data.sound_augmentation import SPEECH, SoundAugmentation
from seq2see.data.tokenizers.tokenizer import BOS, PAD, train_tokenizer
from seq2see.decoding.speech_settings import SpeechDecoding
from seq2see.models.build_speech import build_speech_model
from seq2see.models.settings import ModelSettings
from seq2see.models.sound_settings import Sound, SpeechDecoder, SpeechEncoder, SpeechModelSettings, SpeechTarget
from seq2see.tasks.generative import GenerativeTask
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import ReportSection, ReportTable, RunResults, Tree, Words
from seq2see.tasks.speech_figures import batch_figure, transcript_figure
from seq2see.tasks.speech_outputs import OUTPUTS, output_of
from seq2see.tasks.speech_scores import (
    headline,
    score_lines,
    score_recordings,
    score_table,
    speech_sections,
    speech_tiles,
)
from seq2see.tasks.task import (
    DEVELOPMENT_SPLITS,
    BatchAt,
    Capture,
    Comparison,
    EvaluatedRow,
    Evaluation,
    SplitProgress,
    Splits,
    plain,
    split_sizes,
)
from seq2see.tasks.transcriber import Transcriber, batches_of, to_sequences
from seq2see.training.objectives import NextToken

VALIDATED = 100
"""The number of validation recordings that are transcribed at each evaluation during training."""
EXAMPLE_HERTZ = 440
"""The frequency of the example input, a tone."""
NAMED = 3
"""The number of recordings that an error message names."""


class TranscribeRecipe(Recipe):
    """A recipe of the task transcribe: an encoder of the sound, and one of four outputs."""

    task: Literal["transcribe"] = "transcribe"
    corpus: Annotated[
        MorseCorpus | ToneCorpus | DigitStrings | MandarinWords | UserRecordings, Field(discriminator="kind")
    ]
    """The source of the examples."""
    source: Sound = Sound()
    target: SpeechTarget
    encoder: SpeechEncoder
    """The encoder of the sound."""
    decoder: SpeechDecoder | None = None
    """The decoder with attention, or the prediction network of a transducer; CTC has none."""
    augmentation: SoundAugmentation | None = None
    objective: NextToken = NextToken()
    """The objective of a decoder with attention; CTC and transducers maximize the probability of the labels."""
    decoding: SpeechDecoding = SpeechDecoding()

    model_settings: ClassVar[type[ModelSettings]] = SpeechModelSettings

    @model_validator(mode="after")
    def check_batches(self) -> TranscribeRecipe:
        """Refuse batches of texts, and settings of another objective."""
        if self.training.batches != "bucketed":
            raise ValueError(f"{self.training.batches} batches are for texts: set training.batches=bucketed")
        changed = self.objective.model_dump(exclude={"label_smoothing"}) != NextToken().model_dump(
            exclude={"label_smoothing"}
        )
        is_smoothed = bool(self.objective.label_smoothing) and self.target.kind != "ctc-attention"
        if self.target.kind != "text" and (changed or is_smoothed):
            raise ValueError("these settings of the objective are for target.kind=text: leave out [objective]")
        return self


class Transcribe(GenerativeTask):
    """The text of a recording."""

    name: ClassVar[str] = "transcribe"
    recipe: ClassVar[type[Recipe]] = TranscribeRecipe
    input_kind: ClassVar[str] = "sound"
    input_name: ClassVar[str] = "the name of a sound file"
    reads_files: ClassVar[bool] = True
    views: ClassVar[tuple[str, ...]] = ("runs", "speech", "mistakes", "architecture")
    fixed_order: ClassVar[str] = "The frames of a recording cannot be reordered."
    comparison: ClassVar[Comparison] = "scores"

    # --- from files to batches ---

    def corpus(self, paths: tuple[str, ...]) -> Any:
        """The user's own recordings: a folder, or a list of files and texts."""
        return UserRecordings(paths=paths)

    def with_data(self, recipe: Any, paths: tuple[str, ...]) -> Any:
        """A recipe with the user's own recordings as its corpus, and the augmentation of speech if it has none."""
        changes = {"corpus": self.corpus(paths), "augmentation": recipe.augmentation or SPEECH}
        return recipe.model_copy(update=changes)

    def read(self, recipe: Any) -> tuple[Splits, list[DataReport]]:
        """The splits of the corpus, and the data reports of user files."""
        splits, reports = recipe.corpus.recordings(recipe.source.sampling_rate)
        return dict(splits), reports

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn the vocabulary of the texts, or take that of a pretrained model."""
        if pretrained is not None:
            return pretrained.tokenizers
        assert isinstance(train, RecordingExamples)
        tokenizer = train_tokenizer(recipe.target.tokenizer, list(train.texts))
        return Tokenizers(tokenizer, tokenizer)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> RecordingDataset:
        """Log-mel features and token ids."""
        assert isinstance(examples, RecordingExamples)
        features = LogMel(recipe.source.sampling_rate, recipe.source.bands)
        return RecordingDataset(examples, features, tokenizers.target, recipe.augmentation, recipe.training.seed)

    def batches(self, recipe: Any, dataset: RecordingDataset, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of recordings of similar length, with augmentation; `batch_tokens` counts frames."""
        lengths = dataset.lengths
        buckets = BucketSampler(lengths, recipe.training.batch_tokens, recipe.training.seed)
        longest = int(padded_width(int(lengths[:, 1].max())))

        def batch_at(step: int) -> Batch:
            plan = buckets.batch_at(step - 1)
            batch = dataset.batch(plan.indices, plan.epoch)
            return pad_recordings(batch, plan.rows, plan.width, longest) if full else batch

        return batch_at

    def check_dataset(self, recipe: Any, dataset: RecordingDataset) -> None:
        """Refuse recordings with too few frames for their text, which CTC cannot learn."""
        short = dataset.too_short()
        if len(short) and recipe.target.kind.startswith("ctc"):
            examples = [dataset.examples[int(index)] for index in short[:NAMED]]
            named = "; ".join(f"{each.source} ({each.target[:40]!r})" for each in examples)
            raise UserError(
                f"{len(short)} recordings are too short for their text: CTC needs a vector of four frames for each "
                f"token, and one between two equal tokens. The first: {named}.",
                hint="Check these texts, leave out the recordings, or set target.kind=transducer.",
            )

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of recordings, their duration, and the size of the vocabulary."""
        train: Any = splits["train"]
        minutes = train.lengths.sum() / train.rate / 60
        sizes = f"{split_sizes(splits)} recordings; {minutes:,.1f} minutes for training"
        return f"{sizes}; vocabulary {len(tokenizers.target):,}"

    def batch_figure(self, batch: Batch, dataset: RecordingDataset) -> Callable[[Path], Any]:
        """A function that draws the spectrograms of the first step."""
        return batch_figure(batch, dataset.examples)

    def first_input(self, batch: Batch, tokenizers: Tokenizers) -> tuple[str, str]:
        """The number of frames and bands."""
        assert isinstance(batch.source, Sequences)
        return "sound", f"{int(batch.source.lengths[0])} frames of {batch.source.values.size(2)} bands"

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        named = [examples[index] for index in indices]
        return "recordings", "; ".join(f"{each.source} ({each.target[:40]!r})" for each in named)

    # --- the model ---

    def build(self, settings: ModelSettings, tokenizers: Tokenizers) -> nn.Module:
        """The model; its weights are initialized by the caller."""
        assert isinstance(settings, SpeechModelSettings)
        return build_speech_model(settings, len(tokenizers.target))

    def family(self, settings: ModelSettings) -> str:
        """The kind of the output, with or without attention."""
        kind = settings.target.kind
        attends = getattr(settings.decoder, "attention", "none") != "none"
        return {"text": "attention", "transducer": "transducer-attention" if attends else kind}.get(kind, kind)

    def check_ensemble(self, run: str) -> None:
        """Raise an error: different outputs are decoded differently, so there are no ensembles."""
        raise UserError("There are no ensembles of speech recognizers.", location=run, hint="Leave this run out.")

    def check_export(self, run: str) -> None:
        """Raise an error: the export formats do not contain the computation of the spectrogram."""
        hint = "Use `seq2see transcribe`, or `seq2see.load` in Python."
        raise UserError("Speech recognizers cannot be exported yet, not to ONNX either.", location=run, hint=hint)

    def objective(self, recipe: Any) -> Any:
        """The objective of the output."""
        if recipe.target.kind == "text":
            return recipe.objective
        objective = {each.objective.kind: each.objective for each in OUTPUTS.values()}[recipe.target.kind]
        if recipe.target.kind == "ctc-attention":
            return objective.model_copy(update={"label_smoothing": recipe.objective.label_smoothing})
        return objective

    @torch.inference_mode()
    def validate(
        self, module: nn.Module, valid: RecordingDataset, check: Callable[[], Any]
    ) -> tuple[float, dict[str, float]]:
        """The mean loss of a token, and the character error rate of the first recordings."""
        output, model, device = output_of(module), module, device_of(module)
        loss, count = 0.0, 0
        for group in batches_of(valid.lengths[:, 0].tolist()):
            check()
            batch = valid.batch(np.array(group)).to(device)
            loss += float(output.objective.loss(model.hidden(batch), model.head, batch.labels))  # type: ignore
            count += int(batch.label_mask.sum())
        shown = range(min(VALIDATED, len(valid)))
        outputs: dict[int, str] = {}
        for group in batches_of([len(valid.source(index)) for index in shown]):
            check()
            source = to_sequences([valid.source(index) for index in group]).to(device)
            found = output.transcribe(source, SpeechDecoding(ctc_weight=0))
            outputs |= {index: valid.tokenizer.decode(each[0].tokens) for index, each in zip(group, found, strict=True)}
        rates = score_recordings([outputs[index] for index in shown], valid.examples[: len(shown)])
        return loss / count, {"valid_character_error_rate": rates["character_error_rate"]["value"] / 100}

    # --- predictions and scores ---

    def open(self, stored: StoredModel, engine: Any) -> Transcriber:
        """The Python interface of the model; only the engine torch can decode it."""
        if not engine.streams:
            raise UserError("The engine ct2 cannot read sound.", hint="Leave out --engine.")
        return Transcriber(stored, engine, self)

    def inputs(self, examples: Any) -> list[Any]:
        """The samples of the recordings."""
        return [examples.samples[index] for index in range(len(examples))]

    def example_input(self, settings: ModelSettings) -> Any:
        """A second of a tone."""
        rate = settings.source.sampling_rate  # type: ignore[union-attr]
        return np.sin(np.arange(rate) * 2 * np.pi * EXAMPLE_HERTZ / rate).astype(np.float32) / 10

    def without_paths(self, examples: Any) -> Any:
        """The recordings, each named by its folder and its file."""
        return replace(examples, names=tuple(map(short_name, examples.names)))

    def sample_outputs(self, model: Transcriber, examples: Any, should_stop: Callable[[], bool]) -> list[str]:
        """Greedy transcripts."""
        return [each.text for each in model.predict(self.inputs(examples), num_beams=1, language_model="")]

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Error rates with intervals, the times of the letters, and spectrograms with letters."""
        evaluation = Evaluation()
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not len(examples):
                continue
            assert isinstance(examples, RecordingExamples)
            predictions = model.predict(self.inputs(examples), on_progress=partial(on_progress, name), **settings)
            outputs = [each.text for each in predictions]
            evaluation.scores[name] = score_recordings(outputs, examples, model)
            evaluation.tables[name] = score_table(examples, predictions)
            if name == "test":
                evaluation.figures["eval/recordings.png"] = transcript_figure(model, examples, outputs)
        return evaluation

    def tiles(self, scores: Tree) -> list[tuple[Words, str]]:
        """The error rates."""
        return speech_tiles(scores)

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, recordings with their letters, and the transcripts with the most errors."""
        return speech_sections(results)

    def score_lines(self, scores: Tree) -> Iterable[str | ReportTable]:
        """A row for each test split, and the times of the letters."""
        return score_lines(scores)

    def headline(self, scores: Tree) -> str:
        """The word error rate."""
        return headline(scores)

    def evaluated_row(self, number: int, cells: Sequence[str]) -> EvaluatedRow:
        """A row of the table; its quality is the negative error rate."""
        name, truth, output, errors, score = cells
        return EvaluatedRow(number, name, truth, output, -float(errors), float(score))


def pad_recordings(batch: Batch, rows: int, frames: int, tokens: int) -> Batch:
    """The batch padded to one shape for its bucket: `frames` of sound, `tokens` of text; new rows have no labels."""
    assert isinstance(batch.source, Sequences)
    assert batch.target is not None
    source, target, missing = batch.source, batch.target, rows - len(batch.indices)

    def padded(values: torch.Tensor, width: int, padding: int) -> torch.Tensor:
        larger = values.new_full((rows, width, *values.shape[2:]), padding)
        larger[: len(values), : values.size(1)] = values
        return larger

    inputs = padded(target.values, tokens, PAD)
    inputs[len(batch.indices) :, 0] = BOS
    one = torch.ones(missing, dtype=torch.long)
    return Batch(
        Sequences(padded(source.values, frames, 0), torch.cat([source.lengths, one])),
        Sequences(inputs, torch.cat([target.lengths, one])),
        padded(batch.labels, tokens, IGNORE_INDEX),
        torch.cat([batch.indices, torch.full_like(one, NO_EXAMPLE)]),
    )
