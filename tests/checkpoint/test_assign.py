"""Weights come into being with what was read: nothing is drawn before, and a failure leaves Keras as it was."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint.assign import weights_from
from tests.models import tiny_bundle, tiny_config, tiny_features


@pytest.fixture
def drawn(monkeypatch):
    """Shapes that an initializer drew."""
    shapes, draw = [], keras.initializers.TruncatedNormal.__call__

    def counted(self, shape, dtype=None):
        shapes.append(tuple(shape))
        return draw(self, shape, dtype)

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", counted)
    return shapes


def test_loading_draws_nothing(drawn, tmp_path):
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    drawn.clear()
    keras_bert.load(tmp_path / "model")
    assert drawn == []
    keras_bert.load(tmp_path / "model", new_head="sequence_classifier", labels=["a", "b"])
    assert drawn == [(12, 2)]


def test_a_failure_draws_nothing(drawn, tmp_path):
    keras_bert.save(tiny_bundle(None), tmp_path / "model")
    drawn.clear()
    with pytest.raises(ValueError, match="without an array are"):
        keras_bert.load(tmp_path / "model", head="masked_language_model")
    assert drawn == []


def test_a_reader_that_fails_is_heard_and_keras_goes_on():
    config = tiny_config()

    def fail():
        raise ValueError("The file ended.")

    def build(reader):
        with weights_from() as start:
            model = keras_bert.build_encoder(config)
            start(model, {"layer_0/attention/query/kernel": ((12, 12), reader)})
        return model

    with pytest.raises(ValueError, match="The file ended."):
        build(fail)
    model = build(lambda: np.full((12, 12), 2.0, "float16").T)
    weights = {weight.path: np.asarray(weight.value) for weight in model.weights}
    assert (weights["layer_0/attention/query/kernel"] == 2).all()
    assert weights["layer_0/attention/query/kernel"].dtype == "float32"
    assert 0 < np.abs(weights["layer_0/attention/key/kernel"]).max() < 0.05
    assert np.isfinite(model(tiny_features(config))["pooled_output"]).all()
    match = r"layer_0/attention/query/kernel must be \(12, 12\), got \(12, 13\)"
    with pytest.raises(ValueError, match=match), weights_from() as start:
        start(keras_bert.build_encoder(config), {"layer_0/attention/query/kernel": ((12, 13), fail)})


def test_loading_into_other_dtypes(tmp_path):
    bundle = tiny_bundle(None)
    keras_bert.save(bundle, tmp_path / "model")
    before = keras.config.dtype_policy()
    try:
        for policy in ("mixed_bfloat16", "bfloat16"):
            keras.config.set_dtype_policy(policy)
            model = keras_bert.load(tmp_path / "model").model
            assert {weight.dtype for weight in model.weights} <= {"float32", "bfloat16"}
            assert np.isfinite(np.asarray(model(tiny_features(bundle.config))["pooled_output"], "float32")).all()
    finally:
        keras.config.set_dtype_policy(before)


def test_a_loaded_model_trains_and_is_cloned(tmp_path):
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    model = keras_bert.load(tmp_path / "model").model
    features = tiny_features(tiny_config())
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    assert np.array_equal(copy(features), model(features))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = model.get_weights()
    model.fit(features, np.array([0, 1, 2]), verbose=0)
    after = {weight.path: np.asarray(weight.value) for weight in model.weights}
    changed = [np.abs(old - new).max() > 0 for old, new in zip(before, after.values(), strict=True)]
    assert all(c for c, path in zip(changed, after, strict=True) if path.endswith(("kernel", "gamma", "embeddings")))
