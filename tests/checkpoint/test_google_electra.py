"""Google's ELECTRA: the discriminator of a TF1 checkpoint, with a config and without one."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert
from keras_bert.checkpoint import sources, tensorflow_files
from tests.checkpoint.golden import largest, outputs
from tests.models import VOCAB, randomize, tiny_config, tiny_features

SIZES = {"hidden_size": 128, "num_attention_heads": 2, "embedding_size": 10, "max_position_embeddings": 17}
# what Google's code calls the parts that transformers calls otherwise; google-research/electra, model/modeling.py and
# pretrain/pretrain_helpers.py
NAMES = (
    (r"^electra\.", "electra/"),
    (r"^discriminator_predictions\.dense_prediction\.", "discriminator_predictions.dense_1."),
    (r"layer\.(\d+)\.", r"layer_\1/"),
    (r"LayerNorm\.weight$", "LayerNorm/gamma"),
    (r"LayerNorm\.bias$", "LayerNorm/beta"),
    (r"_embeddings\.weight$", "_embeddings"),
    (r"\.weight$", "/kernel"),
    (r"\.", "/"),
)


@pytest.fixture
def electra():
    config = tiny_config(model_type="electra", pooler=False, classifier_act="gelu", **SIZES)
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "replaced_token_detector")
    randomize(bundle.model)
    return bundle


@pytest.fixture
def folder(electra, tmp_path):
    """The checkpoint as Google's code writes it, with a generator, slots and a step."""
    keras_bert.save(electra, tmp_path / "huggingface")
    arrays = {}
    for name, array in load_file(tmp_path / "huggingface" / "model.safetensors").items():
        for pattern, theirs in NAMES:
            name = re.sub(pattern, theirs, name)
        arrays[name] = np.ascontiguousarray(array.T) if name.endswith("/kernel") else array
    assert "electra/embeddings_project/kernel" in arrays
    assert "electra/encoder/layer_1/attention/self/value/bias" in arrays
    slots = {f"{name}/adam_{part}": 0 * array for name, array in arrays.items() for part in "mv"}
    generator = {
        "generator/encoder/layer_0/attention/self/query/kernel": np.ones((32, 32), "float32"),
        "generator_predictions/dense/kernel": np.ones((32, 10), "float32"),
        "generator_predictions/output_bias": np.ones(len(VOCAB), "float32"),
    }
    path = tmp_path / "electra_tiny"
    path.mkdir()
    tensorflow_files.write(path / "model", arrays | slots | generator | {"global_step": np.int64(7)})
    (path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    return path


def test_sizes_from_the_weights(electra, folder):
    bundle = keras_bert.load(folder)
    assert sources.kind_of(folder) == "google_electra"
    assert bundle.head == "replaced_token_detector"
    assert bundle.config.hidden_act == "gelu"  # exact in this code of Google's, unlike in BERT's
    assert (bundle.config, bundle.tokenizer.vocab) == (electra.config, electra.tokenizer.vocab)
    assert bundle.report.fresh == bundle.report.unused == []
    assert bundle.report.ignored == ["global_step", "86 optimizer slots", "the generator, 3 weights"]
    features = tiny_features(electra.config)
    assert largest(outputs(bundle, features)["logits"], outputs(electra, features)["logits"]) == 0
    for ours, theirs in zip(bundle.model.weights, electra.model.weights, strict=True):
        assert np.array_equal(ours.value, theirs.value), ours.path


def test_sizes_from_the_config_of_the_discriminator(folder):
    values = {**SIZES, "vocab_size": len(VOCAB), "num_hidden_layers": 2, "intermediate_size": 20, "hidden_act": "gelu"}
    values["num_attention_heads"] = 4
    (folder / "tiny_discriminator_config.json").write_text(json.dumps(values))
    (folder / "tiny_generator_config.json").write_text(json.dumps({**values, "hidden_size": 32}))
    assert keras_bert.load(folder, new_head="sequence_regressor").config.num_attention_heads == 4


def test_heads_that_cannot_be_told(folder):
    arrays = {name: np.zeros(shape, "float32") for name, shape in _shapes(hidden=12).items()}
    tensorflow_files.write(folder / "model", arrays)
    with pytest.raises(ValueError, match="has a hidden size of 12, no multiple of 64, so the number of"):
        keras_bert.load(folder)


def test_no_embeddings(folder):
    shapes = _shapes(hidden=64)
    del shapes["electra/embeddings/word_embeddings"]
    tensorflow_files.write(folder / "model", {name: np.zeros(shape, "float32") for name, shape in shapes.items()})
    with pytest.raises(ValueError, match="must hold electra/embeddings/word_embeddings, from which a size is read"):
        keras_bert.load(folder)


def _shapes(hidden):
    return {
        "electra/embeddings/word_embeddings": (len(VOCAB), hidden),
        "electra/embeddings/position_embeddings": (17, hidden),
        "electra/embeddings/token_type_embeddings": (2, hidden),
        "electra/encoder/layer_0/attention/self/query/kernel": (hidden, hidden),
        "electra/encoder/layer_0/intermediate/dense/kernel": (hidden, 20),
    }
