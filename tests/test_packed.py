"""Packed rows against the same sequences in rows of their own."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.encoder import build_encoder
from keras_bert.heads import HEADS
from keras_bert.packed import SameSequence, SequencePositions, packed_model
from tests.models import randomize, tiny_config

LENGTHS = [[5, 9, 3], [12, 1], [2, 2, 2, 7]]  # of the sequences of each row
ROW, SLOTS, WIDTH = 24, 4, 12
ROBERTA = {"pad_token_id": 1, "position_offset": 2, "type_vocab_size": 1, "classifier_act": "tanh"}
FAMILIES = {"bert": {}, "roberta": ROBERTA, "electra": {"embedding_size": 8, "classifier_act": "gelu"}}
TOLERANCE = 1e-5  # measured 2e-6


def rows(config, seed=3):
    """The same sequences packed and apart, features of the encoder; where each lies: (row, start, length); slots."""
    rng = np.random.default_rng(seed)
    places = [(row, sum(part[:i]), size) for row, part in enumerate(LENGTHS) for i, size in enumerate(part)]
    count, pad = len(places), config.pad_token_id
    apart = {
        "token_ids": np.full((count, WIDTH), pad, "int32"),
        "segment_ids": np.zeros((count, WIDTH), "int32"),
        "padding_mask": np.zeros((count, WIDTH), "int32"),
    }
    packed = {
        "token_ids": np.full((len(LENGTHS), ROW), pad, "int32"),
        "segment_ids": np.zeros((len(LENGTHS), ROW), "int32"),
        "sequence_ids": np.zeros((len(LENGTHS), ROW), "int32"),
        "sequence_starts": np.zeros((len(LENGTHS), SLOTS), "int32"),
    }
    slots = []
    for i, (row, start, length) in enumerate(places):
        slot = sum(place[0] == row for place in places[:i])
        slots.append(slot)
        apart["token_ids"][i, :length] = rng.integers(2, config.vocab_size, length)
        apart["segment_ids"][i, :length] = rng.integers(0, config.type_vocab_size, length)
        apart["padding_mask"][i, :length] = 1
        for name in ("token_ids", "segment_ids"):
            packed[name][row, start : start + length] = apart[name][i, :length]
        packed["sequence_ids"][row, start : start + length] = slot + 1
        packed["sequence_starts"][row, slot] = start
    return packed, apart, places, slots


def masked(packed, apart, places, slots):
    """The same with "masked_positions", the last token of each sequence, and random labels: MLM and NSP."""
    rng = np.random.default_rng(9)
    labels = rng.integers(2, 9, (len(places), 1)), rng.integers(0, 2, len(places))
    apart = {**apart, "masked_positions": np.array([[length - 1] for _, _, length in places], "int32")}
    positions, words, pairs = (np.zeros((len(LENGTHS), SLOTS), "int32") for _ in range(3))
    weights = np.zeros((len(LENGTHS), SLOTS), "float32")
    for i, ((row, start, length), slot) in enumerate(zip(places, slots, strict=True)):
        positions[row, slot], words[row, slot], pairs[row, slot] = start + length - 1, labels[0][i, 0], labels[1][i]
        weights[row, slot] = 1
    return {**packed, "masked_positions": positions}, (words, pairs), weights, apart, labels


def assert_close(packed, apart):
    np.testing.assert_allclose(np.asarray(packed), np.asarray(apart), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_tokens_and_pooled_vectors_equal_separate_ones(family):  # P58, P17
    config = tiny_config(pooler=True, **FAMILIES[family])
    encoder = randomize(build_encoder(config))
    packed, apart, places, slots = rows(config)
    together, alone = packed_model(encoder)(packed), encoder(apart)
    assert together["pooled_output"].shape == (len(LENGTHS), SLOTS, config.hidden_size)
    for i, ((row, start, length), slot) in enumerate(zip(places, slots, strict=True)):
        assert_close(together["sequence_output"][row, start : start + length], alone["sequence_output"][i, :length])
        assert_close(together["pooled_output"][row, slot], alone["pooled_output"][i])


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_loss_and_gradients_equal_separate_ones(family):  # P58
    import tensorflow as tf

    config = tiny_config(pooler=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **FAMILIES[family])
    model = randomize(HEADS["pretraining_model"].build(build_encoder(config)))
    packed, (words, pairs), weights, apart, labels = masked(*rows(config))
    loss = keras.losses.SparseCategoricalCrossentropy(True, reduction="mean_with_sample_weight")

    def run(model, x, words, pairs, weights):
        with tf.GradientTape() as tape:
            y = model(x, training=True)
            value = loss(words, y["mlm_logits"], weights) + loss(pairs, y["nsp_logits"], weights)
        return value, tape.gradient(value, [weight.value for weight in variables])

    variables = model.trainable_weights
    together = run(packed_model(model), packed, words, pairs, weights)
    alone = run(model, apart, *labels, None)
    assert_close(together[0], alone[0])
    for weight, one, other in zip(variables, together[1], alone[1], strict=True):
        one, other = map(tf.convert_to_tensor, (one, other))
        assert_close(one, other)
        assert np.abs(other).max() > 1e-3 or weight.path.endswith("key/bias")


OPTIONS = {"sequence_classifier": {"num_classes": 5}, "token_classifier": {"num_classes": 5}}
WHOLE = ("sentence_embedder", "multiple_choice")


HEADS_AND_FAMILIES = [(head, "bert") for head in HEADS if head not in WHOLE] + [("sequence_classifier", "roberta")]


@pytest.mark.parametrize(("head", "family"), HEADS_AND_FAMILIES)
def test_every_head(head, family):
    config = tiny_config(pooler=True, **FAMILIES[family])
    model = randomize(HEADS[head].build(build_encoder(config), **OPTIONS.get(head, {})))
    twin = packed_model(model)
    assert {id(weight) for weight in twin.weights} == {id(weight) for weight in model.weights}
    found = rows(config)
    packed, _, _, apart, _ = masked(*found)
    packed, apart = ({name: x[name] for name in m.input if name in x} for x, m in ((packed, twin), (apart, model)))
    together, alone = twin(packed), model(apart)
    if head != "pretraining_model":
        together, alone = {head: together}, {head: alone}
    for name, values in alone.items():
        for i, ((row, start, length), slot) in enumerate(zip(*found[2:], strict=True)):
            if head in ("token_classifier", "span_extractor", "replaced_token_detector"):
                assert_close(together[name][row, start : start + length], values[i, :length])
            else:
                assert_close(together[name][row, slot], values[i, 0] if values.shape[1:2] == (1,) else values[i])


@pytest.mark.parametrize("head", WHOLE)
def test_heads_that_make_one_vector_of_a_row_are_refused(head):
    model = HEADS[head].build(build_encoder(tiny_config()))
    with pytest.raises(ValueError, match=rf"^`{head}` cannot take packed rows: it makes one vector of a row\. Do not"):
        packed_model(model)


def test_another_model_is_refused():
    x = keras.Input((3,), name="x")
    model = keras.Model({"x": x}, keras.layers.Dense(2, name="out")(x), name="mine")
    with pytest.raises(ValueError, match=r"^`mine` must be made of an encoder's layers, got \['x', 'out'\]\.$"):
        packed_model(model)


def test_positions_start_again():  # P17
    ids = np.array([[1, 1, 1, 2, 2, 2, 0, 0]])
    same = SameSequence()(ids)
    assert np.asarray(SequencePositions(2)(ids, same)).tolist() == [[2, 3, 4, 2, 3, 4, 1, 1]]
    assert np.asarray(SequencePositions(0)(ids, same)).tolist() == [[0, 1, 2, 0, 1, 2, 0, 0]]


def test_what_is_saved_is_the_plain_model(tmp_path):
    bundle = keras_bert.create(tiny_config(), head="next_sentence")
    twin = packed_model(randomize(bundle.model))
    packed, apart, *_ = rows(bundle.config)
    twin.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True), jit_compile=False)
    before = np.asarray(bundle.model(apart))
    twin.fit(packed, np.ones((len(LENGTHS), SLOTS), "int32"), verbose=0)
    after = np.asarray(bundle.model(apart))
    assert np.abs(after - before).max() > 1e-3
    keras_bert.save(bundle, tmp_path / "model")
    assert_close(keras_bert.load(tmp_path / "model").model(apart), after)
    twin.save(tmp_path / "twin.keras")
    assert_close(keras.models.load_model(tmp_path / "twin.keras")(packed), twin(packed))
