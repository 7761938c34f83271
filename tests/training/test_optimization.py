import json
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.optimizers import decayed
from keras_bert.training.optimization import adamw, warmup_linear
from tests.models import randomize, tiny_config

HEADS = {
    "masked_language_model": {},
    "pretraining_model": {},
    "sequence_classifier": {"num_classes": 3},
    "sentence_embedder": {},
}


def model_for(head, **options):
    model = keras_bert.HEADS[head].build(keras_bert.build_encoder(tiny_config()), **options)
    randomize(model)
    return model


def test_warmup_linear():
    schedule = warmup_linear(0.5, 4, 10)
    rates = [float(schedule(step)) for step in range(12)]
    np.testing.assert_allclose(rates[:4], [0.125, 0.25, 0.375, 0.5])
    np.testing.assert_allclose(rates[4:], [0.5, 5 / 12, 1 / 3, 0.25, 1 / 6, 1 / 12, 0, 0], rtol=1e-6)
    assert float(warmup_linear(0.5, 0, 10)(0)) == 0.5
    with pytest.raises(ValueError, match=r"^`warmup_steps` must be .* and below `total_steps`, got 10 and 10\.$"):
        warmup_linear(0.5, 10, 10)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loaded", [False, True])
def test_decay_spares_biases_and_layer_norms(loaded, head, tmp_path):
    model = model_for(head, **HEADS[head])
    optimizer = adamw(0.1, weight_decay=0.25)
    if loaded:  # Keras's own exclusions would be lost here
        optimizer.build(model.trainable_weights)
        model.compile(optimizer, "mse")
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
        optimizer = model.optimizer
    before = {weight.path: weight.numpy() for weight in model.weights}
    optimizer.apply([keras.ops.zeros(weight.shape) for weight in model.trainable_weights], model.trainable_weights)
    matrices = {"kernel", "embeddings", "position_embeddings", "segment_embeddings"}
    for weight in model.trainable_weights:
        if weight.name in matrices:
            np.testing.assert_allclose(weight.numpy(), before[weight.path] * (1 - 0.1 * 0.25), rtol=1e-6)
        else:
            assert weight.name in ("bias", "gamma", "beta"), weight.path
            np.testing.assert_array_equal(weight.numpy(), before[weight.path])


def test_decay_spares_them_in_a_users_model_around_the_encoder():
    encoder = keras_bert.build_encoder(tiny_config())
    x = encoder(encoder.input)["sequence_output"]
    x = keras.layers.LayerNormalization(name="own_norm")(x)
    x = keras.layers.MultiHeadAttention(2, 3, name="own_attention")(x, x)  # its biases are matrices
    model = keras.Model(encoder.input, keras.layers.Dense(2, name="own_dense")(x))
    for weight in model.trainable_weights:
        assert decayed(weight) == (weight.name not in ("bias", "gamma", "beta")), weight.path


def test_gradients_are_clipped_to_a_global_norm_of_one():
    weights = [keras.Variable(np.zeros(shape, "float32"), name="kernel") for shape in ((3, 4), (5,))]
    optimizer = adamw(1.0, weight_decay=0.0)
    optimizer.build(weights)
    gradients = [np.full(weight.shape, 2.0, "float32") for weight in weights]
    optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], weights)
    moments = [v.numpy() for v in optimizer.variables if "momentum" in v.path]
    np.testing.assert_allclose(np.sqrt(sum((moment**2).sum() for moment in moments)), 0.1, rtol=1e-5)


def test_one_step_against_numpy():
    """AdamW by hand. Source: Loshchilov and Hutter 2019, with epsilon as in Kingma and Ba 2015, end of section 2."""
    start, gradient = np.array([[0.3, -0.2]], "float32"), np.array([[0.03, -0.04]], "float32")
    kernel = keras.Variable(start, name="kernel")
    optimizer = adamw(warmup_linear(0.02, 2, 6), weight_decay=0.01)
    optimizer.build([kernel])
    x, m, v = start.astype("float64"), 0.0, 0.0
    for step, rate in enumerate((0.01, 0.02, 0.02, 0.015), start=1):
        optimizer.apply([keras.ops.convert_to_tensor(gradient)], [kernel])
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient.astype("float64") ** 2
        x = x - rate * 0.01 * x
        x = x - rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m / (np.sqrt(v) + 1e-6)
    np.testing.assert_allclose(kernel.numpy(), x, atol=2e-6)


def test_a_keras_file_with_the_schedule_loads_anywhere(tmp_path):
    model = model_for("sequence_classifier", num_classes=2)
    model.compile(adamw(warmup_linear(0.5, 4, 10)), "mse")
    model.save(tmp_path / "model.keras")
    code = "import sys, json, keras, keras_bert; model = keras.models.load_model(sys.argv[1]); "
    code += "print(json.dumps(model.optimizer.get_config()['learning_rate']['config']))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.keras"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"peak": 0.5, "warmup_steps": 4, "total_steps": 10}
