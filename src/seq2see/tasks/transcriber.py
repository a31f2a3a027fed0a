"""The Python interface of a speech recognizer: `model("recording.wav").text`, with the time of each letter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.data.log_mel import FRAMES_PER_VECTOR, LogMel, vectors_of
from seq2see.data.readers.sound_files import DecodedSound, decode_sound
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.decoding.ctc import TimedToken
from seq2see.decoding.ensemble import OtherVocabulary
from seq2see.decoding.speech_settings import SpeechDecoding
from seq2see.layers.ctc import frames_needed
from seq2see.models.sound_settings import Sound
from seq2see.tasks.model import Model, NamedBatch, Output, Prediction, ScoredText, TextAttention, trace_batch
from seq2see.tasks.model_folder import StoredModel
from seq2see.tasks.speech_outputs import SpeechOutput, Transcript, output_of
from seq2see.tasks.task import error_context

BATCH_FRAMES = 16_000
"""Frames of a batch, padding included; a result does not depend on the other recordings of its batch."""
LONG_SECONDS = 60
"""From this length on, a prediction comes with a warning."""


@dataclass(frozen=True)
class Letter:
    """A token of a transcript with its time in seconds, and its probability."""

    text: str
    start: float
    end: float
    probability: float


@dataclass(frozen=True)
class Transcription(Prediction):
    """The prediction for one recording; `letters` are those of the best output, empty if the output has no times."""

    letters: tuple[Letter, ...] = ()


@dataclass(frozen=True)
class EncodedSound:
    """A recording as features."""

    name: str
    samples: NDArray[np.float32]
    features: torch.Tensor  # [frame, band]
    warnings: tuple[str, ...] = field(default=())


class Transcriber(Model):
    """A trained speech recognizer. Recordings are file names, decoded files, or samples at the rate of the model."""

    def __init__(self, stored: StoredModel, engine: Any, task: Any):
        super().__init__(stored, engine, task)
        sound: Any = stored.config.model.source
        assert isinstance(sound, Sound)
        self.rate = sound.sampling_rate
        self.log_mel = LogMel(sound.sampling_rate, sound.bands)

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Transcripts of many recordings, in their order; settings are those of decoding, say num_beams=5."""
        if prefix:
            raise UserError("A transcript has no prefix.", hint="Leave out --prefix.")
        decoding: SpeechDecoding = self.config.decoding.with_(**settings)
        output = self.output(decoding)
        inputs = []
        for index, text in enumerate(texts):
            with error_context(indices, index):
                inputs.append(self.encode_sound(text))
        found: dict[int, list[Transcript]] = {}
        for group in batches_of([len(each.features) for each in inputs]):
            source = to_sequences([inputs[index].features for index in group]).to(self.device)
            found |= zip(group, output.transcribe(source, decoding, seed), strict=True)
            on_progress(len(group))
        return [self._transcription(each, found[index]) for index, each in enumerate(inputs)]

    def output(self, decoding: SpeechDecoding | None = None) -> SpeechOutput:
        """The output of this model, with the language model of these settings."""
        if decoding is None or not decoding.language_model:
            return output_of(self.module)
        other = self.engine.load(decoding.language_model)  # type: ignore[attr-defined]
        if other.has_source or not other.task.generates:
            raise UserError("This is no language model.", location=decoding.language_model, hint="Name a run of write.")
        return output_of(self.module, OtherVocabulary(other.module, other.tokenizers.target, self.tokenizers.target))

    def encode_sound(self, sound: Any) -> EncodedSound:
        """The features of a recording: a file name, a decoded file, or samples."""
        name, warnings = "", tuple[str, ...]()
        if isinstance(sound, str | Path):
            name, sound = str(sound), decode_sound(sound, self.rate)
        if isinstance(sound, DecodedSound):
            samples, warnings = sound.samples, sound.messages
        else:
            samples = np.asarray(sound, np.float32)
            if samples.ndim != 1:
                raise UserError(f"These samples have the shape {samples.shape}.", hint="Give one channel.")
        features = self.log_mel.features(samples)
        seconds = len(samples) / self.rate
        if seconds > LONG_SECONDS:
            warnings += (f"the recording has {seconds:.0f} s, much more than training recordings: cut it at pauses",)
        return EncodedSound(name, samples, features, warnings)

    def _transcription(self, inputs: EncodedSound, transcripts: list[Transcript]) -> Transcription:
        outputs, best = tuple(map(self._output, transcripts)), transcripts[0]
        return Transcription(
            inputs.name,
            outputs,
            False,
            lambda _, text: self._sound_attention(inputs, text),
            warnings=inputs.warnings,
            letters=self.letters(best.times, len(inputs.features)),
        )

    def _output(self, each: Transcript) -> Output:
        tokenizer = self.tokenizers.target
        names = tokenizer.tokens([*each.tokens, *[EOS] * (len(each.probabilities) - len(each.tokens))])
        pairs = zip(names, np.exp(each.probabilities).tolist(), strict=True)
        tokens = tuple(ScoredText(name, probability) for name, probability in pairs)
        text = tokenizer.decode(each.tokens)
        return Output(text, each.score, each.log_probability, each.finished, len(each.tokens), tokens)

    def letters(self, times: Sequence[TimedToken], frames: int) -> tuple[Letter, ...]:
        """Tokens with their times in seconds, in a recording with this number of frames."""
        names = self.tokenizers.target.tokens([each.token for each in times])
        seconds = [self.seconds(each, frames) for each in times]
        probabilities = [float(np.exp(each.log_probability)) for each in times]
        return tuple(Letter(*row[:1], *row[1], row[2]) for row in zip(names, seconds, probabilities, strict=True))

    def seconds(self, token: TimedToken, frames: int) -> tuple[float, float]:
        """Start and end of a token in seconds, within the frames.

        Each vector covers the time half a step before and after its middle.
        """
        half = FRAMES_PER_VECTOR // 2 * self.log_mel.hop_seconds
        first, last = (self.log_mel.frame_time(FRAMES_PER_VECTOR * index) for index in (token.start, token.end - 1))
        end = self.log_mel.frame_time(frames - 1) + self.log_mel.window_seconds / 2
        return max(0.0, first - half), min(last + half, end)

    def timed_tokens(self, samples: NDArray[np.float32]) -> list[tuple[int, float, float]]:
        """The tokens of the best output for samples, each with start and end in seconds."""
        features = self.encode_sound(samples).features
        greedy = {"num_beams": 1, "num_return_sequences": 1, "do_sample": False}
        settings = self.config.decoding.with_(**greedy, language_model="")
        ((best,),) = self.output().transcribe(to_sequences([features]).to(self.device), settings)
        return [(each.token, *self.seconds(each, len(features))) for each in best.times]

    def align(self, sound: Any, text: str) -> tuple[Letter, ...]:
        """Forced alignment: the times of the letters of a text in a recording; empty if the output has no times."""
        inputs = self.encode_sound(sound)
        source = to_sequences([inputs.features]).to(self.device)
        times = self.output().align(source, self.tokenizers.target.encode(text))
        return self.letters(times, len(inputs.features))

    def frame_scores(self, sound: Any) -> NDArray[np.float32] | None:
        """(vector, token): the log-probabilities of CTC for a recording, with <pad> as the blank; None without CTC."""
        return self.output().frame_scores(to_sequences([self.encode_sound(sound).features]).to(self.device))

    @torch.inference_mode()
    def score(self, source: Any, target: str) -> float:
        """The log-probability of a given transcript; minus infinity if CTC needs more vectors for it."""
        inputs, objective = self.encode_sound(source), self.output().objective
        needed = frames_needed(self.tokenizers.target.encode(target))
        if objective.kind.startswith("ctc") and needed > vectors_of(len(inputs.features)):
            return -np.inf  # in training, the loss of such a text is 0
        batch = self._sound_batch(inputs, target)
        loss = objective.loss(self.module.hidden(batch), self.module.head, batch.labels)  # type: ignore
        return -float(loss)

    def stream(self, text: Any, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The transcript, as a single chunk."""
        yield self.predict([text], seed=seed, **settings)[0].text

    def warnings(self, text: Any) -> tuple[str, ...]:
        """Warnings about a recording."""
        return self.encode_sound(text).warnings

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A recording and a text (default: the model's own) as a batch of one, with teacher forcing."""
        inputs = self.encode_sound(source)
        return self._named_batch(inputs, self.predict([inputs.samples])[0].text if target is None else target)

    def _named_batch(self, inputs: EncodedSound, target: str) -> NamedBatch:
        batch, tokenizer = self._sound_batch(inputs, target), self.tokenizers.target
        count = vectors_of(len(inputs.features))
        times = [f"{self.log_mel.frame_time(FRAMES_PER_VECTOR * index):.2f} s" for index in range(count)]
        assert batch.target is not None
        ids = {"target": (tokenizer, batch.target.values[0].tolist()), "labels": (tokenizer, batch.labels[0].tolist())}
        named = NamedBatch.of(batch, ids if self.config.model.decoder is not None else {})
        special = {"source": [False] * count, **named.special}
        return NamedBatch(batch, {"source": times, **named.tokens}, special)

    def _sound_batch(self, inputs: EncodedSound, target: str) -> Batch:
        ids = [*self.tokenizers.target.encode(target), EOS]
        return Batch(
            source=to_sequences([inputs.features]),
            target=Sequences.of([[BOS, *ids[:-1]]]),
            labels=torch.tensor([ids]),
            indices=torch.zeros(1, dtype=torch.long),
        ).to(self.device)

    def named_attention(self, source: Any, target: str) -> TextAttention:
        """The attention weights for a recording and a text."""
        return self._sound_attention(self.encode_sound(source), target)

    def _sound_attention(self, inputs: EncodedSound, target: str) -> TextAttention:
        return TextAttention.of(trace_batch(self, self._named_batch(inputs, target)))


def batches_of(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The indices of recordings of similar length, batch by batch, the short ones first."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if group and (len(group) + 1) * lengths[index] > BATCH_FRAMES:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def to_sequences(features: Sequence[torch.Tensor]) -> Sequences:
    """Features of several recordings as padded rows."""
    lengths = torch.tensor([len(each) for each in features])
    return Sequences(torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True), lengths)
