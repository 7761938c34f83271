"""Google's TF1 checkpoints: genuine ones, every naming style, round trips bit for bit, one sentence for faults."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.checkpoint import google, tensorflow_files
from tests.checkpoint.golden import expected, largest, outputs, unpack
from tests.conftest import shared_data
from tests.models import randomize, tiny_bundle, tiny_config, tiny_features

TOLERANCE = 1e-5  # measured 1e-6


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    return unpack("google.zip", tmp_path_factory.mktemp("google"))


@pytest.fixture
def copied(genuine, tmp_path):
    return shutil.copytree(genuine / "pretraining", tmp_path / "model")


def arrays_of(folder):
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if "adam_" not in name and name != "global_step"}


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert array.dtype == ours[name].dtype
        assert np.array_equal(ours[name], array), name


def write(bundle, folder, **options):
    folder.mkdir()
    google.write(bundle, folder, **options)
    return folder


def test_pretraining_model_of_google(genuine):
    bundle = keras_bert.load(genuine / "pretraining")
    assert (bundle.head, bundle.config.hidden_act) == ("pretraining_model", "gelu_new")
    assert (bundle.report.fresh, bundle.report.unused) == ([], [])
    assert bundle.report.ignored == ["global_step", "92 optimizer slots"]
    features, theirs = expected(genuine / "pretraining")
    ours = outputs(bundle, features)
    for name in ("mlm_logits", "nsp_logits"):
        assert largest(ours[name], theirs[name]) <= TOLERANCE
    encoder = outputs(keras_bert.load(genuine / "pretraining", head="encoder"), features)
    real = features["padding_mask"][..., None]
    assert largest(encoder["sequence_output"] * real, theirs["sequence_output"] * real) <= TOLERANCE
    assert largest(encoder["pooled_output"], theirs["pooled_output"]) <= TOLERANCE


def test_the_gelu_of_google_is_visible(genuine, tmp_path):
    bundle = keras_bert.load(genuine / "pretraining")
    keras_bert.save(bundle, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(file.read_text().replace("gelu_new", "gelu"))
    features, theirs = expected(genuine / "pretraining")
    exact = outputs(keras_bert.load(tmp_path / "model"), features)
    assert largest(exact["mlm_logits"], theirs["mlm_logits"]) > 20 * TOLERANCE


def test_classifier_of_google(genuine):
    bundle = keras_bert.load(genuine / "classifier")
    assert (bundle.head, bundle.labels) == ("sequence_classifier", ["LABEL_0", "LABEL_1", "LABEL_2"])
    features, theirs = expected(genuine / "classifier")
    assert largest(outputs(bundle, features)["logits"], theirs["logits"]) <= TOLERANCE


def test_albert_of_google(genuine):
    bundle = keras_bert.load(genuine / "albert")
    assert (bundle.head, bundle.config.model_type, bundle.report.unused) == ("pretraining_model", "albert", [])
    assert (bundle.config.embedding_size, bundle.config.shared_layers, bundle.config.hidden_act) == (
        8,
        True,
        "gelu_new",
    )
    features, theirs = expected(genuine / "albert")
    ours = outputs(bundle, features)
    for name in ("mlm_logits", "nsp_logits"):
        assert largest(ours[name], theirs[name]) <= TOLERANCE


def test_case_is_told_by_the_vocabulary(genuine, tmp_path):
    assert keras_bert.load(genuine / "classifier").tokenizer.lowercase is False
    copy = shutil.copytree(genuine / "classifier", tmp_path / "model")
    (copy / "vocab.txt").write_text((copy / "vocab.txt").read_text().replace("The", "the").replace("Bad", "bad"))
    assert keras_bert.load(copy).tokenizer.lowercase is True


def test_the_spiece_model_of_an_albert(genuine, tmp_path):
    data = shared_data("vocab/albert-german-30k") / "spiece.model"
    copy = shutil.copytree(genuine / "albert", tmp_path / "model")
    for vocabulary in copy.glob("vocab*"):
        vocabulary.unlink()
    shutil.copy(data, copy / "30k-clean.model")
    tokenizer = google.read_tokenizer(copy)
    assert (tokenizer.family, tokenizer.vocab_size) == ("albert", 30000)
    with pytest.raises(ValueError, match=r"^vocab.txt has 30000 tokens, the embedding has \d+ rows"):
        keras_bert.load(copy)  # this vocabulary is not that model's


def test_a_checkpoint_by_its_prefix_and_among_others(genuine, tmp_path):
    folder = shutil.copytree(genuine / "classifier", tmp_path / "model")
    for step in (10, 20):
        for end in ("index", "data-00000-of-00001"):
            shutil.copy(folder / f"bert_model.ckpt.{end}", folder / f"model.ckpt-{step}.{end}")
    assert keras_bert.load(folder / "model.ckpt-10").report.loaded
    with pytest.raises(ValueError, match=r"holds 3 checkpoints: bert_model.ckpt, model.ckpt-10, .*Give one: "):
        keras_bert.load(folder)
    (folder / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-20"\n')
    assert keras_bert.load(folder).report.loaded


def test_shared_checkpoint():
    folder = shared_data("checkpoints/google_tf1_tiny")
    arrays = np.load(folder / "expected.npz")
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    features = {ours: arrays[f"input/{theirs}"] for ours, theirs in names.items()}
    features["masked_positions"] = np.tile(np.arange(8), (3, 1))
    ours, real = outputs(keras_bert.load(folder), features), features["padding_mask"][..., None]
    # expected with exact gelu: these weights are so small that the two agree
    assert largest(ours["mlm_logits"] * real, arrays["output/prediction_logits"] * real) <= TOLERANCE
    assert largest(ours["nsp_logits"], arrays["output/seq_relationship_logits"]) <= TOLERANCE


STYLES = {
    "module": lambda name: f"module/{name}",
    "no prefix": lambda name: name.removeprefix("bert/"),
    "layer_normalization": lambda name: name.replace("LayerNorm", "layer_normalization"),
    "numbered": lambda name: name.replace("LayerNorm", "layer_normalization_3"),
}


@pytest.mark.parametrize("style", STYLES)
def test_names_of_tensorflow(style, genuine, copied):
    arrays = {STYLES[style](name): array for name, array in arrays_of(copied).items()}
    tensorflow_files.write(copied / "bert_model.ckpt", arrays)
    features, _ = expected(copied)
    ours, theirs = (outputs(keras_bert.load(folder), features) for folder in (copied, genuine / "pretraining"))
    assert all(largest(ours[name], theirs[name]) == 0 for name in theirs)


@pytest.mark.parametrize("style", ["gamma", "no prefix"])
def test_names_of_hugging_face(style, genuine, tmp_path):
    bundle = keras_bert.load(genuine / "pretraining")
    keras_bert.save(bundle, tmp_path / "model")
    file, arrays = tmp_path / "model" / "model.safetensors", {}
    for name, array in load_file(file).items():
        if style == "gamma":
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        arrays[name if style == "gamma" else name.removeprefix("bert.")] = array
    save_file(arrays, file)
    features, _ = expected(genuine / "pretraining")
    ours, theirs = (outputs(made, features) for made in (keras_bert.load(tmp_path / "model"), bundle))
    assert all(largest(ours[name], theirs[name]) == 0 for name in theirs)


@pytest.mark.parametrize("name", ["pretraining", "classifier", "albert"])
def test_google_ours_google(name, genuine, tmp_path):
    bundle = keras_bert.load(genuine / name)
    again = write(bundle, tmp_path / "again")
    assert_equal(arrays_of(again), arrays_of(genuine / name))
    file = "albert_config.json" if name == "albert" else "bert_config.json"
    ours, theirs = (json.loads((folder / file).read_text()) for folder in (again, genuine / name))
    assert {key: ours[key] for key in theirs if key in ours} == {key: theirs[key] for key in theirs if key in ours}
    assert theirs.keys() - ours.keys() <= {"down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"}
    assert (again / "vocab.txt").read_bytes() == (genuine / name / "vocab.txt").read_bytes()


HEADS = [None, *(head for head in keras_bert.HEADS if head != "replaced_token_detector")]


ALBERT = {"model_type": "albert", "embedding_size": 8, "shared_layers": True, "num_hidden_layers": 3}


@pytest.mark.parametrize(
    ("family", "head"), [*(({}, head) for head in HEADS), (ALBERT, "pretraining_model"), (ALBERT, "token_classifier")]
)
def test_hugging_face_ours_google_ours_hugging_face(family, head, tmp_path):
    labels = ["no", "yes"] if head is not None and keras_bert.HEADS[head].labelled else None
    tokenizer = tiny_bundle(None).tokenizer
    bundle = keras_bert.create(tiny_config(hidden_act="gelu_pytorch_tanh", **family), tokenizer, head, labels)
    randomize(bundle.model)
    keras_bert.save(bundle, tmp_path / "first")
    first = keras_bert.load(tmp_path / "first")
    middle = keras_bert.load(write(first, tmp_path / "google"))
    assert (middle.head, middle.labels, middle.options) == (head, labels, first.options)
    assert middle.tokenizer.vocab == tokenizer.vocab
    keras_bert.save(middle, tmp_path / "last")
    assert_equal(*(load_file(tmp_path / name / "model.safetensors") for name in ("first", "last")))


def test_exact_gelu_is_refused(tmp_path):
    bundle = tiny_bundle("masked_language_model")
    with pytest.raises(ValueError, match=r"^Google's TF1 code computes the tanh form of gelu and this model has the "):
        write(bundle, tmp_path / "model")
    again = keras_bert.load(write(bundle, tmp_path / "asked", allow_activation_change=True))
    features = {**tiny_features(bundle.config), "masked_positions": np.array([[1], [0], [0]])}
    ours, theirs = (outputs(made, features)["logits"] for made in (bundle, again))
    assert TOLERANCE < largest(ours, theirs) < 0.1
    for weight, other in zip(bundle.model.weights, again.model.weights, strict=True):
        assert np.array_equal(weight.value, other.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layer_norm_eps": 1e-5}, "Google's TF1 code has a `layer_norm_eps` of 1e-12, this model has 1e-05."),
        ({"model_type": "electra"}, "Google's TF1 code has no electra; it has bert and albert."),
    ],
)
def test_what_google_has_not(changes, sentence, tmp_path):
    bundle = keras_bert.create(tiny_config(hidden_act="gelu_new", **changes))
    with pytest.raises(ValueError) as error:
        write(bundle, tmp_path / "model")
    assert str(error.value) == sentence


def test_a_module_of_tensorflow_hub(genuine, copied, tmp_path):
    """TF1's hub modules are SavedModels with Google's names; they do not tell the number of attention heads."""
    (tmp_path / "hub" / "variables").mkdir(parents=True)
    (tmp_path / "hub" / "assets").mkdir()
    (tmp_path / "hub" / "saved_model.pb").write_bytes(b"")
    shutil.copy(copied / "vocab.txt", tmp_path / "hub" / "assets")
    arrays = {f"module/{name}": array for name, array in arrays_of(copied).items()}
    tensorflow_files.write(tmp_path / "hub" / "variables" / "variables", arrays)
    assert refused(tmp_path / "hub") == "FOLDER must hold bert_config.json beside its checkpoint, got none."
    shutil.copy(copied / "bert_config.json", tmp_path / "hub")
    features, _ = expected(copied)
    bundle = keras_bert.load(tmp_path / "hub")
    assert bundle.tokenizer.vocab_size == 19
    ours, theirs = (outputs(made, features) for made in (bundle, keras_bert.load(genuine / "pretraining")))
    assert all(largest(ours[name], theirs[name]) == 0 for name in theirs)


def refused(folder):
    with pytest.raises(ValueError) as error:
        keras_bert.load(folder)
    text = str(error.value).replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def edit_config(folder, **changes):
    file = folder / "bert_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_no_model(tmp_path):
    assert refused(tmp_path) == (
        "FOLDER holds no model: neither config.json (Hugging Face, KerasHub), nor bert_config.json or a checkpoint's "
        ".index (Google, Model Garden), nor saved_model.pb (TF Hub)."
    )


def test_missing_data(copied):
    (copied / "bert_model.ckpt.data-00000-of-00001").unlink()
    assert refused(copied) == "FOLDER lacks the data of the checkpoint bert_model.ckpt: bert_model.ckpt.data-*."


def test_missing_shard(copied):
    file = copied / "bert_model.ckpt.data-00000-of-00001"
    file.rename(copied / "bert_model.ckpt.data-00001-of-00002")
    assert refused(copied) == "FOLDER lacks 1 of 2 shards: bert_model.ckpt.data-00000-of-00002."


def test_cut_data(copied):
    file = copied / "bert_model.ckpt.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:1000])
    assert refused(copied).startswith("bert/encoder/layer_0/") or "cannot be read from FOLDER" in refused(copied)


def test_broken_index(copied):
    (copied / "bert_model.ckpt.index").write_bytes(b"not a table" * 20)
    assert refused(copied).startswith("FOLDER/bert_model.ckpt is not a whole TensorFlow checkpoint: ")


def test_no_checkpoint(copied):
    for file in copied.glob("bert_model.ckpt*"):
        file.unlink()
    assert refused(copied) == "FOLDER has bert_config.json but no checkpoint, such as bert_model.ckpt.index."


def test_no_config(copied):
    (copied / "bert_config.json").unlink()
    assert refused(copied) == "FOLDER must hold bert_config.json beside its checkpoint, got none."


def test_another_name_of_the_config(genuine, copied):
    (copied / "bert_config.json").rename(copied / "macbert_base_config.json")
    assert keras_bert.load(copied).config == keras_bert.load(genuine / "pretraining").config


def test_another_architecture(copied):
    edit_config(copied, use_bottleneck=True)
    assert refused(copied) == (
        "FOLDER/bert_config.json describes MobileBERT (it has `use_bottleneck`); of Google's checkpoints BERT, ALBERT "
        "and ELECTRA are read. Convert it to a Hugging Face folder first."
    )


def test_unknown_weights(copied):
    arrays = arrays_of(copied) | {"bert/encoder/layer_2/output/dense/bias": np.zeros(12, "float32")}
    tensorflow_files.write(copied / "bert_model.ckpt", arrays)
    assert refused(copied).startswith(
        "FOLDER holds 1 weights that no part of this model has: bert/encoder/layer_2/output/dense/bias. "
        "The nearest names to bert/encoder/layer_2/output/dense/bias: encoder.layer.1.output.dense.bias, "
    )


def test_contradicting_descriptions(copied):
    values = json.loads((copied / "bert_config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**values, "model_type": "bert", "num_attention_heads": 2}))
    assert refused(copied) == (
        "config.json and bert_config.json in FOLDER must agree, got 2 and 3 for `num_attention_heads`. "
        "Remove the one that is not this model's."
    )
