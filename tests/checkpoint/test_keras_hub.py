"""KerasHub's presets and live objects, in and out; the genuine library as witness where it is installed."""

import json
import shutil

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint import keras_hub
from tests.checkpoint.golden import expected, largest, outputs, unpack
from tests.models import tiny_bundle, tiny_config, tiny_features

TOLERANCE = 1e-5  # measured 2e-6


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    return unpack("keras_hub.zip", tmp_path_factory.mktemp("keras_hub"))


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("keras_hub", reason="needs keras_hub (the extra keras-nlp), which is not installed")


@pytest.fixture
def copied(genuine, tmp_path):
    return shutil.copytree(genuine / "classifier", tmp_path / "model")


TEXTS = ["Hello worlds, a good film", "É bad .", "a b c é"]


@pytest.mark.parametrize(
    ("name", "head"),
    [("backbone", None), ("classifier", "sequence_classifier"), ("embedder", "sentence_embedder")],
)
def test_presets(name, head, genuine):
    bundle = keras_bert.load(genuine / name)
    assert (bundle.head, bundle.config.hidden_act) == (head, "gelu_new")
    unused = ["pooler.dense.bias", "pooler.dense.weight"] if name == "embedder" else []
    assert (bundle.report.fresh, bundle.report.unused, bundle.report.ignored) == ([], unused, [])
    features, theirs = expected(genuine / name)
    ours = outputs(bundle, features)
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        real = features["padding_mask"][..., None] if array.ndim == 3 else 1
        assert largest(ours[key] * real, array * real) <= TOLERANCE, key
    made = bundle.tokenizer(TEXTS)
    length = made["token_ids"].shape[1]
    assert np.array_equal(made["token_ids"], features["token_ids"][:, :length])
    assert not features["padding_mask"][:, length:].any()


def test_masked_lm_preset_gives_its_encoder(genuine):
    bundle = keras_bert.load(genuine / "masked_lm")
    assert bundle.head is None
    assert bundle.report.ignored == ["the head of BertMaskedLM, which no head here computes"]
    with pytest.raises(ValueError, match="does not hold all of masked_language_model"):
        keras_bert.load(genuine / "masked_lm", head="masked_language_model")


def refused(folder):
    with pytest.raises(ValueError) as error:
        keras_bert.load(folder)
    text = str(error.value).replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_another_architecture(copied):
    edit(copied / "config.json", '"BertBackbone"', '"RobertaBackbone"')
    assert refused(copied) == "FOLDER/config.json describes a RobertaBackbone of KerasHub; supported: BertBackbone."


def test_config_without_a_size(copied):
    edit(copied / "config.json", "num_heads", "heads")
    assert refused(copied) == "FOLDER/config.json must say num_heads."


def test_missing_and_cut_weights(copied):
    file = copied / "model.weights.h5"
    file.write_bytes(file.read_bytes()[:20000])
    assert refused(copied).startswith("FOLDER/model.weights.h5 is not a whole HDF5 file: ")
    file.unlink()
    assert refused(copied) == "FOLDER/model.weights.h5 is missing."


def test_a_classifier_with_an_activation(copied):
    edit(copied / "task.json", '"activation": "linear"', '"activation": "softmax"')
    assert refused(copied) == '`activation` must be linear in FOLDER/task.json, got "softmax": logits are read.'


def test_extra_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "keras_hub", None)
    with pytest.raises(ImportError, match=r'^keras_hub is missing: pip install "keras3-bert\[keras-nlp\]"\.$'):
        keras_hub.write(keras_bert.create(tiny_config(hidden_act="gelu_new")), tmp_path)


def tanh_bundle(head):
    bundle = tiny_bundle(head)
    config = tiny_config(hidden_act="gelu_new")
    other = keras_bert.create(config, bundle.tokenizer, head, bundle.labels)
    for ours, theirs in zip(other.model.weights, bundle.model.weights, strict=True):
        ours.assign(theirs)
    return other


@pytest.mark.slow
@pytest.mark.parametrize("head", [None, "sequence_classifier", "sentence_embedder"])
def test_what_we_write_keras_hub_opens(head, library, tmp_path):
    bundle = tanh_bundle(head)
    keras_hub.write(bundle, tmp_path)
    kinds = {None: "Backbone", "sequence_classifier": "TextClassifier", "sentence_embedder": "TextEmbedder"}
    theirs = getattr(library.models, kinds[head]).from_preset(str(tmp_path))
    features = tiny_features(bundle.config)
    made = theirs(features)
    made = made if isinstance(made, dict) else {"logits": made}
    for name, array in outputs(bundle, features).items():
        assert largest(array, made[name]) <= TOLERANCE
    again = keras_bert.load(tmp_path)
    assert (again.head, again.labels, again.config) == (head, bundle.labels, bundle.config)
    for ours, other in zip(again.model.weights, bundle.model.weights, strict=True):
        assert np.array_equal(ours.value, other.value), ours.path
    tokenizer = library.models.Tokenizer.from_preset(str(tmp_path))
    texts = ["Hello worlds, é", "good films! 你好"]
    ids = [bundle.tokenizer.encode(text).ids[1:-1] for text in texts]
    assert [list(map(int, row)) for row in tokenizer(texts)] == [list(row) for row in ids]
    live = keras_bert.load(theirs)
    assert live.head == head
    for ours, other in zip(live.model.weights, bundle.model.weights, strict=True):
        assert np.array_equal(ours.value, other.value), ours.path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["backbone", "classifier"])
def test_preset_ours_preset(name, genuine, library, tmp_path):
    import h5py

    keras_hub.write(keras_bert.load(genuine / name), tmp_path)
    for file in genuine.glob(f"{name}/*.weights.h5"):
        arrays = []
        for path in (file, tmp_path / file.name):
            found = {}
            with h5py.File(path) as opened:
                opened.visititems(
                    lambda place, item, found=found: (
                        found.update({place: item[()]}) if isinstance(item, h5py.Dataset) else None
                    )
                )
            arrays.append({place: array for place, array in found.items() if not place.startswith("optimizer")})
        assert arrays[0].keys() == arrays[1].keys()
        assert all(np.array_equal(arrays[0][place], arrays[1][place]) for place in arrays[0])
    ours, theirs = (json.loads((folder / "config.json").read_text())["config"] for folder in (tmp_path, genuine / name))
    sizes = keras_hub.KEYS.values()
    assert {key: ours[key] for key in sizes} == {key: theirs[key] for key in sizes}


@pytest.mark.slow
def test_what_keras_hub_has_not(library, tmp_path):
    for bundle, sentence in (
        (tiny_bundle(None), "KerasHub computes the tanh form of gelu and this model has the exact one"),
        (tanh_bundle("masked_language_model"), "KerasHub has no masked_language_model that computes this one"),
        (keras_bert.create(tiny_config(hidden_act="gelu_new", pooler=False)), "KerasHub's BertBackbone has a pooler"),
    ):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            keras_hub.write(bundle, tmp_path)
    keras_hub.write(tiny_bundle(None), tmp_path, allow_activation_change=True)
    assert keras_bert.load(tmp_path).config.hidden_act == "gelu_new"
