# Two commands do everything from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
DEMO_MIX ?= recsys/dlrm:0.5,cv/resnet50:0.5
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo test lint docs clean
.NOTPARALLEL:       # all targets install into the same .venv

# Where this is set, each process would compile the libraries again: the demo's are not compiled when installed.
unexport PYTHONDONTWRITEBYTECODE

demo: .venv/.installed-demo
	$(BIN)/statsnet synthesize --mix $(DEMO_MIX) -o build/demo
	$(BIN)/statsnet run build/demo

# What a file's tests share is made once: all of them run in one of the two processes.
test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: .venv/.installed
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/.installed-docs
	$(BIN)/mkdocs build --strict

$(BIN)/pip:
	$(PYTHON) -m venv .venv

# Compiling every file of the libraries takes longer than installing them, and the demo imports few of them.
.venv/.installed-demo: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) --no-compile --editable '.[demo]'
	touch $@

.venv/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) --upgrade --editable '.[dev]'
	touch .venv/.installed-demo $@

.venv/.installed-docs: .venv/.installed
	$(INSTALL) --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
