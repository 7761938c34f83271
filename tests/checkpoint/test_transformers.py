"""`transformers` as a witness: what it wrote, we open; what we write, it opens. Same outputs, no key left over."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.encoder import hidden_states
from tests.checkpoint.test_families import ROUND_TRIPS, family_bundle, features_of, largest

TOLERANCE = 1e-5  # measured 2e-6
GOLDEN = Path(__file__).parents[1] / "golden"
WITNESS = "KERAS_BERT_WITNESS"
HEADS = {
    "MaskedLM": "masked_language_model",
    "PreTraining": "replaced_token_detector",
    "NextSentencePrediction": "next_sentence",
    "SequenceClassification": "sequence_classifier",
    "TokenClassification": "token_classifier",
    "QuestionAnswering": "span_extractor",
    "MultipleChoice": "multiple_choice",
}


def stored(archive):
    """Names of the models in an archive of tests/golden."""
    with zipfile.ZipFile(GOLDEN / archive) as opened:
        return sorted({name.split("/")[0] for name in opened.namelist()})


def unpacked(archive, name, folder):
    with zipfile.ZipFile(GOLDEN / archive) as opened:
        opened.extractall(folder, [entry for entry in opened.namelist() if entry.startswith(f"{name}/")])
    return folder / name


def check_golden(folder, name):
    bundle = keras_bert.load(folder)
    assert bundle.head == head_of(name)
    assert (bundle.report.fresh, bundle.report.unused, bundle.report.ignored) == ([], [], [])
    arrays = np.load(folder / "expected.npz")
    ids, mask = arrays["input/input_ids"], arrays["input/attention_mask"]
    segments = arrays["input/token_type_ids"] if "input/token_type_ids" in arrays else ids * 0
    features = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
    if "masked_positions" in bundle.model.input:
        features["masked_positions"] = np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1))
    made = bundle.model(features)
    for name, values in (made if isinstance(made, dict) else {"logits": made}).items():
        values, expected = np.asarray(values), output(arrays, name)
        assert values.shape == expected.shape
        real = (mask > 0) if values.shape[: mask.ndim] == mask.shape else ...
        assert np.abs(expected).max() > 0.1
        assert largest(values[real], expected[real]) <= TOLERANCE


def head_of(name):
    """The head of a model called as its class, or as its file's kind."""
    family, _, task = name.partition("For")
    if task == "PreTraining" and family != "Electra":
        return "pretraining_model"
    return HEADS[task or "SequenceClassification"]


def output(arrays, name):
    if "output/start_logits" in arrays:
        return np.stack([arrays["output/start_logits"], arrays["output/end_logits"]], axis=-1)
    there = {"mlm_logits": ["prediction_logits"], "nsp_logits": ["seq_relationship_logits", "sop_logits"]}
    return next(arrays[f"output/{key}"] for key in there.get(name, [name]) if f"output/{key}" in arrays)


@pytest.mark.parametrize(
    ("archive", "name"), [(file, name) for file in ("transformers.zip", "tf_model.zip") for name in stored(file)]
)
def test_golden(archive, name, tmp_path):
    check_golden(unpacked(archive, name, tmp_path), name)


@pytest.fixture(scope="session")
def witness():
    """The interpreter of an environment with torch and transformers, which tests must not import themselves."""
    interpreter = os.environ.get(WITNESS)
    if not interpreter:
        pytest.skip(f"needs {WITNESS}, the interpreter of an environment with torch and transformers")
    return interpreter


def ask(interpreter, script, *arguments):
    environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [interpreter, str(Path(__file__).with_name(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def answers(witness, tmp_path_factory):
    top = tmp_path_factory.mktemp("saved")
    for family, head in ROUND_TRIPS:
        bundle = family_bundle(family, head)
        save_with_answers(bundle, top / f"{family}-{head}")
    ask(witness, "witness_transformers.py", top)
    return json.loads((top / "answers.json").read_text(encoding="utf-8"))["answers"]


def save_with_answers(bundle, folder):
    keras_bert.save(bundle, folder)
    features = features_of(bundle)
    if bundle.head == "sentence_embedder":  # whose encoder is what `transformers` opens
        outputs = {"sequence_output": hidden_states(bundle.model)(features)[-1]}
    else:
        outputs = bundle.model(features)
    if not isinstance(outputs, dict):
        outputs = {"mlm_logits" if bundle.head == "masked_language_model" else "logits": outputs}
    np.savez(folder / "inputs.npz", **features)
    np.savez(folder / "expected.npz", **{name: np.asarray(value) for name, value in outputs.items()})


@pytest.mark.slow
@pytest.mark.parametrize(("family", "head"), ROUND_TRIPS)
def test_what_we_save_is_opened(family, head, answers):
    answer = answers[f"{family}-{head}"]
    assert "error" not in answer, answer
    assert {kind: names for kind, names in answer["keys"].items() if names} == {}
    assert answer["differences"]
    assert max(answer["differences"].values()) <= TOLERANCE
