import importlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

import keras_bert
from keras_bert import HEADS
from keras_bert.export import FORMATS, agreement, comparison, export, saved_model
from keras_bert.files import MARK, replace_folder
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config

ROOT = Path(__file__).resolve().parents[2]

# Every head and every format at least once in the default run, with test_saved_model.py and test_heads.py.
COVERED = {
    ("saved_model", "masked_language_model"),
    ("tflite", "sequence_classifier"),
    ("tflite", "pretraining_model"),
    ("onnx", "sentence_embedder"),
    ("onnx", None),
    ("saved_model", "next_sentence"),
    ("tflite", "reranker"),
    ("onnx", "multiple_choice"),
    ("onnx", "token_classifier"),
    ("saved_model", "sequence_regressor"),
    ("onnx", "replaced_token_detector"),
}
MATRIX = [
    pytest.param(format, head, marks=[] if (format, head) in COVERED else pytest.mark.slow)
    for format in FORMATS
    for head in [*HEADS, None]
]

# of ONNX files with ids in, where it is not `logits`
OUTPUTS = {
    "sentence_embedder": ["embedding"],
    "sequence_regressor": ["score"],
    "reranker": ["score"],
    "pretraining_model": ["mlm_logits", "nsp_logits"],
    None: ["sequence_output", "pooled_output"],
}

# what is special of each family beside BERT
FAMILIES = {
    "roberta": {"pad_token_id": 1, "position_offset": 2, "type_vocab_size": 1, "classifier_act": "tanh"},
    "distilbert": {"type_vocab_size": 0, "pooler": False, "classifier_act": "relu"},
    "albert": {"embedding_size": 8, "shared_layers": True, "hidden_act": "gelu_new"},
    "electra": {"embedding_size": 8, "pooler": False, "classifier_act": "gelu"},
}
FAMILY_MATRIX = [
    pytest.param(family, format, marks=[] if covered == format else pytest.mark.slow)
    for family, covered in zip(FAMILIES, ("tflite", "onnx", "tflite", "saved_model"), strict=True)
    for format in FORMATS
]


@pytest.fixture
def few(monkeypatch):
    """Few golden texts."""
    monkeypatch.setattr(agreement, "TEXTS", ("a good film", "", "你好，世界", "é 😀\t\n", "the bad film " * 30))


@pytest.fixture
def old(tmp_path):
    """A folder that an earlier export left."""
    with replace_folder(tmp_path / "out") as folder:
        (folder / "report.json").write_text("{}")
        (folder / "artifact").write_text("old")
    return tmp_path / "out"


def assert_untouched(folder):
    found = {path.name: path.read_text() for path in folder.iterdir() if path.name != MARK}
    assert found == {"report.json": "{}", "artifact": "old"}
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(("format", "head"), MATRIX)
def test_every_head_in_every_format(format, head, old):  # P28, P38
    report = export(tiny_bundle(head), old, format)
    assert json.loads((old / "report.json").read_text()) == report
    assert not (old / "artifact").exists()
    assert (report["format"], report["head"], report["agreement"]) == (format, head, 1.0)
    assert report["largest_difference"] <= report["allowed_difference"] <= 1e-4
    assert report["bytes"] > 10_000
    assert sum(report["operations"].values()) > 50
    assert report["latency_ms"] > 0
    assert report["keras_latency_ms"] > 0
    assert report["versions"].keys() >= {"keras3-bert", "tensorflow", "keras", *FORMATS[format].packages}
    if format == "onnx":
        model = onnx.load(old / "model.onnx")
        names = ["token_ids", "segment_ids", "padding_mask"]
        names += ["masked_positions"] if head in ("masked_language_model", "pretraining_model") else []
        assert [value.name for value in model.graph.input] == names
        assert [value.name for value in model.graph.output] == OUTPUTS.get(head, ["logits"])
        assert [opset.version for opset in model.opset_import] == [17]


@pytest.mark.slow
@pytest.mark.parametrize("head", [name for name, head in HEADS.items() if head.answer])
@pytest.mark.parametrize(("family", "format"), [(family, format) for family in FAMILIES for format in FORMATS])
def test_every_head_of_every_family_answers_texts(family, format, head, few, tmp_path):
    """With a WordPiece tokenizer, which RoBERTa and ALBERT do not have; their graphs are what counts here."""
    config = tiny_config(model_type=family, **{**FAMILIES[family], "pad_token_id": 0, "position_offset": 0})
    two = HEADS[head].answer.takes in ("pairs", "contexts", "choices")
    if (head == "next_sentence" and not config.pooler) or (two and config.type_vocab_size == 1):
        return  # there is no such model
    labels = LABELS if HEADS[head].labelled else None
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), head, labels)
    randomize(bundle.model)
    report = export(bundle, tmp_path / "out", format, **({} if format == "saved_model" else {"inputs": "text"}))
    assert report["golden"]["largest_difference"] <= report["allowed_difference"] <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("family", "format"), FAMILY_MATRIX)
def test_every_family_in_every_format(family, format, tmp_path):
    config = tiny_config(model_type=family, **FAMILIES[family])
    bundle = keras_bert.create(config, None, "sequence_classifier", LABELS)
    randomize(bundle.model)
    report = export(bundle, tmp_path / "out", format)
    assert report["largest_difference"] <= report["allowed_difference"] <= 1e-4


@pytest.mark.parametrize("inputs", ["pair", "ids", "free_ids"])
def test_every_kind_of_tflite_inputs(inputs, tmp_path):
    report = export(tiny_bundle("sequence_classifier"), tmp_path / "out", "tflite", inputs=inputs, max_length=16)
    assert report["options"] == {"inputs": inputs, "max_length": 16}


