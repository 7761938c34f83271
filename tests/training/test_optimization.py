import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert import lora
from keras_bert.optimizers import SHAPES, BertAdamW, Lamb, Warmup, decayed
from keras_bert.training.optimization import adamw, decay_table, lamb, warmup_linear
from tests.models import randomize, tiny_bundle, tiny_config

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


def test_shapes_after_the_warmup():
    expected = {
        "linear": [0.5, 1, 1, 0.75, 0.5, 0.25, 0, 0],
        "cosine": [0.5, 1, 1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2, 0, 0],
        "inverse_square_root": [0.5, 1, (2 / 3) ** 0.5, 0.5**0.5, (2 / 5) ** 0.5, (1 / 3) ** 0.5, (2 / 7) ** 0.5, 0.5],
        "stable_decay": [0.5, 1, 1, 1, 1, 0.5, 0, 0],
    }
    assert expected.keys() == SHAPES.keys()
    for shape, rates in expected.items():
        schedule = Warmup(3.0, 2, 6, shape, decay_steps=2 if shape == "stable_decay" else 0)
        np.testing.assert_allclose([float(schedule(i)) / 3.0 for i in range(8)], rates, atol=1e-6, err_msg=shape)
    tenth = Warmup(1.0, 2, 40, "stable_decay")
    np.testing.assert_allclose([float(tenth(i)) for i in (35, 36, 37, 39, 40)], [1, 1, 0.75, 0.25, 0], atol=1e-6)
    with pytest.raises(ValueError, match=r"^`shape` must be one of linear, cosine, .*, got 'square'\.$"):
        Warmup(1.0, 2, 6, "square")
    with pytest.raises(ValueError, match=r"^`decay_steps` must be at least 0 and at most .*, got 5\.$"):
        Warmup(1.0, 2, 6, "stable_decay", 5)


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


def nested_model():
    """A model in a model, with layers of Keras's own round it."""
    inner = model_for("sequence_classifier", num_classes=3)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in inner.input}
    x = keras.layers.LayerNormalization(name="own_norm")(inner(inputs))
    return keras.Model(inputs, keras.layers.Dense(2, name="own_dense")(x))


def adapted_model():
    return lora.add_lora(tiny_bundle("sequence_classifier"), targets=("query", "output")).model


@pytest.mark.parametrize(("make", "count"), [(nested_model, 45), (adapted_model, 12)])
def test_p45_decay_without_gradients(make, count):
    model = randomize(make())
    before = {weight.path: weight.numpy() for weight in model.weights}
    optimizer = adamw(0.5, weight_decay=0.1)
    optimizer.apply([keras.ops.zeros(weight.shape) for weight in model.trainable_weights], model.trainable_weights)
    learning = {weight.path for weight in model.trainable_weights}
    assert len(learning) == count
    for weight in model.weights:
        if weight.path in learning and weight.name not in ("bias", "gamma", "beta"):
            np.testing.assert_allclose(weight.numpy(), before[weight.path] * (1 - 0.5 * 0.1), rtol=1e-6)
        else:
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


def follow(optimizer, gradients, start):
    """Applies one list of arrays after another to weights called by their names, and gives the weights."""
    weights = [keras.Variable(value, name=name) for name, value in start.items()]
    optimizer.build(weights)
    for step in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(step[name], "float32") for name in start], weights)
    return {name: weight.numpy() for name, weight in zip(start, weights, strict=True)}


def weights_and_gradients(steps=6):
    rng = np.random.default_rng(4)
    shapes = {"kernel": (7, 5), "bias": (5,), "gamma": (3,), "embeddings": (4, 2), "zeros": (2, 3)}
    start = {name: rng.normal(0, 0.3, shape).astype("float32") for name, shape in shapes.items()}
    start["zeros"] *= 0
    sizes = (0.02, 3.0, 0.5, 1e-4, 0.0, 0.1)[:steps]  # the second and third are clipped
    gradients = [{name: size * rng.normal(0, 1, shape) for name, shape in shapes.items()} for size in sizes]
    return start, gradients


