"""Every family: genuine files of `transformers`, published sizes, and round trips of every head."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert import layers
from keras_bert.checkpoint.families import FAMILIES
from keras_bert.config import BertConfig
from keras_bert.encoder import hidden_states
from keras_bert.initializers import weights_follow
from tests.conftest import shared_data
from tests.models import LABELS, randomize, tiny_config

TOLERANCE = 1e-5  # measured 2e-6

SMALL = {
    "bert": {},
    "roberta": {"pad_token_id": 1, "position_offset": 2, "type_vocab_size": 1, "classifier_act": "tanh"},
    "distilbert": {"type_vocab_size": 0, "pooler": False, "classifier_act": "relu"},
    "albert": {"embedding_size": 8, "shared_layers": True, "hidden_act": "gelu_new", "num_hidden_layers": 3},
    "electra": {"embedding_size": 8, "pooler": False, "classifier_act": "gelu"},
}


def largest(a, b):
    return float(np.abs(np.asarray(a, "float64") - np.asarray(b, "float64")).max())


def cross_entropy(logits, labels):
    logits, labels = np.asarray(logits, "float64"), np.asarray(labels)
    log_z = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    picked = np.take_along_axis(logits, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return ((log_z - picked) * (labels != -100)).sum() / (labels != -100).sum()


def golden(name):
    folder = shared_data(f"checkpoints/{name}")
    arrays = np.load(folder / "expected.npz")
    ids, mask = (arrays[f"input/{key}"].astype("int32") for key in ("input_ids", "attention_mask"))
    segments = arrays["input/token_type_ids"].astype("int32") if "input/token_type_ids" in arrays else ids * 0
    return folder, arrays, {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


# folder, head, {output here: output there}, [(logits here, labels there)] whose losses add up
GOLDEN = [
    ("hf_bert_xsmall_dummy", None, {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"}, []),
    ("hf_tiny_bert_safetensors", None, {"sequence_output": "last_hidden_state"}, []),
    ("sentence_transformers_tiny_bert", None, {"sequence_output": "last_hidden_state"}, []),
    ("hf_reference_electra_model", None, {"sequence_output": "last_hidden_state"}, []),
    ("hf_reference_bert_token_classification", "token_classifier", {"": "logits"}, [("", "labels")]),
    ("hf_reference_roberta_masked_lm", "masked_language_model", {"": "logits"}, [("", "labels")]),
    ("hf_reference_distilbert_masked_lm", "masked_language_model", {"": "logits"}, [("", "labels")]),
    (
        "hf_reference_albert_pretraining",
        "pretraining_model",
        {"mlm_logits": "prediction_logits", "nsp_logits": "sop_logits"},
        [("mlm_logits", "labels"), ("nsp_logits", "sentence_order_label")],
    ),
]


@pytest.mark.parametrize(("name", "head", "outputs", "losses"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_golden_outputs(name, head, outputs, losses):
    folder, arrays, features = golden(name)
    bundle = keras_bert.load(folder)
    assert bundle.head == head
    assert bundle.report.fresh == []
    assert bundle.report.unused == []
    real = features["padding_mask"]
    for ours, theirs in enumerate(hidden_states(bundle.model)(features)) if head is None else ():
        assert largest(theirs * real[..., None], arrays[f"output/hidden_states_{ours}"] * real[..., None]) <= TOLERANCE
    if "masked_positions" in bundle.model.input:
        batch, length = real.shape
        features["masked_positions"] = np.tile(np.arange(length, dtype="int32"), (batch, 1))
    made = bundle.model(features)
    made = made if isinstance(made, dict) else {"": made}
    for ours, theirs in outputs.items():
        expected = arrays[f"output/{theirs}"]
        mask = real[..., None] if expected.ndim == 3 else 1
        assert largest(made[ours] * mask, expected * mask) <= TOLERANCE, ours
    if losses:
        loss = sum(cross_entropy(made[ours], arrays[f"label/{theirs}"]) for ours, theirs in losses)
        assert abs(loss - arrays["output/loss"]) <= TOLERANCE


def test_golden_question_answering():
    folder, arrays, features = golden("hf_reference_bert_question_answering")
    bundle = keras_bert.load(folder)
    assert bundle.head == "span_extractor"
    logits = np.asarray(bundle.model(features))
    real, loss = features["padding_mask"], 0
    for column, name in enumerate(("start", "end")):
        expected = arrays[f"output/{name}_logits"]
        assert largest(logits[..., column] * real, expected * real) <= TOLERANCE
        loss += cross_entropy(logits[..., column], arrays[f"label/{name}_positions"]) / 2
    assert abs(loss - arrays["output/loss"]) <= TOLERANCE


@pytest.mark.parametrize(
    "name",
    [
        "hf_reference_bert_pretraining",
        "hf_reference_roberta_masked_lm",
        "hf_reference_distilbert_masked_lm",
        "hf_reference_albert_pretraining",
    ],
)
def test_torch_file_gives_the_weights_of_safetensors(name, tmp_path):
    folder = shared_data(f"checkpoints/{name}")
    for file in ("config.json", "pytorch_model.bin"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    ours, theirs = keras_bert.load(tmp_path), keras_bert.load(folder)
    for a, b in zip(ours.model.weights, theirs.model.weights, strict=True):
        assert np.array_equal(a.value, b.value), a.path


COUNTS = {
    "bert_tiny": 4_385_920,
    "bert_mini": 11_170_560,
    "bert_small": 28_763_648,
    "bert_medium": 41_373_184,
    "distilbert_base": 66_362_880,
    "albert_base": 11_683_584,
    "albert_large": 17_683_968,
    "albert_xlarge": 58_724_864,
    "roberta_base": 124_645_632,
    "electra_small": 13_483_008,
    "electra_base": 108_891_648,
}
LARGE_COUNTS = {"albert_xxlarge": 222_595_584, "roberta_large": 355_359_744, "electra_large": 334_092_288}


def check_count(preset, count):
    with weights_follow():
        assert keras_bert.build_encoder(BertConfig.preset(preset)).count_params() == count


@pytest.mark.parametrize("preset", COUNTS)
def test_parameter_counts(preset):
    check_count(preset, COUNTS[preset])


@pytest.mark.slow
@pytest.mark.parametrize("preset", LARGE_COUNTS)
def test_parameter_counts_of_large_models(preset):
    check_count(preset, LARGE_COUNTS[preset])


def family_bundle(family, head, seed=0):
    config = tiny_config(**{"model_type": family, **SMALL[family]})
    labels = LABELS if head is not None and keras_bert.HEADS[head].labelled else None
    needs = head is not None and keras_bert.heads.reads_pooler(head, config)
    config = keras_bert.BertConfig.from_dict({**config.to_dict(), "pooler": needs or (head is None and config.pooler)})
    bundle = keras_bert.create(config, None, head, labels)
    randomize(bundle.model, seed)
    return bundle


def features_of(bundle, batch=3, length=7, seed=0):
    rng = np.random.default_rng(seed)
    config, shape = bundle.config, (batch, 2, length) if bundle.head == "multiple_choice" else (batch, length)
    lengths = rng.integers(1, length + 1, shape[:-1])[..., None]
    mask = (np.arange(length) < lengths).astype("int32")
    ids = np.where(mask, rng.integers(2, config.vocab_size, shape), config.pad_token_id).astype("int32")
    segments = rng.integers(0, max(1, config.type_vocab_size), shape) * mask
    features = {"token_ids": ids, "segment_ids": segments.astype("int32"), "padding_mask": mask}
    if "masked_positions" in bundle.model.input:
        features["masked_positions"] = np.array([[1, 0]] * batch, "int32")
    return features


ROUND_TRIPS = [(family, head) for family in FAMILIES for head in FAMILIES[family].architectures]


@pytest.mark.parametrize(("family", "head"), ROUND_TRIPS)
def test_round_trip(family, head, tmp_path):
    bundle = family_bundle(family, head)
    keras_bert.save(bundle, tmp_path / "model")
    again = keras_bert.load(tmp_path / "model")
    assert (again.head, again.config, again.labels) == (bundle.head, bundle.config, bundle.labels)
    assert (again.report.fresh, again.report.unused, again.report.ignored) == ([], [], [])
    theirs = {weight.path: np.asarray(weight.value) for weight in again.model.weights}
    assert theirs.keys() == {weight.path for weight in bundle.model.weights}
    for weight in bundle.model.weights:
        assert np.array_equal(weight.value, theirs[weight.path]), weight.path
    keras_bert.save(again, tmp_path / "again")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "again"))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_positions_of_roberta():
    config = tiny_config(model_type="roberta", **SMALL["roberta"])
    layer = layers.Embeddings(config)
    layer.build((None, None, 12))
    layer.position_embeddings.assign(np.arange(40)[:, None] * np.ones(12))
    mask = np.array([[1, 1, 1, 1, 0, 0]], "int32")  # ids [[0, 9, 8, 2, 1, 1]]
    assert np.asarray(layer._positions(6, mask, None))[0, :, 0].tolist() == [2, 3, 4, 5, 1, 1]
    assert config.max_length == 38


def test_too_long_for_roberta():
    bundle = family_bundle("roberta", "sequence_classifier")
    with pytest.raises(ValueError, match="`token_ids` has 39 tokens a text, the model has 38 positions."):
        keras_bert.predict(bundle, {"token_ids": np.full((1, 39), 5)})


def test_segments_that_a_family_has_not_are_ignored():
    bundle = family_bundle("distilbert", None)
    features = features_of(bundle)
    other = {**features, "segment_ids": features["padding_mask"]}
    assert largest(bundle.model(features)["sequence_output"], bundle.model(other)["sequence_output"]) == 0


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_files(dtype, tmp_path):  # P20
    keras_bert.save(family_bundle("bert", "sequence_classifier"), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    halves = {name: array.astype(dtype) for name, array in load_file(file).items()}
    save_file(halves, file)
    bundle = keras_bert.load(tmp_path / "model")
    weights = {weight.path: np.asarray(weight.value) for weight in bundle.model.weights}
    assert np.array_equal(weights["logits/kernel"], halves["classifier.weight"].T.astype("float32"))
    assert weights["logits/kernel"].dtype == np.float32


def shard(folder):
    arrays = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: arrays[name] for name in names if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def test_shards(tmp_path):  # P20
    bundle = family_bundle("bert", "token_classifier")
    keras_bert.save(bundle, tmp_path / "model")
    shard(tmp_path / "model")
    again = keras_bert.load(tmp_path / "model")
    for a, b in zip(bundle.model.weights, again.model.weights, strict=True):
        assert np.array_equal(a.value, b.value), a.path


def test_missing_shard(tmp_path):
    keras_bert.save(family_bundle("bert", None), tmp_path / "model")
    shard(tmp_path / "model")
    (tmp_path / "model" / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match="lacks 1 of 2 shards: model-00002-of-00002.safetensors.$"):
        keras_bert.load(tmp_path / "model")


def test_shards_stay_in_their_folder(tmp_path):
    keras_bert.save(family_bundle("bert", None), tmp_path / "model")
    shard(tmp_path / "model")
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model-00002", "../model-00002"))
    with pytest.raises(ValueError, match="must name files beside it, got '../model-00002-of-00002.safetensors'"):
        keras_bert.load(tmp_path / "model")


def test_a_head_that_a_family_has_not(tmp_path):
    config = tiny_config(model_type="distilbert", **{**SMALL["distilbert"], "pooler": True})
    with pytest.raises(ValueError, match="`transformers` has no next_sentence for distilbert"):
        keras_bert.save(keras_bert.create(config, None, "next_sentence"), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_one_label_is_a_number(tmp_path):
    keras_bert.save(family_bundle("bert", "sequence_regressor"), tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    values = json.loads(file.read_text())
    del values["keras_bert"]
    file.write_text(json.dumps(values))
    assert keras_bert.load(tmp_path / "model").head == "sequence_regressor"
    assert keras_bert.load(tmp_path / "model", head="reranker").report.fresh == []
