"""Shape annotations are checked in every test: jaxtyping with beartype, switched on only here."""

import os
from contextlib import nullcontext

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import jaxtyping

jaxtyping.install_import_hook(
    [
        "seq2see.core.batch",
        "seq2see.layers",
        "seq2see.models",
        "seq2see.decoding",
        "seq2see.acceleration.native",
        "seq2see.acceleration.packed_weights",
        "seq2see.acceleration.graphed_decoding",
        "seq2see.acceleration.small_batch",
        "seq2see.acceleration.inference",
        "seq2see.acceleration.fast_search",
        "seq2see.acceleration.fast_search",
        "seq2see.acceleration.fast_search",
    ],
    "beartype.beartype",
)

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # GPU kernels are interpreted in Python

hypothesis.settings.register_profile("quick", max_examples=20, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=200, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(autouse=True)
def fixed_seed():
    """Every test starts from the same torch seed and one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def skip_repeated_checks(request: pytest.FixtureRequest):
    """Shapes are checked where every recipe runs once, and not in repeated calls; see `speedups.py`."""
    from speedups import cached_pocket_corpus, without_shape_checks

    folder, file = request.path.parent.name, request.path.name
    repeated = folder in ("invariants", "stories", "browser") and file != "test_whole_runs.py"
    with (
        without_shape_checks() if repeated else nullcontext(),
        nullcontext() if file.startswith("test_pocket_") else cached_pocket_corpus(),
    ):
        yield


@pytest.fixture
def compilable():
    """Code without shape checks, which torch.compile cannot trace."""
    from speedups import without_shape_wrappers

    with without_shape_wrappers():
        yield


def pytest_configure(config: pytest.Config) -> None:
    """On a GPU, torch warns about speed and about its own code; only warnings of other code are errors there."""
    if torch.cuda.is_available():
        config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:torch")
        config.addinivalue_line("filterwarnings", "ignore::UserWarning:torch")
        config.addinivalue_line("filterwarnings", "ignore:TensorFloat32 tensor cores:UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip kernel tests where triton is not installed, and start the longest tests first.

    Each file is run by one process, so that fixtures are computed once; short files fill the gaps at the end.
    """
    from seq2see.acceleration.support import TRITON

    items.sort(key=lambda item: (item.get_closest_marker("first") is None, item.path.parent.name != "stories"))
    for item in items if not TRITON else []:
        if item.get_closest_marker("triton"):
            item.add_marker(pytest.mark.skip(reason="needs triton, which `make test-all` installs"))