def clipped(gradients):
    norm = np.sqrt(sum((value**2).sum() for value in gradients.values()))
    return {name: value / max(1.0, norm) for name, value in gradients.items()}


@pytest.mark.parametrize("bias_correction", [True, False])
def test_adamw_against_numpy(bias_correction):
    """Source: Loshchilov and Hutter 2019, algorithm 2; without the correction as in BERT's own code."""
    start, gradients = weights_and_gradients()
    optimizer = adamw(warmup_linear(0.02, 2, 6), weight_decay=0.1, bias_correction=bias_correction)
    made = follow(optimizer, gradients, start)
    for name, value in start.items():
        x, m, v = value.astype("float64"), 0.0, 0.0
        for i, rate in enumerate((0.01, 0.02, 0.02, 0.015, 0.01, 0.005), start=1):
            gradient = clipped(gradients[i - 1])[name]
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            m_hat, v_hat = (m / (1 - 0.9**i), v / (1 - 0.999**i)) if bias_correction else (m, v)
            decay = 0.1 * x if x.ndim == 2 else 0.0
            x = x - rate * (m_hat / (np.sqrt(v_hat) + 1e-6) + decay)
        np.testing.assert_allclose(made[name], x, rtol=0, atol=1e-6, err_msg=name)  # measured 1e-7


def test_lamb_against_numpy():
    """Source: You et al. 2019, algorithm 2; exclusions from decay and trust ratio as in the authors' code."""
    start, gradients = weights_and_gradients()
    made = follow(lamb(warmup_linear(0.02, 2, 6), weight_decay=0.1), gradients, start)
    ratios = []
    for name, value in start.items():
        x, m, v = value.astype("float64"), 0.0, 0.0
        for i, rate in enumerate((0.01, 0.02, 0.02, 0.015, 0.01, 0.005), start=1):
            gradient = clipped(gradients[i - 1])[name]
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            update = m / (1 - 0.9**i) / (np.sqrt(v / (1 - 0.999**i)) + 1e-6)
            ratio = 1.0
            if x.ndim == 2:
                update = update + 0.1 * x
                norm = np.linalg.norm(x)
                ratio = norm / np.linalg.norm(update) if norm else 1.0
                ratios.append(ratio)
            x = x - rate * ratio * update
        np.testing.assert_allclose(made[name], x, rtol=0, atol=1e-6, err_msg=name)  # measured 1e-7
    assert min(ratios) < 0.3
    assert 1.0 in ratios  # where the weight is zero


def test_lamb_stands_still_where_weight_and_gradient_are_zero():
    start = {"kernel": np.zeros((2, 3), "float32"), "bias": np.zeros(3, "float32")}
    made = follow(lamb(0.5), [{name: np.zeros_like(value) for name, value in start.items()}], start)
    assert all(np.array_equal(made[name], start[name]) for name in start)


@pytest.mark.parametrize("optimizer", [Lamb, BertAdamW])
def test_half_precision_weights(optimizer):
    """Norms over float16's range, and steps over bfloat16's integers."""
    for dtype in ("float16", "bfloat16"):
        weight = keras.Variable(np.full((300, 300), 3.0), dtype=dtype, name="kernel")
        made = optimizer(0.01, weight_decay=0.1, epsilon=1e-6)
        made.build([weight])
        made._iterations.assign(1000)
        made.apply([keras.ops.full((300, 300), 0.5, dtype)], [weight])
        value = np.asarray(weight, "float32")
        assert np.all((value > 0.0) & (value < 3.0))


def test_layer_decay():
    """The head learns at the rate itself, each block below it slower, the embeddings slowest."""
    model = model_for("sequence_classifier", num_classes=3)
    before = {weight.path: weight.numpy() for weight in model.weights}
    optimizer = adamw(0.1, weight_decay=0.0, layer_decay=0.5)
    optimizer.apply([keras.ops.full(weight.shape, 1e-3) for weight in model.trainable_weights], model.trainable_weights)
    rates = {"logits": 0.1, "pooler": 0.1, "layer_1": 0.05, "layer_0": 0.025}
    for weight in model.trainable_weights:
        rate = rates.get(weight.path.split("/")[0], 0.0125)
        moved = before[weight.path] - weight.numpy()  # the first step of Adam is the learning rate
        np.testing.assert_allclose(moved, np.full(weight.shape, rate), rtol=2e-2, err_msg=weight.path)
    with pytest.raises(ValueError, match=r"^`layer_decay` must be above 0 and at most 1, got 1\.5\.$"):
        adamw(0.1, layer_decay=1.5)


