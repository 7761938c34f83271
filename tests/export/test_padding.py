"""A text's vector is the same however far it is padded, in the model and in each format."""

import numpy as np
import pytest

from keras_bert.export import onnx, saved_model, tflite
from tests.models import tiny_bundle, tiny_features

FORMATS = {
    "saved_model": (saved_model, "serving_ids", "int32"),
    "tflite": (tflite, "serving_default", "int32"),
    "onnx": (onnx, "", "int64"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_vector_does_not_depend_on_padding(name, tmp_path):  # P50
    form, signature, dtype = FORMATS[name]
    bundle = tiny_bundle("sentence_embedder")
    options = {"inputs": "free_ids"} if name == "tflite" else {}
    (tmp_path / "1").mkdir()
    form.write(bundle, tmp_path / "1", **options)
    run = form.load(tmp_path / "1")
    alone = tiny_features(bundle.config, batch=1, length=6)
    expected = bundle.model.predict_on_batch(alone)
    for length in (6, 16, 40):
        padded = {key: np.pad(value, ((0, 0), (0, length - 6))) for key, value in alone.items()}
        beside = tiny_features(bundle.config, batch=3, length=length, seed=length)
        together = {key: np.concatenate([padded[key], value]) for key, value in beside.items()}
        for features in (padded, together):
            found = run(signature, {key: value.astype(dtype) for key, value in features.items()})
            np.testing.assert_allclose(found["embedding"][:1], expected, rtol=0, atol=1e-5)
            np.testing.assert_allclose(bundle.model.predict_on_batch(features)[:1], expected, rtol=0, atol=1e-5)
