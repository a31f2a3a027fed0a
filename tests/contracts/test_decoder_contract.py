"""Every decoder there is takes the decoder exam."""

import pytest
from decoder_exam import Candidate, DecoderExam

from toy_decoders import VOCAB, HistoryModel, TableModel, some_source

ALL_DECODERS = [
    Candidate("table", TableModel, VOCAB),
    Candidate("history", HistoryModel, VOCAB, lambda: some_source(3, seed=2)),
    Candidate("history without source", HistoryModel, VOCAB),
]


@pytest.mark.parametrize("candidate", ALL_DECODERS, ids=str)
class TestDecoderContract(DecoderExam):
    """The exam, for all of them."""
