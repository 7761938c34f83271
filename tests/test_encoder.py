"""The encoder and the heads against the float64 reference, published counts, and golden outputs."""

import keras
import numpy as np
import pytest

from keras_bert.config import BertConfig
from keras_bert.encoder import build_encoder, hidden_states
from keras_bert.head_layers import POOLINGS
from keras_bert.heads import HEADS
from keras_bert.initializers import weights_follow
from tests.models import model_features, randomize, tiny_config, tiny_features
from tests.reference import ACTIVATIONS, Reference

TOLERANCE = 1e-5  # measured 2e-6


def largest(a, b):
    return float(np.abs(np.asarray(a, "float64") - np.asarray(b, "float64")).max())


def build(head, config, **options):
    model = HEADS[head].build(build_encoder(config), **options)
    randomize(model)
    return model, Reference(config, {w.path: np.asarray(w.value) for w in model.weights})


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "relu"])
def test_encoder_equals_reference(hidden_act):
    config = tiny_config(hidden_act=hidden_act)
    encoder = randomize(build_encoder(config))
    reference = Reference(config, {w.path: np.asarray(w.value) for w in encoder.weights})
    features = tiny_features(config)
    outputs, states = encoder(features), hidden_states(encoder)(features)
    real = features["padding_mask"][..., None]
    for ours, theirs in zip(states, reference.hidden_states(features), strict=True):
        assert largest(ours * real, theirs * real) <= TOLERANCE
    assert largest(outputs["sequence_output"], states[-1]) == 0
    assert largest(outputs["pooled_output"], reference.pooled(features)) <= TOLERANCE


def test_masked_language_model_and_pretraining_model():
    config = tiny_config()
    features = {**tiny_features(config), "masked_positions": np.array([[6, 0], [0, 0], [1, 0]], "int32")}
    model, reference = build("masked_language_model", config)
    assert largest(model(features), reference.mlm_logits(features)) <= TOLERANCE
    model, reference = build("pretraining_model", config)
    outputs = model(features)
    assert largest(outputs["mlm_logits"], reference.mlm_logits(features)) <= TOLERANCE
    assert largest(outputs["nsp_logits"], reference.nsp_logits(features)) <= TOLERANCE


def test_sequence_classifier():
    config = tiny_config()
    model, reference = build("sequence_classifier", config, num_classes=5)
    features = tiny_features(config)
    assert largest(model(features), reference.class_logits(features)) <= TOLERANCE


def test_heads_on_tokens():
    config = tiny_config()
    features = tiny_features(config)
    real = features["padding_mask"]
    for head, options in (("token_classifier", {"num_classes": 5}), ("span_extractor", {})):
        model, reference = build(head, config, **options)
        logits = reference.dense(reference.hidden_states(features)[-1], "logits")
        assert largest(model(features) * real[..., None], logits * real[..., None]) <= TOLERANCE
    model, reference = build("replaced_token_detector", config)
    hidden = reference.act(reference.dense(reference.hidden_states(features)[-1], "detector"))
    logits = reference.dense(hidden, "detector_logits")[..., 0]
    assert largest(model(features) * real, logits * real) <= TOLERANCE


def test_heads_on_the_pooled_vector():
    config = tiny_config()
    features = tiny_features(config)
    for head in ("sequence_regressor", "reranker"):
        model, reference = build(head, config)
        assert largest(model(features), reference.class_logits(features)[:, 0]) <= TOLERANCE
    model, reference = build("next_sentence", config)
    assert largest(model(features), reference.nsp_logits(features)) <= TOLERANCE
    model, reference = build("multiple_choice", config)
    other = tiny_features(config, seed=1)
    logits = [reference.class_logits(choice)[:, 0] for choice in (features, other)]
    both = {name: np.stack([features[name], other[name]], axis=1) for name in features}
    assert largest(model(both), np.stack(logits, axis=1)) <= TOLERANCE


CLASSIFIER_ACTS = {"tanh": np.tanh, "relu": ACTIVATIONS["relu"], "gelu": ACTIVATIONS["gelu"]}


