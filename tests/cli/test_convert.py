"""`keras-bert convert` and `inspect`: every kind to every kind, the report, and one line for faults."""

import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert
from keras_bert.checkpoint.convert import TARGETS, convert
from tests.checkpoint.golden import unpack
from tests.models import randomize, tiny_bundle, tiny_config

FOLDERS = {
    "google": ("google.zip", "pretraining", "pretraining_model"),
    "model_garden": ("model_garden.zip", "classifier", "sequence_classifier"),
    "keras_hub": ("keras_hub.zip", "classifier", "sequence_classifier"),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folders = {}
    for kind, (file, name, _) in FOLDERS.items():
        folders[kind] = unpack(file, tmp_path_factory.mktemp(kind)) / name
    folders["huggingface"] = tmp_path_factory.mktemp("models") / "classifier"
    keras_bert.save(tiny_bundle("sequence_classifier"), folders["huggingface"])
    return folders


@pytest.mark.parametrize("kind", FOLDERS)
def test_to_hugging_face(kind, run, sources, tmp_path):
    said = run("convert", sources[kind], tmp_path / "out")
    head = FOLDERS[kind][2]
    assert said.startswith(f"{kind} -> huggingface: bert, {head}, ")
    assert "Largest difference on probe inputs: 0.0e+00." in said
    report = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert (report["kind"], report["to"], report["head"], report["largest_difference"]) == (
        kind,
        "huggingface",
        head,
        0,
    )
    assert report["arrays_bit_equal"] == report["arrays"] > 20
    assert report["ignored"] == keras_bert.load(sources[kind]).report.ignored
    assert keras_bert.load(tmp_path / "out").head == head


def test_there_and_back(run, sources, tmp_path):
    run("convert", sources["google"], tmp_path / "first")
    run("convert", tmp_path / "first", tmp_path / "google", "--to", "google")
    run("convert", tmp_path / "google", tmp_path / "last")
    first, last = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "last"))
    assert first.keys() == last.keys()
    assert all(np.array_equal(first[name], last[name]) for name in first)


def test_a_changed_activation_is_asked_for_and_reported(run, sources, tmp_path):
    arguments = ("convert", sources["huggingface"], tmp_path / "out", "--to", "google")
    assert "this model has the exact one, so its outputs would change." in run(*arguments, code=1)
    assert list(tmp_path.iterdir()) == []
    said = run(*arguments, "--allow-activation-change")
    assert "The activation changed from gelu to gelu_new." in said
    report = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert 1e-5 < report["largest_difference"] < 0.1
    assert f"{report['largest_difference']:.1e}" in said


def test_to_a_keras_file(run, sources, tmp_path):
    run("convert", sources["huggingface"], tmp_path / "model.keras", "--to", "keras")
    report = json.loads((tmp_path / "model.keras.conversion.json").read_text())
    assert report["largest_difference"] == 0
    model, bundle = keras.models.load_model(tmp_path / "model.keras"), keras_bert.load(sources["huggingface"])
    for ours, theirs in zip(model.weights, bundle.model.weights, strict=True):
        assert np.array_equal(ours.value, theirs.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.keras", "model.keras.conversion.json"]


def test_the_encoder_alone(run, sources, tmp_path):
    said = run("convert", sources["google"], tmp_path / "out", "--head", "encoder")
    assert "Left out (unused): cls.predictions.bias, " in said
    assert keras_bert.load(tmp_path / "out").head is None


def test_what_no_head_needs_is_kept(run, sources, tmp_path):
    bundle = keras_bert.create(tiny_config(hidden_act="gelu_new"), None, "pretraining_model")
    randomize(bundle.model)
    keras_bert.save(bundle, tmp_path / "first")
    file = tmp_path / "first" / "config.json"
    file.write_text(file.read_text().replace("pretraining_model", "masked_language_model"))
    said = run("convert", tmp_path / "first", tmp_path / "google", "--to", "google")
    assert (
        "Kept beside it: cls.seq_relationship.bias, cls.seq_relationship.weight, pooler.dense.bias, pooler.de" in said
    )
    run("convert", tmp_path / "google", tmp_path / "last")
    first, last = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "last"))
    assert first.keys() == last.keys()
    assert all(np.array_equal(first[name], last[name]) for name in first)
    report = json.loads((tmp_path / "last" / "conversion.json").read_text())
    assert report["arrays_bit_equal"] == report["arrays"] == len(first)


@pytest.mark.slow
def test_to_keras_hub(run, sources, tmp_path):
    pytest.importorskip("keras_hub", reason="needs keras_hub (the extra keras-nlp), which is not installed")
    said = run("convert", sources["model_garden"], tmp_path / "out", "--to", "keras_hub")
    assert "Largest difference on probe inputs: 0.0e+00." in said
    assert keras_bert.load(tmp_path / "out").head == "sequence_classifier"


def test_faults_are_one_line(run, sources, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("...")
    source = sources["huggingface"]
    for arguments, message in (
        ((tmp_path / "gone", tmp_path / "out"), "gone is not a folder. Give the folder that holds config.json"),
        (
            (source, tmp_path / "out", "--to", "torch"),
            "Unknown target `torch`. Known: huggingface, google, keras_hub, ",
        ),
        ((source, tmp_path / "out", "--to", "keras"), "A Keras file must end in .keras, got "),
        ((source, source), "The target must be another place than the source, got "),
        ((source, source.parent), "The target must be another place than the source, got "),
        ((source, tmp_path / "mine"), "mine holds thesis.txt, which was not written here"),
        ((source, tmp_path / "out", "--head", "span_extractor"), "does not hold all of span_extractor"),
    ):
        said = run("convert", *arguments, code=1)
        assert message in said
        assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (0.1, r"^The huggingface model disagrees with its source: max difference 1\.00e-01, allowed 1e-05\. "),
        (1e-6, r"^The huggingface model holds 1 of 41 arrays otherwise than its source\. .* was not written\.$"),
    ],
)
def test_a_target_that_differs_is_not_written(change, sentence, sources, tmp_path, monkeypatch):
    def broken(bundle, path, allow_activation_change, others):
        weight = bundle.model.weights[-1]
        before = np.asarray(weight.value)
        weight.assign(before + change)
        keras_bert.save(bundle, path)
        weight.assign(before)

    monkeypatch.setitem(TARGETS, "huggingface", broken)
    with pytest.raises(ValueError, match=sentence):
        convert(sources["huggingface"], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [*FOLDERS, "huggingface"])
def test_inspect(kind, run, sources):
    said = run("inspect", sources[kind])
    assert kind in said.splitlines()[1]
    head = FOLDERS.get(kind, ("", "", "sequence_classifier"))[2]
    assert "heads in the files" in said
    assert head in said
    if kind == "google":
        assert "global_step, 92 optimizer slots" in said
        assert "pretraining_model, masked_language_model, next_sentence" in said
