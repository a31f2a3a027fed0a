"""The fastest twin: which one is taken where."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.decoding import graphs, native, quick
from seq2see.decoding.prepacked import PrepackedInt8
from seq2see.decoding.quick import quicken
from tiny_models import tiny
from toy_decoders import TableModel

NAME = "transformer, pre-norm"


def test_on_a_cpu_the_native_twin_is_taken_with_the_threads_asked_for(monkeypatch):
    asked, twin = [], TableModel()
    monkeypatch.setattr(native, "native_twin", lambda *arguments: asked.append(arguments) or twin)
    assert quicken(tiny(NAME), "bf16", threads=3) is twin
    assert quicken(tiny(NAME)) is twin
    assert asked == [(tiny(NAME), "bf16", 3), (tiny(NAME), "float32", torch.get_num_threads())]


def test_where_there_is_no_native_twin_the_packed_one_is_taken(monkeypatch):
    monkeypatch.setattr(native, "native_twin", lambda *arguments: None)
    assert isinstance(quicken(tiny(NAME), "int8").head, PrepackedInt8)


class Graphed(TableModel):
    """Stands for a graph of a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model


@pytest.fixture
def elsewhere(monkeypatch):
    """A model that is not on the CPU."""
    monkeypatch.setattr(graphs, "GraphedModel", Graphed)
    return copy.deepcopy(tiny(NAME)).to("meta")


def test_on_a_gpu_the_step_becomes_a_graph_of_the_precision_asked_for(elsewhere):
    assert quicken(elsewhere, "float32").model is elsewhere
    half = quicken(elsewhere, "bf16").model
    assert {weight.dtype for weight in half.parameters()} == {torch.bfloat16}
    assert {weight.dtype for weight in elsewhere.parameters()} == {torch.float32}
    assert {table.dtype for table in half.buffers()} == {torch.float32}  # waves of positions would go wrong in bf16


def test_on_a_gpu_with_triton_it_is_the_twin_for_few_rows_that_is_recorded(elsewhere, monkeypatch):
    asked, twin = [], TableModel()
    kernels = SimpleNamespace(few_rows_twin=lambda model: asked.append(model) or twin)
    monkeypatch.setitem(sys.modules, "seq2see.decoding.few_rows", kernels)
    monkeypatch.setattr(quick, "device_of", lambda model: torch.device("cuda"))
    monkeypatch.setattr(quick, "TRITON", True)
    assert quicken(elsewhere, "bf16").model is twin
    assert {weight.dtype for weight in asked[0].parameters()} == {torch.bfloat16}
    monkeypatch.setattr(quick, "TRITON", False)
    assert quicken(elsewhere, "float32").model is elsewhere


def test_int8_on_a_gpu_is_refused_with_a_remedy(elsewhere):
    with pytest.raises(UserError, match="precision=bf16"):
        quicken(elsewhere, "int8")


def test_every_precision_of_the_settings_has_its_packing():
    from seq2see.decoding.prepacked import PACKS
    from seq2see.decoding.settings import Decoding

    for precision in PACKS:
        assert Decoding(max_new_tokens=3, precision=precision).precision == precision
    with pytest.raises(ValueError, match="precision"):
        Decoding(max_new_tokens=3, precision="int4")
    assert quick.Precision.__args__ == tuple(PACKS)
