import io
import json
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import keras_bert
from keras_bert.export import agreement, export, metadata, tflite
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config

LENGTH = 16
TEXTS = ["hello world", "a good film, a bad world!", "the film " * 30, "Good  FILM .", "", "worlds zebra"]


@pytest.fixture(scope="module")
def classifier():
    bundle = tiny_bundle("sequence_classifier")
    return bundle, metadata.attach(plain(bundle), bundle)


def plain(bundle, changes=()):
    """The file before its metadata; `changes` are other specs by name."""
    function, specs = tflite._function(bundle, {"inputs": "mediapipe", "length": LENGTH, "chars": 4})
    return tflite.convert(function, {**specs, **dict(changes)}, bundle.model.weights)


def test_contract_is_kept_and_read_back(classifier):  # P30, P33, P37
    _, content = classifier
    found = metadata.check(content)
    assert sorted(found["inputs"]) == ["ids", "mask", "segment_ids"]
    assert (found["outputs"], found["length"]) == (["probabilities"], LENGTH)
    assert found["files"] == {"vocab.txt": list(VOCAB), "labels.txt": LABELS}
    # each name stands at the tensor of the signature's input
    model = schema.Model.GetRootAs(content, 0)
    signature = model.SignatureDefs(0)
    tensors = {signature.Inputs(i).Name().decode(): signature.Inputs(i).TensorIndex() for i in range(3)}
    order = [tensors[name] for name in ("token_ids", "padding_mask", "segment_ids")]
    named = dict(zip(found["inputs"], model.Subgraphs(0).InputsAsNumpy().tolist(), strict=True))
    assert [named[name] for name in ("ids", "mask", "segment_ids")] == order


def without_metadata(content):
    return content.replace(b"TFLITE_METADATA", b"TFLITE_METADATE")


def with_windows_lines(content):
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed) as archive:
        start, files = min(item.header_offset for item in archive.infolist()), archive.namelist()
        lines = {name: archive.read(name).replace(b"\n", b"\r\n") for name in files}
    changed = io.BytesIO(content[:start])
    with zipfile.ZipFile(changed, "a") as archive:
        for name, text in lines.items():
            archive.writestr(name, text)
    return changed.getvalue()


def without_labels(content):
    return content.replace(b"labels.txt", b"labels.tsv", 1)  # the name in the metadata, not the file


@pytest.mark.parametrize(
    ("broken", "clause"),
    [
        (without_metadata, "hold metadata once, got 0"),
        (with_windows_lines, "end the lines of vocab.txt with LF alone"),
        (without_labels, "have vocab.txt, labels.tsv attached"),
        (lambda content: content.replace(b"segment_ids\0", b"segment_idx\0"), "name ids, mask, segment_ids"),
        (lambda content: content.replace(b"M001", b"M009"), "hold metadata of the schema M001"),
    ],
)
def test_broken_clause_is_named(broken, clause, classifier):  # P33
    _, content = classifier
    changed = broken(content)
    assert changed != content
    with pytest.raises(ValueError, match=rf"^A file for MediaPipe must {clause}"):
        metadata.check(changed)


@pytest.mark.parametrize(
    ("specs", "clause"),
    [
        ({"x": [1, 4], "y": [1, 4]}, "have three inputs, got 2"),
        ({"x": [1, 4], "y": [1, 4], "z": [1, 5]}, r"have inputs of one shape \[1, T\]"),
        ({"x": [2, 4], "y": [2, 4], "z": [2, 4]}, r"have inputs of one shape \[1, T\]"),
        ({"x": [1, None], "y": [1, None], "z": [1, None]}, r"have inputs of one shape \[1, T\]"),
    ],
)
def test_wrong_inputs_are_named(specs, clause):  # P33
    specs = {name: tf.TensorSpec(shape, tf.int32, name=name) for name, shape in specs.items()}
    content = tflite.convert(lambda **inputs: {"out": sum(tf.reduce_sum(x) for x in inputs.values())}, specs, [])
    with pytest.raises(ValueError, match=clause):
        metadata.check(content)


def test_int64_is_named():  # P33
    specs = {name: tf.TensorSpec([1, 4], tf.int64, name=name) for name in "xyz"}
    content = tflite.convert(lambda x, y, z: {"out": x + y + z}, specs, [])
    with pytest.raises(ValueError, match="have int32 inputs"):
        metadata.check(content)