@pytest.mark.parametrize("act", CLASSIFIER_ACTS)
def test_classifiers_with_a_dense_layer_of_their_own(act):
    config = tiny_config(classifier_act=act, pooler=False)
    model, reference = build("sequence_classifier", config, num_classes=3)
    features = tiny_features(config)
    x = CLASSIFIER_ACTS[act](reference.dense(reference.hidden_states(features)[-1][:, 0], "classifier_dense"))
    assert largest(model(features), reference.dense(x, "logits")) <= TOLERANCE


def test_factorised_embeddings_shared_layers_offsets_and_no_segments():
    config = tiny_config(
        embedding_size=8, shared_layers=True, num_hidden_layers=3, position_offset=2, pad_token_id=1, type_vocab_size=0
    )
    encoder = randomize(build_encoder(config))
    w = {weight.path: np.asarray(weight.value, "float64") for weight in encoder.weights}
    features = tiny_features(config)
    features["segment_ids"] = features["segment_ids"] * 0
    mask = features["padding_mask"]
    x = w["token_embedding/embeddings"][features["token_ids"]]
    x = x + w["embeddings/position_embeddings"][np.cumsum(mask, 1) * mask + 1]
    reference = Reference(config, w)
    x = reference.dense(reference.norm(x, "embeddings/norm"), "embeddings/projection")
    states = [x]
    for _ in range(3):
        x = reference.norm(x + reference.attention(x, mask, "layer_0/attention"), "layer_0/attention_norm")
        y = reference.dense(reference.act(reference.dense(x, "layer_0/intermediate")), "layer_0/output")
        x = reference.norm(x + y, "layer_0/output_norm")
        states.append(x)
    real = mask[..., None]
    for ours, theirs in zip(hidden_states(encoder)(features), states, strict=True):
        assert largest(ours * real, theirs * real) <= TOLERANCE


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalize", [True, False])
def test_sentence_embedder(pooling, normalize):
    config = tiny_config()
    model, reference = build("sentence_embedder", config, pooling=pooling, normalize=normalize)
    features = tiny_features(config)
    assert largest(model(features), reference.embedding(features, pooling, normalize)) <= TOLERANCE


def test_left_out_inputs_are_zeros_and_the_pad_id():  # P50
    config = tiny_config(pad_token_id=2)
    encoder = randomize(build_encoder(config))
    ids = np.array([[5, 6, 7, 2, 2], [5, 2, 2, 2, 2]], "int32")
    given = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": (ids != 2).astype("int32")}
    left_out = {"token_ids": ids, "segment_ids": None, "padding_mask": None}
    assert largest(encoder(given)["pooled_output"], encoder(left_out)["pooled_output"]) == 0


def test_padding_changes_nothing():  # P50
    config = tiny_config()
    encoder = randomize(build_encoder(config))
    features = tiny_features(config, batch=1, length=5)
    padded = {key: np.pad(value, ((0, 0), (0, 20))) for key, value in features.items()}
    short, long = encoder(features), encoder(padded)
    assert largest(short["sequence_output"], long["sequence_output"][:, :5]) <= TOLERANCE
    assert largest(short["pooled_output"], long["pooled_output"]) <= TOLERANCE


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_rows_that_are_all_padding_stay_finite(policy):
    keras.config.set_dtype_policy(policy)
    try:
        config = tiny_config()
        model, _ = build("sequence_classifier", config, num_classes=3)
    finally:
        keras.config.set_dtype_policy("float32")
    features = {key: np.zeros((2, 4), "int32") for key in ("token_ids", "segment_ids", "padding_mask")}
    logits = np.asarray(model(features))
    assert logits.dtype == np.float32
    assert np.isfinite(logits).all()


def test_tokens_of_both_texts_attend_to_each_other():
    # 巴黎是法国的首都 / 埃菲尔铁塔在这里: changing a token of the second text changes the vectors of the first
    config = tiny_config()
    encoder = randomize(build_encoder(config))
    ids = np.array([[2, 20, 21, 3, 22, 23, 3]], "int32")
    features = {
        "token_ids": ids,
        "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 1]], "int32"),
        "padding_mask": ids * 0 + 1,
    }
    other = {**features, "token_ids": np.array([[2, 20, 21, 3, 24, 23, 3]], "int32")}
    change = np.abs(np.asarray(encoder(features)["sequence_output"] - encoder(other)["sequence_output"]))
    assert change[0, 1:3].max() > 1e-2


