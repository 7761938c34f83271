import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.export import export, saved_model
from keras_bert.export.saved_model import load
from keras_bert.export.server.rest import read_request
from keras_bert.export.server.versions import load_version
from keras_bert.tokenization import TextPreprocessor
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config, tiny_features

TEXTS = ["hello world", "", "  ", "a good film, a bad world!", "商务大床房", "é 😀", "a" * 5000, "the film " * 60]
PAIRS = TEXTS[::-1]

# Only tensorflow is imported: what the folder needs must be inside it and registered by TensorFlow itself.
FRESH = """
import json, sys
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

model = saved_model_pb2.SavedModel()
model.ParseFromString(open(sys.argv[1] + "/saved_model.pb", "rb").read())
graph = model.meta_graphs[0].graph_def
nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
functions = {function.signature.name for function in graph.library.function}
unknown = {node.op for node in nodes if op_def_registry.get(node.op) is None} - functions
loaded = tf.saved_model.load(sys.argv[1])
answers = loaded.signatures["serving_default"](text=tf.constant(["", "  ", b"\\xff\\xfe", "a" * 5000, "hello worlds!"]))
foreign = [name for name in sys.modules if name.split(".")[0] in ("keras_bert", "tensorflow_text", "tokenizers")]
print(json.dumps({
    "unknown": sorted(unknown),
    "foreign": foreign,
    "signatures": {
        name: [sorted(function.structured_input_signature[1]), sorted(function.structured_outputs)]
        for name, function in loaded.signatures.items()
    },
    "probabilities": answers["probabilities"].numpy().tolist(),
    "label": [label.decode() for label in answers["label"].numpy()],
}))
"""


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    bundle = tiny_bundle("sequence_classifier")
    path = tmp_path_factory.mktemp("classifier") / "served" / "1"
    report = export(bundle, path)
    return bundle, path, report, load(path)


def answered(run, texts, pairs=None):
    inputs = {"text": np.array([text.encode() for text in texts], object)}
    if pairs is not None:
        inputs["text_pair"] = np.array([text.encode() for text in pairs], object)
    return run("serving_default" if pairs is None else "serving_pair", inputs)


@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_strings_are_answered_as_predict_answers_them(classifier, pairs):
    bundle, _, _, run = classifier
    for texts in (TEXTS[:2], TEXTS[:3], TEXTS):
        rows = None if pairs is None else pairs[: len(texts)]
        answers, expected = answered(run, texts, rows), keras_bert.predict(bundle, texts, rows)
        assert [label.decode() for label in answers["label"]] == [row["label"] for row in expected]
        probabilities = np.array([[row["probabilities"][label] for label in LABELS] for row in expected])
        np.testing.assert_allclose(answers["probabilities"], probabilities, rtol=1e-6, atol=1e-7)  # measured 2e-7


@pytest.mark.slow
def test_embeddings_are_those_of_predict(tmp_path):
    bundle = tiny_bundle("sentence_embedder", pooling="max")
    export(bundle, tmp_path / "out", max_length=16)
    answers = answered(load(tmp_path / "out"), TEXTS)
    expected = keras_bert.predict(bundle, TEXTS, max_length=16)
    np.testing.assert_allclose(answers["embedding"], expected, rtol=0, atol=1e-6)  # measured 2e-7


@pytest.mark.parametrize(
    ("options", "stride"),
    [({}, 3), pytest.param({"multi_label": True}, 0, marks=pytest.mark.slow)],
)
def test_long_texts_are_answered_by_their_windows(options, stride, tmp_path):
    bundle = tiny_bundle("sequence_classifier", **options)
    report = export(bundle, tmp_path / "out", max_length=12, stride=stride)
    assert report["options"] == {"max_length": 12, "stride": stride}
    run = load(tmp_path / "out")
    texts = ["the film " * 9 + "bad, good! " * 200, *TEXTS]  # more windows than go through the model at a time
    for pairs in (None, [*PAIRS, "the bad film " * 30]):
        answers = answered(run, texts, pairs)["probabilities"]
        rows = keras_bert.predict(bundle, texts, pairs, max_length=12, stride=stride)
        expected = np.array([[row["probabilities"][label] for label in LABELS] for row in rows])
        np.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-6)
        cut = keras_bert.predict(bundle, texts[:1], pairs and pairs[:1], max_length=12)[0]["probabilities"]
        assert np.abs(list(cut.values()) - expected[0]).max() > 1e-4
    assert answered(run, [])["probabilities"].shape == (0, len(LABELS))