@pytest.mark.parametrize(
    ("head", "settings", "reason"),
    [
        ("token_classifier", {}, "must be one of sequence_classifier, sentence_embedder, got token_classifier"),
        ("sequence_classifier", {"lowercase": False}, "must be uncased, since MediaPipe lowers every text"),
        ("sequence_classifier", {"vocab": VOCAB[1:] + VOCAB[:1]}, r"must have \[PAD\] as token 0"),
        ("sequence_classifier", None, "must have a WordPiece tokenizer"),
    ],
)
def test_model_that_does_not_fit_is_refused(head, settings, reason, tmp_path):
    tokenizer = None if settings is None else keras_bert.Tokenizer(**{"vocab": VOCAB, **settings})
    bundle = keras_bert.create(tiny_config(), tokenizer, head, LABELS if "classifier" in head else None)
    with pytest.raises(ValueError, match=rf"^A model for MediaPipe {reason}"):
        export(bundle, tmp_path / "out", "tflite", inputs="mediapipe")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("head", ["sequence_classifier", pytest.param("sentence_embedder", marks=pytest.mark.slow)])
def test_file_answers_like_the_model(head, tmp_path):
    bundle = tiny_bundle(head)
    texts = [*TEXTS, "hello\u3000world"]  # no blank to MediaPipe
    report = export(bundle, tmp_path / "out", "tflite", inputs="mediapipe", max_length=LENGTH, evaluation=texts)
    assert report["largest_difference"] <= 1e-4
    assert report["evaluation"]["probes"] == len(texts)
    unlike = {"text": texts[-1], "ours": ["hello", "world"], "mediapipe": ["[UNK]"]}
    assert report["mediapipe_tokens"] == {"texts": len(texts), "differ": 1, "examples": [unlike]}
    name = metadata.OUTPUTS[head]
    run = tflite.load(tmp_path / "out")
    features = bundle.tokenizer(["a good film"], max_length=LENGTH)
    features = tflite._padded(features, LENGTH)
    (expected,) = keras_bert.predict(bundle, ["a good film"])
    expected = expected if head == "sentence_embedder" else list(expected["probabilities"].values())
    answer = run("serving_default", features)
    assert answer.keys() == {name}
    np.testing.assert_allclose(answer[name][0], expected, rtol=0, atol=2e-6)  # measured 2e-7


@pytest.mark.slow
def test_family_without_segments_has_three_inputs(tmp_path):  # P33
    config = tiny_config(model_type="distilbert", type_vocab_size=0, pooler=False, classifier_act="relu")
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "sequence_classifier", LABELS)
    randomize(bundle.model)
    export(bundle, tmp_path / "out", "tflite", inputs="mediapipe", max_length=LENGTH)
    found = metadata.check((tmp_path / "out" / tflite.FILE).read_bytes())
    assert sorted(found["inputs"]) == ["ids", "mask", "segment_ids"]


def asked_by_mediapipe(head, file, texts):
    """What MediaPipe's own task says to the texts, in a process of its own; skips where there is no mediapipe."""
    python = os.environ.get("KERAS_BERT_MEDIAPIPE")
    if not python:
        pytest.skip("needs KERAS_BERT_MEDIAPIPE, a Python with mediapipe")
    command = [python, "-I", str(Path(__file__).with_name("witness_mediapipe.py")), head, str(file)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["sequence_classifier", "sentence_embedder"])
def test_mediapipe_loads_and_agrees(head, tmp_path):
    bundle, out = tiny_bundle(head), tmp_path / "out"
    export(bundle, out, "tflite", inputs="mediapipe", max_length=LENGTH)
    expected = keras_bert.predict(bundle, TEXTS, max_length=LENGTH)
    answers = asked_by_mediapipe(head, out / tflite.FILE, TEXTS)
    for text, answer, row in zip(TEXTS, answers, expected, strict=True):
        if head == "sequence_classifier":
            assert answer.keys() == row["probabilities"].keys()
            answer, row = ([values[label] for label in LABELS] for values in (answer, row["probabilities"]))
        np.testing.assert_allclose(answer, row, rtol=0, atol=1e-3, err_msg=text)


@pytest.mark.slow
def test_mediapipe_agrees_on_genuine_weights(minilm, tmp_path):
    bundle, texts = keras_bert.load(minilm), [text for text in agreement.TEXTS if text.isascii()]
    assert len(texts) > 25  # elsewhere MediaPipe keeps accents and splits otherwise
    export(bundle, tmp_path / "out", "tflite", inputs="mediapipe", max_length=64)
    answers = asked_by_mediapipe("sentence_embedder", tmp_path / "out" / tflite.FILE, texts)
    np.testing.assert_allclose(answers, keras_bert.predict(bundle, texts, max_length=64), rtol=0, atol=1e-3)
