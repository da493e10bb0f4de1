# Everything runs inside .venv, which holds exactly what requirements.lock names: hashes are checked, nothing is resolved.
# Needs python3 (3.11 or newer) and make; uv is used when it is there, because it is faster. Another interpreter:
#   PYTHON=python3.12 make test
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.filled

.DEFAULT_GOAL := help
.PHONY: help train test lint format bench prove docs lock clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

train: $(STAMP) ## train a remembering agent on a small Ballet, while you watch
	$(BIN)/hcam train

test: lint ## lint, then run the tests on two cores
	$(BIN)/pytest -n 2

lint: $(STAMP) ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## repair style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure speed and memory use on this machine
	$(BIN)/hcam bench env
	$(BIN)/hcam bench train
	$(BIN)/hcam bench memory

prove: $(STAMP) ## run the long proofs (tests marked slow), one after another
	$(BIN)/pytest -m slow -v --durations=0

# The variable silences an announcement by Material for MkDocs, about releases after the locked one.
docs: $(STAMP) ## build the documentation site: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: ## resolve requirements.lock anew from pyproject.toml (LOCK_FLAGS=--upgrade takes newer releases)
	@uv --version >/dev/null 2>&1 || { echo "make lock needs uv: install it with 'python3 -m pip install uv'." >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-annotate --no-strip-extras \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_FLAGS) \
	  pyproject.toml --output-file requirements.lock

clean: ## remove .venv, caches and build leftovers; runs/ stays
	rm -rf .venv build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The interpreter is asked for its own path, so that uv takes this Python and does not look for one of its own choice.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$($(PYTHON) -c 'import platform; print(platform.python_version())' 2>/dev/null || echo missing); \
	  echo "hcam needs Python 3.11 or newer, but $(PYTHON) is $$found: name another, as in PYTHON=python3.12 make test." >&2; \
	  exit 1; }
	@rm -rf .venv
	@if uv --version >/dev/null 2>&1; then \
	  uv venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv; \
	else \
	  $(PYTHON) -m venv .venv; \
	fi

# --no-build-isolation: setuptools comes from the lock, so building the editable install downloads nothing unhashed.
# ensurepip: an environment that uv made has no pip.
$(STAMP): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Filling .venv from requirements.lock ..."
	@if uv --version >/dev/null 2>&1; then \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
	  { $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; } && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@touch $@
