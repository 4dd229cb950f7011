# Two commands do everything from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint docs clean

demo: .venv/.installed
	$(BIN)/statsnet synthesize --mix recsys/dlrm:0.5,cv/resnet50:0.5 -o build/demo
	$(BIN)/statsnet run build/demo

test: .venv/.installed
	$(BIN)/python -m pytest -n 2

lint: .venv/.installed
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/.installed-docs
	$(BIN)/mkdocs build --strict

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv/.installed-docs: .venv/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
