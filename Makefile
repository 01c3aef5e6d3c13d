# Everything is made from the project's files with pip alone. TORCH is the CPU-capable build that
# the tests use; on a GPU machine choose another one: make setup TORCH=torch==2.14.1
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow ray gpu lint format types check bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make the virtual environment with everything the tests need

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade "pip>=25.1"
	$(BIN)/pip install -q "$(TORCH)"
	$(BIN)/pip install -q -e . --group dev
	touch $(READY)

demo: $(READY) ## speak configs/demo.csv with the embedded voice into demo-output/
	$(BIN)/batchtts generate configs/demo.csv --config configs/demo.yaml --output demo-output

test: $(READY) ## run the tests
	$(BIN)/python -m pytest -m "not gpu and not slow and not ray"

slow: $(READY) ## run the long tests: chaos, growth
	$(BIN)/python -m pytest -m slow

ray: $(READY) ## run the test that starts a Ray cluster, where ray is installed
	$(BIN)/python -m pytest -m ray

gpu: $(READY) ## run the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

lint: $(READY) ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## mend style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## check the types
	$(BIN)/mypy

check: lint types test ## all that CI runs

bench: $(READY) ## measure against the reference packages, as ratios
	$(BIN)/python -m tests.bench

clean: ## remove what make made
	rm -rf $(VENV) demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
