# Two commands do everything on a fresh machine: `make audit` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: audit test lint types unit bench clean

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $(READY)

audit: $(READY)
	$(BIN)/veridp exact --all --report report/exact.md

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest -n 2

bench: $(READY)
	$(BIN)/python benchmarks/sampling.py

clean:
	rm -rf .venv build dist report
