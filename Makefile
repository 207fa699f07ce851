# Two commands set everything up: `make demo` and `make test`. Both make .venv themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: help demo test test-pages test-slow test-peers test-gpu check docs dist bench clean python-is-there
PAGES := tests/docs tests/examples  # every code block, example and link, and the built site
.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.native  ## train five small networks in about two minutes; writes demo/report.html
	$(BIN)/binaryrelax demo

test: $(VENV)/.native check  ## linters, types and the fast tests, about five minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests lab/tests native/tests \
	  $(addprefix --ignore=,$(PAGES))

test-pages: $(VENV)/.native docs  ## run the code of all pages and the examples, and look at the built site
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PAGES)

test-slow: $(VENV)/.native  ## the long tests, under forty minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow tests lab/tests native/tests

test-peers: $(VENV)/.native $(VENV)/.peers  ## with Hugging Face's transformers and Lightning; installs them
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m peers tests/peers lab/tests $(PAGES)

test-gpu: $(VENV)/.installed  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu tests/gpu lab/tests/gpu

check: $(VENV)/.installed  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## build the site into build/site; it needs no network to read
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean  # never --quiet: it hides what --strict counts
	$(BIN)/python tools/check_site.py build/site
	@echo "open build/site/index.html"

dist: $(VENV)/.dist  ## build sdists and wheels of the three distributions into dist/, and check them
	rm -rf dist
	for part in . lab native; do \
	  PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist $$part || exit 1; \
	done
	$(BIN)/twine check --strict dist/*

bench: $(VENV)/.installed  ## for maintainers: renews benchmarks/results/projection.json; installs torchao
	$(BIN)/pip install --quiet --no-deps torchao==0.18.0
	$(BIN)/binaryrelax bench projection --out benchmarks/results/projection.json

clean:  ## remove .venv and what the tools left behind
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info lab/*.egg-info lab/build

$(VENV)/.installed: pyproject.toml lab/pyproject.toml constraints.txt | python-is-there
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cli,dev]' -e ./lab
	touch $@

$(VENV)/.peers: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps torchao==0.18.0  # for PARQ
	touch $@

$(VENV)/.docs: pyproject.toml lab/pyproject.toml constraints.txt | python-is-there
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cli,docs]' -e ./lab
	touch $@

$(VENV)/.dist: constraints.txt | python-is-there
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt build twine
	touch $@

# The C++ kernels are an extra: without a compiler, or if it fails, everything else still works.
$(VENV)/.native: $(VENV)/.installed $(wildcard native/src/* native/CMakeLists.txt native/pyproject.toml)
	@if ! command -v $${CXX:-c++} >/dev/null; then \
	  echo "no C++ compiler found: packed networks will run without the fast CPU kernels"; \
	elif ! PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	  $(BIN)/pip install --quiet --disable-pip-version-check ./native; then \
	  echo "binaryrelax-native could not be built: packed networks will run without the fast CPU kernels"; \
	fi
	touch $@

python-is-there:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "binaryrelax needs Python 3.11 or newer with the venv module; '$(PYTHON)' is not. Install it, or say which: make PYTHON=python3.12 ..." >&2; exit 1; }
