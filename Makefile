# One command each; every target makes .venv and installs into it first.
PYTHON ?= python3
VENV ?= .venv
# The tested release. Set TORCH to another requirement to train on other hardware: make quickstart TORCH='torch>=2.13'
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2 --dist loadgroup

.PHONY: quickstart test test-unit test-slow lint format clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[dev,gguf]'
	touch $@

quickstart: $(VENV)/.installed
	$(BIN)/trl-grpo-ext run recipes/quickstart/pipeline.yaml

test: lint
	$(PYTEST) -m 'not slow'

test-unit: $(VENV)/.installed
	$(PYTEST) -m 'not (tiny or distributed or sandbox or browser or slow)'

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info