@pytest.mark.parametrize("moment", ["write", "load", "describe"])
def test_interrupted_export_leaves_the_old_one(moment, old, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, moment, interrupted)
    if moment != "write":
        monkeypatch.setattr(saved_model, "write", lambda bundle, folder: (folder / "half").write_text("new"))
    if moment == "describe":
        monkeypatch.setattr(saved_model, "load", lambda folder: lambda signature, inputs: {"y": np.ones(1)})
        probe = comparison.Probe("s", {}, lambda: {"y": np.ones(1)})
        monkeypatch.setattr(saved_model, "probes", lambda bundle: [probe])
    with pytest.raises(KeyboardInterrupt):
        export(tiny_bundle("sentence_embedder"), old)
    assert_untouched(old)


EXPORTER = """
import sys
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config
from keras_bert.export import export
bundle = tiny_bundle("sentence_embedder")
print("ready", flush=True)
export(bundle, sys.argv[1])
"""


@pytest.mark.slow
def test_killed_export_leaves_the_old_one_or_none(old):
    rng, untouched = random.Random(0), 0
    for _ in range(6):
        command = [sys.executable, "-c", EXPORTER, str(old)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.0, 2.5))
            process.kill()
        if (old / "artifact").exists():
            untouched += 1
            assert {path.name for path in old.iterdir()} == {MARK, "report.json", "artifact"}
        elif old.exists():
            saved_model.load(old)
            assert json.loads((old / "report.json").read_text())["agreement"] == 1.0
    assert untouched


@pytest.mark.parametrize("format", ["saved_model", "onnx"])
def test_disagreement_is_an_error(format, old, monkeypatch):
    module = importlib.import_module(FORMATS[format].module)
    write = module.write

    def write_and_break(bundle, folder):
        write(bundle, folder)
        bundle.model.get_layer("layer_1").output_norm.beta.assign_add(np.full(12, 0.01))

    monkeypatch.setattr(module, "write", write_and_break)
    with pytest.raises(ValueError, match=rf"^The {format} file disagrees with the model: max difference \d") as error:
        export(tiny_bundle(None), old, format)
    assert f"allowed {module.ALLOWED:.0e}" in str(error.value)
    assert str(old / module.FILE) in str(error.value)
    assert_untouched(old)


def test_what_counts_as_a_difference():
    assert comparison.difference(np.array([1.0, 200.0]), np.array([1.5, 100.0])) == 1.0
    assert comparison.difference(np.array([0.25]), np.array([0.5])) == 0.25
    assert comparison.difference(np.array([np.nan]), np.array([np.nan])) == float("inf")
    assert comparison.difference(np.zeros((1, 2)), np.zeros((1, 3))) == float("inf")
    assert comparison.difference(np.array([b"a"], object), np.array([b"a"], object)) == 0.0
    assert comparison.difference(np.array([1]), np.array([2])) == float("inf")


def test_what_counts_as_the_same_answer():
    expected = np.array([[0.2, 0.8], [0.8, 0.2], [0.5, 0.5], [0.0, 0.0], [3.0, 4.0], [0.50001, 0.5]])
    got = np.array([[0.201, 0.799], [0.2, 0.8], [np.nan, 0.5], [1e-7, 0.0], [6.0, 8.0], [0.5, 0.50001]])
    assert comparison.same_answers(got, expected).tolist() == [True, False, False, True, True, True]
    assert comparison.same_answers(np.array([1, 2]), np.array([1, 3])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("format", "options", "sentence"),
    [
        ("onx", {}, r"^Unknown format `onx`\. Did you mean `onnx`\? Known: saved_model, tflite, onnx\.$"),
        ("saved_model", {"max_len": 3}, r"^`saved_model` takes no option `max_len`\. Did you mean `max_length`\?$"),
        ("saved_model", {"max_length": 41}, r"^`max_length` must be from 3 to the model's 40 positions, got 41\.$"),
    ],
)
def test_wrong_arguments(format, options, sentence, old):
    with pytest.raises(ValueError, match=sentence):
        export(tiny_bundle("sequence_classifier"), old, format, **options)
    assert_untouched(old)


def test_folder_with_other_files_is_kept(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds thesis\.txt, which was not written here"):
        export(tiny_bundle("sentence_embedder"), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(("format", "missing"), [("tflite", "ai_edge_litert"), ("onnx", "tf2onnx")])
def test_missing_extra_names_the_command(format, missing, tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find_spec(name))
    sentence = rf'^The format `{format}` needs {missing.replace("_", "-")}: pip install "keras3-bert\[{format}\]"$'
    with pytest.raises(ImportError, match=sentence):
        export(None, tmp_path / "out", format)


def test_other_backends_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"^Exports need KERAS_BACKEND=tensorflow, got jax\.$"):
        export(None, tmp_path / "out")


@pytest.mark.parametrize("format", ["tflite", "onnx"])
def test_half_precision_models_are_loaded_anew_first(format, tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        bundle = tiny_bundle("sequence_classifier")
    finally:
        keras.config.set_dtype_policy("float32")
    with pytest.raises(ValueError) as error:
        export(bundle, tmp_path / "out", format)
    assert str(error.value) == (
        f"`{format}` takes models of the policy float32, got mixed_float16. Save the model, and load it under float32."
    )
    keras_bert.save(bundle, tmp_path / "model")
    assert export(keras_bert.load(tmp_path / "model"), tmp_path / "out", format)["agreement"] == 1.0
