"""Checkpoints of tf-models-official and a TF Hub SavedModel: genuine ones, and one sentence for faults."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.checkpoint import google
from tests.checkpoint.golden import expected, largest, outputs, unpack

TOLERANCE = 1e-5  # measured 2e-6
# folder -> head, what is left out
GENUINE = {
    "pretraining": (
        "pretraining_model",
        ["bert_encoder_v2/pooler_transform/bias", "bert_encoder_v2/pooler_transform/kernel"],
    ),
    "classifier": ("sequence_classifier", ["save_counter"]),
    "tokens": ("token_classifier", ["save_counter"]),
    "spans": ("span_extractor", ["save_counter"]),
    "hub": (None, ["do_lower_case"]),
}


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    return unpack("model_garden.zip", tmp_path_factory.mktemp("model_garden"))


@pytest.mark.parametrize("name", GENUINE)
def test_genuine_checkpoints(name, genuine):
    bundle = keras_bert.load(genuine / name)
    head, ignored = GENUINE[name]
    assert (bundle.head, bundle.report.ignored) == (head, ignored)
    # a head on every token has no pooler, which the file has
    unused = ["pooler.dense.bias", "pooler.dense.weight"] if name in ("tokens", "spans") else []
    assert (bundle.report.fresh, bundle.report.unused) == ([], unused)
    assert (bundle.config.num_attention_heads, bundle.config.hidden_act) == (3, "gelu_new")
    features, theirs = expected(genuine / name)
    ours = outputs(bundle, features)
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        real = features["padding_mask"][..., None] if array.ndim == 3 and key != "mlm_logits" else 1
        assert largest(ours[key] * real, array * real) <= TOLERANCE, key


def test_vocabulary_of_a_hub_model(genuine):
    tokenizer = keras_bert.load(genuine / "hub").tokenizer
    assert (tokenizer.vocab_size, tokenizer.lowercase) == (19, True)


def test_a_config_beside_the_checkpoint(genuine, tmp_path):
    folder = shutil.copytree(genuine / "classifier", tmp_path / "model")
    sizes = dataclasses.asdict(keras_bert.load(folder).config)
    values = {name: sizes[name] for name in google.FIELDS} | {"hidden_act": "gelu", "hidden_dropout_prob": 0.2}
    (folder / "bert_config.json").write_text(json.dumps(values))
    bundle = keras_bert.load(folder)
    assert (bundle.config.hidden_dropout_prob, bundle.config.hidden_act) == (0.2, "gelu_new")
    (folder / "bert_config.json").write_text(json.dumps({**values, "intermediate_size": 21}))
    with pytest.raises(ValueError, match="The shapes do not match: .*intermediate/kernel must be "):
        keras_bert.load(folder)


def test_optimizer_slots_are_no_weights(genuine, tmp_path):
    model = tf.Module()
    arrays = keras_bert.load(genuine / "hub").report.loaded
    assert not any("slot" in name for name in arrays)
    model.weight = tf.Variable(np.zeros((2, 3), "float32"), name="somebody/s")
    tf.train.Checkpoint(model=model).save(str(tmp_path / "model" / "ckpt"))
    with pytest.raises(ValueError) as error:
        keras_bert.load(tmp_path / "model")
    assert str(error.value).replace(str(tmp_path), "FOLDER") == (
        "FOLDER/model/ckpt-1 holds no BERT of Model Garden or TF Hub: encoder.layer.0.attention.self.query.weight is "
        "not among its 1 arrays."
    )


def test_missing_data(genuine, tmp_path):
    folder = shutil.copytree(genuine / "hub", tmp_path / "model")
    (folder / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(
        ValueError, match=r"variables lacks the data of the checkpoint variables: variables\.data-\*\.$"
    ):
        keras_bert.load(folder)