@pytest.mark.parametrize(
    ("preset", "vocab_size", "count"),
    [("bert_base", 30522, 109_482_240), ("bert_base", 21128, 102_267_648), ("minilm", 30522, 22_713_216)],
)
def test_parameter_counts(preset, vocab_size, count):
    with weights_follow():
        assert build_encoder(BertConfig.preset(preset, vocab_size=vocab_size)).count_params() == count


def test_parameter_count_of_pretraining_base():
    with weights_follow():
        encoder = build_encoder(BertConfig.preset("bert_base"))
        assert HEADS["pretraining_model"].build(encoder).count_params() == 110_106_428


def test_parameter_count_of_large():
    with weights_follow():
        assert build_encoder(BertConfig.preset("bert_large")).count_params() == 335_141_888


def test_fresh_weights_are_berts():
    encoder = build_encoder(tiny_config(vocab_size=500, hidden_size=48, initializer_range=0.02))
    values = {w.path: np.asarray(w.value) for w in encoder.weights}
    table = values["token_embedding/embeddings"]
    assert np.abs(table).max() <= 0.04 + 1e-6  # cut at two standard deviations
    assert 0.8 * 0.02 < table.std() < 0.02
    assert not np.array_equal(values["layer_0/attention/query/kernel"], values["layer_0/attention/key/kernel"])
    assert all((v == 1).all() for p, v in values.items() if p.endswith("gamma"))
    assert all((v == 0).all() for p, v in values.items() if p.endswith(("beta", "bias")))


def test_too_long_input_is_one_sentence():  # P18
    encoder = build_encoder(tiny_config())
    ids = np.ones((1, 41), "int32")
    with pytest.raises(ValueError, match="The input has 41 tokens, the model has 40 positions"):
        encoder({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids})


def test_heads_refuse_what_does_not_fit():
    encoder = build_encoder(tiny_config(pooler=False))
    with pytest.raises(ValueError, match="`sequence_classifier` needs an encoder with a pooler"):
        HEADS["sequence_classifier"].build(encoder, num_classes=2)
    with pytest.raises(
        ValueError, match="`pooling` must be one of mean, cls, max, mean_sqrt_len, lasttoken, got 'avg'"
    ):
        HEADS["sentence_embedder"].build(encoder, pooling="avg")
    with pytest.raises(ValueError, match="`num_classes` must be an integer of at least 2, got 1"):
        HEADS["sequence_classifier"].build(build_encoder(tiny_config()), num_classes=1)


@pytest.mark.parametrize("head", HEADS)
def test_keras_file_loads_as_it_was_saved(head, tmp_path):
    config = tiny_config()
    model, _ = build(head, config, **({"num_classes": 3} if HEADS[head].labelled else {}))
    features = model_features(model, config)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(keras.tree.flatten(model(features)), keras.tree.flatten(again(features)), strict=True):
        assert largest(ours, theirs) == 0


def test_one_training_step_reaches_every_weight():
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model, _ = build("pretraining_model", config)
    before = {w.path: np.asarray(w.value) for w in model.trainable_weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), {"mlm_logits": loss, "nsp_logits": loss})
    features = {**tiny_features(config), "masked_positions": np.array([[1, 2], [0, 1], [3, 0]], "int32")}
    labels = {"mlm_logits": np.array([[7, 8], [9, 10], [11, 12]]), "nsp_logits": np.array([0, 1, 0])}
    model.fit(features, labels, batch_size=3, verbose=0)
    after = {w.path: np.asarray(w.value) for w in model.trainable_weights}
    still = [path for path, value in before.items() if np.allclose(value, after[path], rtol=0, atol=1e-7)]
    # a key's bias adds the same to all scores of a query: its gradient is zero
    assert still == ["layer_0/attention/key/bias", "layer_1/attention/key/bias"]
