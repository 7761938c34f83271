import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.distribution import prepare
from keras_bert.training.electra import (
    DETECTOR_WEIGHT,
    electra,
    electra_objectives,
    electra_targets,
    generator_config,
    with_token_embedding,
)
from keras_bert.training.replaced_tokens import replaced_tokens
from tests.models import VOCAB, randomize, tiny_config, tiny_features

SPECIAL = 5
FIELDS = {"model_type": "electra", "pooler": False, "classifier_act": "gelu"}


@pytest.fixture(scope="module")
def halves():
    """Generator and detector, tied, with the model of both and a batch."""
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **FIELDS)
    detector = randomize(keras_bert.create(config, head="replaced_token_detector").model, seed=1)
    small = generator_config(config, 1 / 3)
    generator = randomize(keras_bert.create(small, head="masked_language_model").model, seed=2)
    generator = with_token_embedding(generator, detector)
    model = electra(generator, detector, seed=3, allowed=np.arange(len(VOCAB)) >= SPECIAL)
    x = {**tiny_features(config), "masked_positions": np.array([[1, 3], [1, 0], [1, 0]], "int32")}
    y, weights = np.array([[7, 8], [9, 0], [5, 0]], "int32"), np.array([[1, 1], [1, 0], [0, 0]], "float32")
    return generator, detector, model, tuple(keras.tree.map_structure(tf.constant, part) for part in (x, y, weights))


def test_the_generator_is_as_deep_and_narrower():
    config = tiny_config(**FIELDS)
    small = generator_config(config, 1 / 3)
    assert (small.hidden_size, small.num_attention_heads, small.intermediate_size) == (4, 1, 7)
    assert (small.embedding_width, small.num_hidden_layers) == (config.hidden_size, config.num_hidden_layers)
    assert generator_config(config, 1.0) == config
    narrow = dataclasses.replace(config, embedding_size=4)
    assert generator_config(narrow, 1 / 3).embedding_size is None
    with pytest.raises(ValueError, match=r"^`share` must be above 0 and at most 1, got 0\.$"):
        generator_config(config, 0)


def test_both_halves_have_one_token_embedding(halves):
    generator, detector, model, _ = halves
    shared = detector.get_layer("token_embedding").embeddings
    assert any(weight is shared for weight in generator.weights)
    tables = [weight for weight in model.weights if weight.shape == shared.shape]
    assert len(tables) == 1
    assert len(model.weights) == len(generator.weights) + len(detector.weights) - 1


def test_tables_of_other_sizes_are_refused():
    config = tiny_config(**FIELDS)
    one = keras_bert.create(dataclasses.replace(config, embedding_size=5), head="masked_language_model").model
    other = keras_bert.create(config, head="replaced_token_detector").model
    with pytest.raises(ValueError, match=r"^Generator and detector must have token embeddings of one size, got 32 x 5"):
        with_token_embedding(one, other)


def test_losses_and_accuracies_are_those_of_the_halves(halves):
    generator, detector, model, (x, y, weights) = halves
    logits = generator(x).numpy().astype("float64")
    filled, replaced = replaced_tokens(
        x["token_ids"], x["masked_positions"], y, weights, logits, seed=3, allowed=np.arange(len(VOCAB)) >= SPECIAL
    )
    assert replaced.numpy().sum() > 0
    found = detector({**{name: x[name] for name in detector.input}, "token_ids": filled}).numpy().astype("float64")
    log_softmax = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_softmax, y.numpy()[..., None], -1)[..., 0]
    mlm = -(chosen * weights.numpy()).sum() / weights.numpy().sum()
    real, right = x["padding_mask"].numpy(), replaced.numpy()
    each = np.logaddexp(0, found) - right * found
    detection = (each * real).sum() / real.sum()
    prepared = prepare(model)
    prepared.compile(keras.optimizers.SGD(0.0), **electra_objectives())
    data = tf.data.Dataset.from_tensors((x, y, weights)).map(electra_targets)
    logs = prepared.evaluate(data, verbose=0, return_dict=True)
    assert logs["mlm_logits_cross_entropy"] == pytest.approx(mlm, rel=1e-5)  # measured: 2e-7
    assert logs["detector_logits_cross_entropy"] == pytest.approx(detection, rel=1e-5)
    assert logs["detector_logits_accuracy"] == pytest.approx(((found > 0) == right)[real > 0].mean(), rel=1e-6)
    assert logs["loss"] == pytest.approx(mlm + DETECTOR_WEIGHT * detection, rel=1e-5)


def test_the_generator_learns_from_its_own_loss_alone(halves):
    generator, _, model, (x, y, weights) = halves
    own = generator.get_layer("mlm").dense.kernel
    batch = electra_targets(x, y, weights)
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(batch[0])
        detected, masked = tf.reduce_sum(outputs["detector_logits"]), tf.reduce_sum(outputs["mlm_logits"] ** 2)
    assert tape.gradient(detected, own.value) is None
    assert float(tf.reduce_sum(tf.abs(tape.gradient(masked, own.value)))) > 0
