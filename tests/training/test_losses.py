import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.losses import masked_cross_entropy, pretraining_objectives

B, P, V = 5, 4, 11


def case(seed=0):
    """A model of one dense layer a task with weights of order 0.3, inputs, labels and weights with empty slots."""
    keras.utils.set_random_seed(seed)
    start = keras.initializers.RandomNormal(stddev=0.3)
    x, pooled = keras.Input((P, 3), name="x"), keras.Input((6,), name="pooled")
    outputs = {
        "mlm_logits": keras.layers.Dense(V, kernel_initializer=start, bias_initializer=start)(x),
        "nsp_logits": keras.layers.Dense(2, kernel_initializer=start, bias_initializer=start)(pooled),
    }
    rng = np.random.default_rng(seed)
    inputs = {"x": rng.normal(size=(B, P, 3)), "pooled": rng.normal(size=(B, 6))}
    inputs = {name: value.astype("float32") for name, value in inputs.items()}
    y = {"mlm_logits": rng.integers(0, V, (B, P)), "nsp_logits": rng.integers(0, 2, B)}
    weights = {
        "mlm_logits": (np.arange(P) < np.array([0, 1, 2, 3, 4])[:, None]).astype("float32"),
        "nsp_logits": np.ones(B, "float32"),
    }
    return keras.Model({"x": x, "pooled": pooled}, outputs), inputs, y, weights


def log_softmax(logits):
    shifted = np.asarray(logits, np.float64)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def expected(model, inputs, y, weights):
    """(mean loss, accuracy) for each output, by NumPy."""
    found = {}
    for name, logits in model.predict(inputs, verbose=0).items():
        losses = -np.take_along_axis(log_softmax(logits), y[name][..., None], axis=-1)[..., 0]
        right = logits.argmax(-1) == y[name]
        w = weights[name]
        found[name] = ((losses * w).sum() / w.sum(), (right * w).sum() / w.sum())
    return found


def gradients(model, inputs, y, weights):
    model.compile("sgd", **pretraining_objectives())
    with tf.GradientTape() as tape:
        loss = model.compute_loss(inputs, y, model(inputs), weights)
    return [loss, *tape.gradient(loss, model.trainable_variables)]


def test_loss_and_metrics_are_weighted_means_over_all_batches():  # P51
    model, inputs, y, weights = case()
    model.compile("sgd", **pretraining_objectives())
    logs = model.evaluate(inputs, y, sample_weight=weights, batch_size=2, verbose=0, return_dict=True)
    for name, (loss, accuracy) in expected(model, inputs, y, weights).items():
        assert logs[f"{name}_cross_entropy"] == pytest.approx(loss, rel=1e-6)
        assert logs[f"{name}_accuracy"] == pytest.approx(accuracy, rel=1e-6)
    whole = model.evaluate(inputs, y, sample_weight=weights, batch_size=B, verbose=0, return_dict=True)
    assert whole["loss"] == pytest.approx(
        sum(loss for loss, _ in expected(model, inputs, y, weights).values()), rel=1e-6
    )


def test_labels_at_unused_slots_have_no_effect():  # P51
    model, inputs, y, weights = case()
    other = dict(y, mlm_logits=np.where(weights["mlm_logits"] == 1, y["mlm_logits"], (y["mlm_logits"] + 5) % V))
    assert (other["mlm_logits"] != y["mlm_logits"]).sum() == 10
    for one, two in zip(gradients(model, inputs, y, weights), gradients(model, inputs, other, weights), strict=True):
        np.testing.assert_array_equal(one, two)
    logs = [model.evaluate(inputs, labels, sample_weight=weights, verbose=0, return_dict=True) for labels in (y, other)]
    assert logs[0] == logs[1]


def test_a_batch_without_a_chosen_token_has_loss_zero():
    loss = masked_cross_entropy()(np.zeros((2, 3), int), np.ones((2, 3, V), "float32"), np.zeros((2, 3), "float32"))
    assert float(loss) == 0
