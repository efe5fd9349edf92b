# `make demo` and `make test` are all a newcomer needs: each makes .venv and installs what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: install demo test browser test-oldest lint format bench clean

install: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev,train,eval,baselines,bench,serve,mcp,langchain,llamaindex]"
	touch $@

# make demo DOCS=folder [ASK="a question"]: your documents instead of the samples. SERVE=0 ends without the web page.
demo: $(READY)
	$(BIN)/varsdoc demo $(if $(DOCS),--docs "$(DOCS)") $(if $(ASK),--ask "$(ASK)") $(if $(filter 0,$(SERVE)),--no-serve)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A process for each core; what measures seconds comes after, by itself.
test: lint browser
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -m "not alone"
	$(BIN)/pytest -m alone

# Chromium for the tests of the web page; does nothing where it is.
browser:
	sh scripts/install_chromium.sh

# The oldest transformers that pyproject.toml admits, in an environment of its own.
test-oldest:
	$(MAKE) VENV=.venv-oldest install
	.venv-oldest/bin/python -m pip install --quiet "transformers==5.17.*"
	.venv-oldest/bin/pytest tests/model

bench: $(READY)
	$(BIN)/python benchmarks/encode_cpu.py

clean:
	rm -rf .venv .venv-oldest build dist .pytest_cache .ruff_cache .mypy_cache