def test_windows_without_room_for_pairs(tmp_path):
    bundle = tiny_bundle("sequence_classifier")
    saved_model.write(bundle, tmp_path, max_length=12, stride=8)
    loaded = tf.saved_model.load(str(tmp_path))
    assert set(loaded.signatures) == {"serving_default", "serving_ids", "serving_ids_int64"}
    found = answered(load(tmp_path), TEXTS)["label"]
    rows = keras_bert.predict(bundle, TEXTS, max_length=12, stride=8)
    assert [label.decode() for label in found] == [row["label"] for row in rows]


def test_fresh_process_answers_with_core_operations_only(classifier):  # P21, P25, P27
    _, path, _, run = classifier
    done = subprocess.run([sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["unknown"] == []
    assert found["foreign"] == []
    assert np.isfinite(found["probabilities"]).all()
    assert found["probabilities"][0] == found["probabilities"][1] == found["probabilities"][2]
    ours = run("serving_default", {"text": np.array([b"", b"  ", b"\xff\xfe", b"a" * 5000, b"hello worlds!"], object)})
    np.testing.assert_allclose(found["probabilities"], ours["probabilities"], rtol=1e-6)
    assert found["label"] == [label.decode() for label in ours["label"]]
    ids = [["padding_mask", "segment_ids", "token_ids"], ["logits"]]
    assert found["signatures"] == {
        "serving_default": [["text"], ["label", "probabilities"]],
        "serving_pair": [["text", "text_pair"], ["label", "probabilities"]],
        "serving_ids": ids,
        "serving_ids_int64": ids,
    }


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory):
    bundle = keras_bert.create(tiny_config(max_position_embeddings=512), None, "sequence_classifier", LABELS)
    randomize(bundle.model)
    path = tmp_path_factory.mktemp("long")
    saved_model.write(bundle, path)
    return bundle, path


def test_ids_in(long_texts):  # P24, P25
    bundle, path = long_texts
    run = load(path)
    for batch, length in ((1, 3), (4, 17), (2, 512)):
        features = tiny_features(bundle.config, batch, length)
        logits = run("serving_ids", {name: ids.astype("int32") for name, ids in features.items()})["logits"]
        np.testing.assert_allclose(logits, bundle.model.predict_on_batch(features), rtol=1e-6, atol=1e-6)
        wide = run("serving_ids_int64", {name: ids.astype("int64") for name, ids in features.items()})["logits"]
        plain = run("serving_ids_int64", {name: np.array(ids.tolist()) for name, ids in features.items()})["logits"]
        np.testing.assert_array_equal(wide, logits)
        np.testing.assert_array_equal(plain, logits)


def test_segments_that_are_left_out_are_zeros(long_texts):  # P25
    bundle, path = long_texts
    signatures = load_version(path, 1).signatures
    features = tiny_features(bundle.config, 4, 17)
    columns = {"token_ids": features["token_ids"].tolist(), "padding_mask": features["padding_mask"].tolist()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = bundle.model.predict_on_batch({**features, "segment_ids": np.zeros((4, 17), "int32")})
    for name in ("serving_ids", "serving_ids_int64"):
        for body in ({"inputs": columns}, {"instances": rows}):
            _, given, _ = read_request(json.dumps({"signature_name": name, **body}).encode(), signatures)
            assert set(given) == set(columns)
            np.testing.assert_allclose(signatures[name].run(given)["logits"], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("signature", ["serving_ids", "serving_ids_int64"])
@pytest.mark.parametrize(
    ("name", "value", "length", "sentence"),
    [
        ("token_ids", len(VOCAB), 5, f"`token_ids` must be from 0 to {len(VOCAB) - 1}."),
        ("token_ids", -1, 5, f"`token_ids` must be from 0 to {len(VOCAB) - 1}."),
        ("segment_ids", 2, 5, "`segment_ids` must be from 0 to 1."),
        ("padding_mask", 2, 5, "`padding_mask` must be from 0 to 1."),
        ("token_ids", 1, 41, "`token_ids` has more than 40 tokens a text."),
    ],
)
def test_wrong_ids_are_refused(classifier, signature, name, value, length, sentence):  # P18
    bundle, _, _, run = classifier
    dtype = "int64" if signature.endswith("64") else "int32"
    features = {key: ids.astype(dtype) for key, ids in tiny_features(bundle.config, 2, length).items()}
    features[name][1, 2] = value
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence.replace(".", r"\.")):
        run(signature, features)


def test_a_batch_without_texts_has_no_answers(classifier):
    run = classifier[3]
    none = np.zeros(0, object)
    for signature, inputs in (("serving_default", {"text": none}), ("serving_pair", {"text": none, "text_pair": none})):
        answers = run(signature, inputs)
        assert {name: value.shape for name, value in answers.items()} == {
            "label": (0,),
            "probabilities": (0, len(LABELS)),
        }


def test_folder_is_small_and_holds_labels_and_vocabulary(classifier):  # P25
    bundle, path, report, _ = classifier
    weights = sum(weight.value.numpy().nbytes for weight in bundle.model.weights)
    files = [file for file in path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 1.05 * weights + 4e6
    assert (path / "assets" / "labels.txt").read_text().splitlines() == LABELS
    assert (path / "assets" / "vocab.txt").read_text(encoding="utf-8").splitlines() == VOCAB
    assert json.loads((path / "report.json").read_text()) == report
    places = [str(path.parent), str(Path(keras_bert.__file__).parents[1]), sys.prefix, "/tmp/", "/home/"]
    for file in files:
        content = file.read_bytes()
        assert not [place for place in places if place.encode() in content], file


def test_weights_stand_once(tmp_path):
    """One large weight: were it written twice, the limit would not hold."""
    bundle = keras_bert.create(tiny_config(vocab_size=200_000), head="sentence_embedder")
    randomize(bundle.model)
    report = export(bundle, tmp_path / "out")
    weights = sum(weight.value.numpy().nbytes for weight in bundle.model.weights)
    assert weights > 9e6
    assert report["bytes"] <= 1.05 * weights + 1e6


def test_a_model_of_strings_is_exported_by_keras_itself(tmp_path):  # P22
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    tokenizer = keras_bert.Tokenizer.from_vocab(tmp_path / "vocab.txt")
    bundle = keras_bert.create(tiny_config(), tokenizer, "sequence_classifier", LABELS)
    randomize(bundle.model)
    text = keras.Input((), dtype="string", name="text")
    model = keras.Model(text, bundle.model(TextPreprocessor(tokenizer, max_length=16)(text)))
    expected = model(tf.constant(TEXTS))
    model.export(tmp_path / "made", verbose=False)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "made").rename(tmp_path / "moved")
    loaded = tf.saved_model.load(str(tmp_path / "moved"))
    np.testing.assert_allclose(loaded.serve(tf.constant(TEXTS)), expected, rtol=0, atol=1e-6)


def test_moved_folder_still_answers(classifier, tmp_path):
    _, path, _, run = classifier
    moved = shutil.copytree(path, tmp_path / "elsewhere")
    again = answered(load(moved), TEXTS)
    np.testing.assert_array_equal(again["probabilities"], answered(run, TEXTS)["probabilities"])
