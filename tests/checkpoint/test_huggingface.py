"""Hugging Face folders in and out: golden outputs, every weight accounted for, one sentence for what is wrong."""

import json
import shutil

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.checkpoint.families import FAMILIES
from tests.conftest import shared_data
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config, tiny_features

TOLERANCE = 1e-5  # measured 2e-6


def largest(a, b):
    return float(np.abs(np.asarray(a, "float64") - np.asarray(b, "float64")).max())


def golden(name):
    folder = shared_data(f"checkpoints/{name}")
    arrays = np.load(folder / "expected.npz")
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    return folder, arrays, {ours: arrays[f"input/{theirs}"].astype("int32") for ours, theirs in names.items()}


def cross_entropy(logits, labels):
    """Mean over the labels that are not -100, in float64."""
    logits, labels = np.asarray(logits, "float64"), np.asarray(labels)
    log_z = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    picked = np.take_along_axis(logits, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return ((log_z - picked) * (labels != -100)).sum() / (labels != -100).sum()


def test_pretraining_model_of_transformers():
    folder, arrays, features = golden("hf_reference_bert_pretraining")
    bundle = keras_bert.load(folder)
    assert (bundle.head, bundle.report.fresh, bundle.report.unused) == ("pretraining_model", [], [])
    length = features["token_ids"].shape[1]
    features["masked_positions"] = np.tile(np.arange(length, dtype="int32"), (3, 1))
    outputs = bundle.model(features)
    real = features["padding_mask"][..., None]
    assert largest(outputs["mlm_logits"] * real, arrays["output/prediction_logits"] * real) <= TOLERANCE
    assert largest(outputs["nsp_logits"], arrays["output/seq_relationship_logits"]) <= TOLERANCE
    loss = cross_entropy(outputs["mlm_logits"], arrays["label/labels"])
    loss += cross_entropy(outputs["nsp_logits"], arrays["label/next_sentence_label"])
    assert abs(loss - arrays["output/loss"]) <= TOLERANCE


def test_sequence_classifier_of_transformers():  # P13
    folder, arrays, features = golden("hf_reference_bert_sequence_classification")
    bundle = keras_bert.load(folder, head="sequence_classifier")
    logits = bundle.model(features)
    assert largest(logits, arrays["output/logits"]) <= TOLERANCE
    assert abs(cross_entropy(logits, arrays["label/labels"]) - arrays["output/loss"]) <= TOLERANCE


def test_golden_outputs_of_axlearn():
    folder = shared_data("checkpoints/bert_golden_outputs")
    golden = np.load(folder / "bert_golden.npz")
    values = json.loads((folder / "config.json").read_text())
    values.pop("model_type")
    config = keras_bert.BertConfig.from_dict(values)
    hidden = config.hidden_size
    places = {
        "encoder/emb/norm": "embeddings/norm",
        "encoder/emb/pos_emb": "embeddings/position_embeddings",
        "encoder/emb/token_emb": "token_embedding/embeddings",
        "encoder/emb/type_emb": "embeddings/segment_embeddings",
        "head/transform/linear": "mlm/dense",
        "head/transform/norm": "mlm/norm",
        "head/pooler/linear": "pooler",
        "head/output": "logits",
    }
    for i in range(config.num_hidden_layers):
        there = f"encoder/transformer/layer{i}"
        for part, name in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
            places[f"{there}/self_attention/attention/i_proj/{part}"] = f"layer_{i}/attention/{name}"
        places[f"{there}/self_attention/attention/o_proj"] = f"layer_{i}/attention/output"
        places[f"{there}/self_attention/norm"] = f"layer_{i}/attention_norm"
        places[f"{there}/feed_forward/linear1"] = f"layer_{i}/intermediate"
        places[f"{there}/feed_forward/linear2"] = f"layer_{i}/output"
        places[f"{there}/feed_forward/norm"] = f"layer_{i}/output_norm"

    def weights(test):
        arrays = {}
        for key in golden:
            if not key.startswith(f"{test}/params/"):
                continue
            name = key.removeprefix(f"{test}/params/")
            if name == "head/output_bias":
                arrays["mlm_bias/bias"] = golden[key]
                continue
            layer, part = name.rsplit("/", 1)
            path, value = places[layer], golden[key]
            if layer.endswith("_emb"):
                arrays[path] = value.reshape(-1, hidden)
            elif layer.endswith("o_proj") and part == "weight":
                arrays[f"{path}/kernel"] = value.reshape(hidden, -1).T
            else:
                shape = (hidden, -1) if part == "weight" and "i_proj" in layer else value.shape
                part = {"weight": "kernel", "scale": "gamma", "bias": "beta" if "norm" in layer else "bias"}[part]
                arrays[f"{path}/{part}"] = value.reshape(shape if part == "kernel" else (-1,))
        return arrays

    def features(test):
        ids = golden[f"{test}/inputs/input_ids"].astype("int32").reshape(-1, 20)
        key = f"{test}/inputs/token_type_ids"
        segments = golden[key].astype("int32").reshape(-1, 20) if key in golden else ids * 0
        return {"token_ids": ids, "segment_ids": segments, "padding_mask": (ids != 0).astype("int32")}

    for test in ("test_for_mlm", "test_for_mlm_with_padding"):
        model = keras_bert.create(
            keras_bert.BertConfig.from_dict({**values, "pooler": False}), head="masked_language_model"
        ).model
        keras_bert.checkpoint.assign.assign_weights(model, weights(test))
        x = features(test)
        logits = model({**x, "masked_positions": np.tile(np.arange(20, dtype="int32"), (3, 1))})
        real = x["padding_mask"][..., None]
        assert largest(logits * real, golden[f"{test}/outputs/logits"] * real) <= TOLERANCE
        labels = golden[f"{test}/inputs/target_labels"]
        labels = np.where((labels >= 0) & (real[..., 0] > 0) & (labels != 0), labels, -100)
        assert abs(cross_entropy(logits, labels) - golden[f"{test}/outputs/loss"]) <= TOLERANCE

    for test in (
        "test_sequence_classification_2",
        "test_sequence_classification_3",
        "test_sequence_binary_classification",
    ):
        arrays, logits = weights(test), golden[f"{test}/outputs/logits"]
        labels = [str(i) for i in range(logits.shape[1])]
        model = keras_bert.create(config, head="sequence_classifier", labels=labels).model
        keras_bert.checkpoint.assign.assign_weights(model, arrays)
        ours = np.asarray(model(features(test)), "float64")
        assert largest(ours, logits) <= TOLERANCE
        targets = golden[f"{test}/inputs/target_labels"]
        if "binary" in test:
            loss = (np.log1p(np.exp(ours)) - targets * ours).mean()
        else:
            loss = cross_entropy(ours, targets)
        assert abs(loss - golden[f"{test}/outputs/loss"]) <= TOLERANCE

    for test in ("test_sequence_classification_1", "test_multiple_choice_classification"):
        arrays = weights(test)
        kernel, bias = arrays.pop("logits/kernel"), arrays.pop("logits/bias")
        encoder = keras_bert.build_encoder(config)
        keras_bert.checkpoint.assign.assign_weights(encoder, arrays)
        logits = golden[f"{test}/outputs/logits"]
        pooled = np.asarray(encoder(features(test))["pooled_output"])
        assert largest((pooled @ kernel + bias).reshape(logits.shape), logits) <= TOLERANCE


def test_real_weights(minilm):
    arrays = np.load(shared_data("checkpoints/all_minilm_l6_v2_expected/expected.npz"))
    texts = json.loads(shared_data("checkpoints/all_minilm_l6_v2_expected/texts.json").read_text())["texts"]
    encoder = keras_bert.load(minilm, head="encoder")
    assert (encoder.head, encoder.report.fresh, encoder.report.unused) == (None, [], [])
    features = encoder.tokenizer(texts)
    for ours, theirs in (("token_ids", "input_ids"), ("padding_mask", "attention_mask")):
        assert np.array_equal(features[ours], arrays[f"input/{theirs}"])
    outputs = encoder.model(features)
    real = features["padding_mask"][..., None]
    assert largest(outputs["sequence_output"] * real, arrays["output/last_hidden_state"] * real) <= 2e-5
    assert largest(outputs["pooled_output"], arrays["output/pooler_output"]) <= 2e-5
    embedder = keras_bert.load(minilm)
    assert (embedder.head, embedder.max_length) == ("sentence_embedder", 256)
    assert embedder.options == {"pooling": "mean", "normalize": True}
    assert largest(keras_bert.predict(embedder, texts), arrays["output/sentence_embedding"]) <= 2e-5


@pytest.mark.slow
def test_sts_benchmark_without_training(minilm):
    from scipy.stats import spearmanr

    rows = [line.split("\t") for line in shared_data("stsb/test.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    embedder = keras_bert.load(minilm)
    first, second = (keras_bert.predict(embedder, [row[i] for row in rows]) for i in (7, 8))
    assert round(spearmanr((first * second).sum(-1), [float(row[9]) for row in rows]).statistic, 4) == 0.8203


@pytest.mark.parametrize("head", list(FAMILIES["bert"].architectures))
def test_what_is_saved_is_loaded(head, tmp_path):
    options = {"pooling": "max", "normalize": False} if head == "sentence_embedder" else {}
    bundle = tiny_bundle(head, **options)
    keras_bert.save(bundle, tmp_path / "model")
    again = keras_bert.load(tmp_path / "model")
    assert (again.head, again.labels, again.options) == (bundle.head, bundle.labels, bundle.options)
    assert (again.report.fresh, again.report.unused, again.report.ignored) == ([], [], [])
    assert again.tokenizer.vocab == bundle.tokenizer.vocab
    theirs = {weight.path: np.asarray(weight.value) for weight in again.model.weights}
    assert len(theirs) == len(bundle.model.weights)
    for weight in bundle.model.weights:
        assert np.array_equal(weight.value, theirs[weight.path]), weight.path


def test_old_names_give_the_same_weights(tmp_path):
    bundle = tiny_bundle("pretraining_model")
    keras_bert.save(bundle, tmp_path / "model")
    arrays = load_file(tmp_path / "model" / "model.safetensors")
    old = {}
    for name, array in arrays.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[name.removeprefix("bert.")] = array
    old["embeddings.position_ids"] = np.arange(40)
    old["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
    old["cls.predictions.decoder.bias"] = old.pop("cls.predictions.bias")
    save_file(old, tmp_path / "model" / "model.safetensors")
    again = keras_bert.load(tmp_path / "model")
    features = {**tiny_features(bundle.config), "masked_positions": np.array([[1], [0], [2]], "int32")}
    for ours, theirs in zip(*(keras.tree.flatten(b.model(features)) for b in (bundle, again)), strict=True):
        assert largest(ours, theirs) == 0


def test_new_head_is_fresh_and_named(tmp_path):
    keras_bert.save(tiny_bundle("masked_language_model"), tmp_path / "model")
    bundle = keras_bert.load(tmp_path / "model", new_head="sequence_classifier", labels=["no", "yes"])
    assert bundle.report.fresh == ["pooler/kernel", "pooler/bias", "logits/kernel", "logits/bias"]
    assert all(name.startswith("cls.") for name in bundle.report.unused)
    assert len(bundle.report.unused) == 5
    fresh = {weight.path: np.asarray(weight.value) for weight in bundle.model.weights}
    assert 0 < np.abs(fresh["pooler/kernel"]).max() < 0.05
    assert 0 < np.abs(fresh["logits/kernel"]).max() < 0.05


def test_new_head_does_not_take_the_old_heads_weights(tmp_path):
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    bundle = keras_bert.load(tmp_path / "model", new_head="sequence_classifier", labels=["no", "yes"])
    assert bundle.report.fresh == ["logits/kernel", "logits/bias"]
    assert bundle.model.output_shape == (None, 2)


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "model"
    keras_bert.save(tiny_bundle("sequence_classifier"), folder)
    return folder


def edit_arrays(folder, change):
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")


def edit_config(folder, **changes):
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**values, **changes}), encoding="utf-8")


def sentence(folder, **arguments):
    with pytest.raises(ValueError) as error:
        keras_bert.load(folder, **arguments)
    text = str(error.value).replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def test_missing_weight(saved):  # P13
    edit_arrays(saved, lambda arrays: arrays.pop("classifier.bias"))
    assert sentence(saved) == (
        "FOLDER does not hold all of sequence_classifier: without an array are ['logits/bias']. "
        "A head that the file does not hold is asked for by `new_head`."
    )


def test_missing_encoder_weight_is_no_fresh_one(saved):
    edit_arrays(saved, lambda arrays: arrays.pop("bert.encoder.layer.1.output.dense.bias"))
    assert "without an array are ['layer_1/output/bias']" in sentence(saved, new_head="sentence_embedder")


def test_misshapen_weight(saved):  # P13
    def change(arrays):
        arrays["bert.pooler.dense.weight"] = np.zeros((12, 13), "float32")

    edit_arrays(saved, change)
    assert sentence(saved) == "The shapes do not match: pooler/kernel must be (12, 12), got (13, 12)."


def test_unknown_weight(saved):
    edit_arrays(
        saved, lambda arrays: arrays.update({"bert.encoder.layer.2.output.dense.bias": np.zeros(12, "float32")})
    )
    assert "FOLDER holds 1 weights that no part of this model has: encoder.layer.2.output.dense.bias" in sentence(saved)


def test_head_that_the_file_does_not_hold(saved):
    assert "does not hold all of masked_language_model" in sentence(saved, head="masked_language_model")
    keras_bert.save(tiny_bundle(None), saved)
    assert sentence(saved, head="sequence_classifier").startswith("FOLDER does not hold a sequence_classifier.")


def test_other_number_of_labels(saved):  # P13
    text = sentence(saved, head="sequence_classifier", labels=["a", "b"])
    assert (
        text
        == "The shapes do not match: logits/kernel must be (12, 2), got (12, 3); logits/bias must be (2,), got (3,)."
    )


def test_vocabulary_longer_than_the_embedding(saved):
    with open(saved / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("more\n")
    (saved / "tokenizer.json").unlink()
    assert sentence(saved) == (
        f"vocab.txt has {len(VOCAB) + 1} tokens, the embedding has {len(VOCAB)} rows. "
        "Use the vocab.txt that came with these weights."
    )


def test_config_that_is_wrong(saved):
    edit_config(saved, model_type="gpt2")
    assert sentence(saved) == (
        "The model type 'gpt2' in FOLDER/config.json is not supported; "
        "supported: bert, roberta, distilbert, albert, electra."
    )
    edit_config(saved, model_type="bert", hidden_sise=12)
    assert sentence(saved) == "Unknown key `hidden_sise` in FOLDER/config.json. Did you mean `hidden_size`?"
    (saved / "config.json").write_text("{", encoding="utf-8")
    assert sentence(saved).startswith("FOLDER/config.json is not JSON in UTF-8:")
    (saved / "config.json").unlink()
    assert sentence(saved) == "FOLDER/config.json is missing."


def test_broken_safetensors(saved):
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    for broken in (whole[:-100], b"", b"\xff" * 100, whole[:8] + b"{" * 50 + whole[58:]):
        file.write_bytes(broken)
        assert sentence(saved).startswith("FOLDER/model.safetensors is not a whole safetensors file:")
    file.unlink()
    assert sentence(saved).startswith("FOLDER has none of model.safetensors, ")


def test_no_folder(tmp_path):
    assert sentence(tmp_path / "nowhere").startswith("FOLDER is not a folder.")


def test_unknown_head_and_option(saved):
    assert "Unknown head `sequence_clasifier`. Did you mean `sequence_classifier`?" in sentence(
        saved, head="sequence_clasifier"
    )
    assert sentence(saved, new_head="sentence_embedder", pooing="max") == (
        "`sentence_embedder` takes no option `pooing`. Did you mean `pooling`?"
    )
    assert "needs at least two different labels" in sentence(saved, new_head="sequence_classifier")
    assert "`masked_language_model` has no labels" in sentence(
        saved, new_head="masked_language_model", labels=["a", "b"]
    )


def test_interrupted_save_leaves_the_old_folder(saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def stop(*_, **__):
        raise KeyboardInterrupt

    other = tiny_bundle("sequence_classifier", seed=1)
    monkeypatch.setattr(keras_bert.Tokenizer, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        keras_bert.save(other, saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_failed_assignment_changes_no_weight():
    model = randomize(keras_bert.build_encoder(tiny_config()))
    arrays = {weight.path: np.zeros(weight.shape, "float32") for weight in model.weights}
    arrays["pooler/bias"] = np.zeros(13, "float32")
    before = [np.asarray(weight.value) for weight in model.weights]
    with pytest.raises(ValueError, match="pooler/bias must be"):
        keras_bert.checkpoint.assign.assign_weights(model, arrays)
    arrays["pooler/bais"] = arrays.pop("pooler/bias")
    with pytest.raises(ValueError) as error:
        keras_bert.checkpoint.assign.assign_weights(model, arrays)
    assert str(error.value) == (
        "The names do not match. Without an array: ['pooler/bias']. Without a weight: ['pooler/bais']."
    )
    assert all(np.array_equal(a, b.value) for a, b in zip(before, model.weights, strict=True))


def test_saving_over_a_file_is_refused(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(ValueError, match="is a file; a folder is written here"):
        keras_bert.save(tiny_bundle(None), tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"


def test_labels_are_kept(saved):
    assert keras_bert.load(saved).labels == LABELS
    renamed = keras_bert.load(saved, labels=["坏", "中", "好"])
    shutil.rmtree(saved)
    keras_bert.save(renamed, saved)
    assert keras_bert.load(saved).labels == ["坏", "中", "好"]


def test_another_kind_of_tokenizer_is_named_and_ids_still_work(saved):
    (saved / "vocab.txt").unlink()
    described = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    described["normalizer"] = {"type": "Lowercase"}
    (saved / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    bundle = keras_bert.load(saved)
    assert bundle.tokenizer is None
    reason = "its tokenizer is not BERT's: `normalizer` in tokenizer.json must be BertNormalizer, got Lowercase."
    assert bundle.report.no_tokenizer == reason
    assert len(keras_bert.predict(bundle, {"token_ids": np.array([[2, 5, 3]])})) == 1
    with pytest.raises(ValueError, match="`predict` needs a tokenizer for texts, but its tokenizer is not BERT's"):
        keras_bert.predict(bundle, ["hello"])