@pytest.mark.parametrize("make", [lamb, adamw])
def test_more_weights_can_be_excluded(make):
    model = model_for("sequence_classifier", num_classes=3)
    embeddings = model.get_layer("token_embedding").embeddings
    optimizer = make(0.1, weight_decay=0.25)
    optimizer.exclude_from_weight_decay(var_list=[embeddings])
    before = {weight.path: weight.numpy() for weight in model.weights}
    optimizer.apply([keras.ops.zeros(weight.shape) for weight in model.trainable_weights], model.trainable_weights)
    assert np.array_equal(embeddings.numpy(), before[embeddings.path])
    assert not np.array_equal(model.get_layer("pooler").kernel.numpy(), before["pooler/kernel"])
    rows = list(zip(*(list(column.cells) for column in decay_table(model, optimizer).columns), strict=True))
    assert ("embeddings", "1", "384", "no", "x 1") in rows


def test_decay_table():
    encoder = keras_bert.build_encoder(tiny_config())
    model = keras_bert.HEADS["sequence_classifier"].build(encoder, num_classes=3)
    encoder.get_layer("token_embedding").trainable = False
    table = decay_table(model, adamw(0.1, layer_decay=0.5))
    rows = list(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert ("embeddings", "1", "384", "frozen", "") in rows
    assert ("kernel", "6", "1,056", "yes", "x 0.5") in rows
    assert ("gamma", "1", "12", "no", "x 0.125") in rows
    assert sum(int(row[1]) for row in rows) == len(model.weights)
    scaled = decay_table(model, keras.optimizers.LossScaleOptimizer(adamw(0.1, layer_decay=0.5)))
    assert scaled.title == table.title == "weight decay 0.01"
    assert [list(column.cells) for column in scaled.columns] == [list(column.cells) for column in table.columns]


@pytest.mark.parametrize("make", [lamb, adamw])
def test_a_compiled_model_goes_on_from_its_keras_file(make, tmp_path):
    model = model_for("sequence_classifier", num_classes=2)
    optimizer = make(Warmup(0.05, 2, 9, "stable_decay", 4))
    optimizer.build(model.trainable_weights)
    model.compile(optimizer, "mse")
    gradients = [keras.ops.full(weight.shape, 0.01) for weight in model.trainable_weights]
    model.optimizer.apply(gradients)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    for each in (model, again):
        each.optimizer.apply(gradients)
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


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
    expected = {"peak": 0.5, "warmup_steps": 4, "total_steps": 10, "shape": "linear", "decay_steps": 0}
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("make", [adamw, lamb])
def test_a_token_that_comes_several_times(make):
    """Its rows are added up before anything is squared: the norm to clip by, and the moments."""
    start = np.random.default_rng(3).normal(0.0, 0.3, (7, 5)).astype("float32")
    ids, slices = np.array([2, 4, 2, 2]), np.random.default_rng(4).normal(size=(4, 5)).astype("float32")
    whole = np.zeros_like(start)
    np.add.at(whole, ids, slices)
    results = []
    for gradient in (tf.IndexedSlices(tf.constant(slices), tf.constant(ids), tf.constant([7, 5])), whole):
        table, optimizer = keras.Variable(start), make(0.1)
        for _ in range(2):  # by the second the moments show
            optimizer.apply([gradient], [table])
        results.append(table.numpy())
    assert np.abs(results[0] - results[1]).max() <= 1e-6  # measured 0
    assert np.abs(results[1] - start)[[0, 1, 3, 5, 6]].max() < np.abs(results[1] - start)[[2, 4]].max()
