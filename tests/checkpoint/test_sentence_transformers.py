"""sentence-transformers folders: each pooling, dense layers and lengths against NumPy, and the library itself."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert
from tests.checkpoint.test_transformers import ask, witness  # noqa: F401 - a fixture
from tests.conftest import shared_data
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config, tiny_features
from tests.reference import Reference

TOLERANCE = 1e-5  # measured 2e-6
TEXTS = ["hello worlds", "", "a good film, a bad film!", "商务大床房 é", "the " * 60]
TANH = {"units": 7, "activation": "tanh", "bias": True}
PLAIN = {"units": 5, "activation": "identity", "bias": False}
CASES = {
    "mean": {"pooling": "mean", "normalize": True},
    "cls": {"pooling": "cls", "normalize": False},
    "max": {"pooling": "max", "normalize": True},
    "mean_sqrt_len": {"pooling": "mean_sqrt_len", "normalize": False, "dense": [TANH]},
    "lasttoken": {"pooling": "lasttoken", "normalize": True, "dense": [TANH, PLAIN]},
}


def embedder(name, max_length=None):
    bundle = keras_bert.create(
        tiny_config(pooler=False), keras_bert.Tokenizer(VOCAB), "sentence_embedder", **CASES[name]
    )
    randomize(bundle.model)
    return keras_bert.Bundle(**{**vars(bundle), "max_length": max_length})


def by_numpy(bundle, texts, max_length):
    weights = {weight.path: np.asarray(weight.value) for weight in bundle.model.weights}
    features = bundle.tokenizer(texts, max_length=max_length)
    return Reference(bundle.config, weights).embedding(features, **bundle.options)


@pytest.mark.parametrize("name", CASES)
def test_folder_in_and_out(name, tmp_path):  # P65
    bundle = embedder(name, max_length=9)
    keras_bert.save(bundle, tmp_path / "model")
    again = keras_bert.load(tmp_path / "model")
    assert (again.head, again.options, again.max_length) == ("sentence_embedder", bundle.options, 9)
    assert (again.report.fresh, again.report.unused, again.report.ignored) == ([], [], [])
    made, expected = keras_bert.predict(again, TEXTS), by_numpy(bundle, TEXTS, 9)
    assert np.isfinite(made).all()
    assert np.abs(made - expected).max() <= TOLERANCE
    assert np.abs(keras_bert.predict(again, TEXTS, max_length=20) - made)[-1].max() > 1e-3
    keras_bert.save(again, tmp_path / "again")
    for file in (path for path in (tmp_path / "model").rglob("*") if path.is_file()):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "model")).read_bytes()


def test_encoder_alone(tmp_path):
    keras_bert.save(embedder("lasttoken"), tmp_path / "model")
    bundle = keras_bert.load(tmp_path / "model", head="encoder")
    assert (bundle.head, bundle.options, bundle.max_length, bundle.report.fresh) == (None, {}, None, [])
    assert bundle.report.unused == ["dense.0.linear.bias", "dense.0.linear.weight", "dense.1.linear.weight"]


def test_another_head_on_an_embedder(tmp_path):
    keras_bert.save(embedder("mean_sqrt_len", 9), tmp_path / "model")
    bundle = keras_bert.load(tmp_path / "model", new_head="sentence_embedder")
    assert (bundle.options, bundle.max_length, bundle.model.output_shape) == ({}, None, (None, 12))
    bundle = keras_bert.load(tmp_path / "model", new_head="token_classifier", labels=["a", "b"])
    assert bundle.report.fresh == ["logits/kernel", "logits/bias"]


def test_genuine_layout_without_modules_is_an_encoder():
    folder = shared_data("checkpoints/sentence_transformers_tiny_bert")
    assert keras_bert.load(folder).head is None
    bundle = keras_bert.load(folder, head="sentence_embedder")
    assert bundle.model(tiny_features(bundle.config)).shape == (3, 32)


def test_encoder_in_a_folder_of_its_own(tmp_path):
    """The layout of old versions: 0_Transformer holds the encoder, its tokenizer and its length."""
    bundle = embedder("mean", 9)
    keras_bert.save(bundle, tmp_path / "model")
    inner = tmp_path / "model" / "0_Transformer"
    inner.mkdir()
    for file in list((tmp_path / "model").iterdir()):
        if file.is_file() and file.name != "modules.json":
            file.rename(inner / file.name)
    edit(tmp_path / "model" / "modules.json", lambda rows: rows[0].update(path="0_Transformer"))
    again = keras_bert.load(tmp_path / "model")
    assert again.max_length == 9
    assert np.array_equal(keras_bert.predict(again, TEXTS), keras_bert.predict(bundle, TEXTS))


def edit(file, change):
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    file.write_text(json.dumps(values), encoding="utf-8")


@pytest.fixture
def saved(tmp_path):
    keras_bert.save(embedder("lasttoken", 9), tmp_path / "model")
    return tmp_path / "model"


def sentence(folder):
    with pytest.raises(ValueError) as error:
        keras_bert.load(folder)
    text = str(error.value).replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def test_modules_that_are_not_built_here(saved):
    file = saved / "modules.json"
    whole = file.read_text()
    edit(file, lambda rows: rows.insert(2, {"type": "sentence_transformers.models.CNN", "path": "2_CNN"}))
    assert sentence(saved) == (
        "FOLDER/modules.json must list Transformer, Pooling, and then Dense layers or a Normalize, got Transformer, "
        "Pooling, CNN, Dense, Dense, Normalize."
    )
    for path in ("../other", "/etc", "a\\..\\b"):
        file.write_text(whole)
        edit(file, lambda rows, path=path: rows[1].update(path=path))
        assert sentence(saved) == f"FOLDER/modules.json must name folders beside it, got {path!r}."
    for broken in ("[]", "{", "{}", '[{"type": 1}]', '"text"'):
        file.write_text(broken)
        assert sentence(saved).startswith("FOLDER/modules.json must ")


def test_values_that_change_the_model(saved):
    file = saved / "1_Pooling" / "config.json"
    whole = file.read_text()
    edit(file, lambda values: values.update(pooling_mode_mean_tokens=True))
    assert sentence(saved) == (
        "The pooling in FOLDER/1_Pooling/config.json must be one of mean, cls, max, mean_sqrt_len, lasttoken, got mean "
        "and lasttoken."
    )
    file.write_text(json.dumps({"pooling_mode": "weightedmean"}))
    assert sentence(saved).endswith("lasttoken, got weightedmean.")
    file.write_text(whole)
    dense = saved / "2_Dense" / "config.json"
    edit(dense, lambda values: values.update(activation_function="os.system"))
    assert sentence(saved) == (
        "`activation_function` must be one of Tanh, ReLU, GELU, Sigmoid, Identity in FOLDER/2_Dense/config.json, got "
        "os.system."
    )
    edit(dense, lambda values: values.update(activation_function="torch.nn.modules.activation.Tanh", use_residual=True))
    assert sentence(saved) == "`use_residual` must be false in FOLDER/2_Dense/config.json, got true."
    edit(dense, lambda values: values.update(use_residual=False, out_features="7"))
    assert sentence(saved) == "`out_features` must be a positive integer in FOLDER/2_Dense/config.json, got '7'."
    edit(dense, lambda values: values.update(out_features=8))
    assert sentence(saved).startswith("The shapes do not match: dense_0/kernel must be (12, 8), got (12, 7)")


def test_settings_that_change_the_model(saved):
    settings = saved / "sentence_bert_config.json"
    edit(settings, lambda values: values.update(max_seq_length=-1))
    assert sentence(saved) == (
        "`max_seq_length` must be an integer of at least 3 in FOLDER/sentence_bert_config.json, got -1."
    )
    edit(settings, lambda values: values.update(max_seq_length=512))
    assert keras_bert.load(saved).max_length == 40
    (saved / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    assert sentence(saved) == (
        "`default_prompt_name` must be null in FOLDER/config_sentence_transformers.json, got 'query'. "
        "Put the prompt before the texts."
    )


@pytest.mark.slow
def test_sentence_transformers_opens_ours(witness, tmp_path):  # noqa: F811
    for name in CASES:
        keras_bert.save(embedder(name, 9), tmp_path / name)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    ask(witness, "witness_sentence_transformers.py", "read", tmp_path)
    theirs = np.load(tmp_path / "embeddings.npz")
    for name in CASES:
        assert np.abs(theirs[name] - keras_bert.predict(embedder(name, 9), TEXTS)).max() <= TOLERANCE
        assert theirs[f"{name}/max_seq_length"] == 9


@pytest.mark.slow
def test_what_sentence_transformers_writes(witness, tmp_path):  # noqa: F811
    torch_names = {"tanh": "Tanh", "identity": "Identity"}
    for name, options in CASES.items():
        bundle = tiny_bundle(None)
        keras_bert.save(bundle, tmp_path / "encoders" / name)
        dense = [(d["units"], torch_names[d["activation"]], d["bias"]) for d in options.get("dense", ())]
        pooling = {"mean_sqrt_len": "mean_sqrt_len_tokens"}.get(options["pooling"], options["pooling"])
        wanted = {**options, "pooling": pooling, "dense": dense, "max_length": 9}
        (tmp_path / "encoders" / name / "wanted.json").write_text(json.dumps(wanted))
    ask(witness, "witness_sentence_transformers.py", "write", tmp_path / "encoders")
    written = tmp_path / "written"
    (written / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    ask(witness, "witness_sentence_transformers.py", "read", written)
    theirs = np.load(written / "embeddings.npz")
    for name, options in CASES.items():
        bundle = keras_bert.load(written / name)
        assert (bundle.options, bundle.max_length) == (options, 9)
        assert np.abs(theirs[name] - keras_bert.predict(bundle, TEXTS)).max() <= TOLERANCE
        if "dense" in options:
            assert Path(written / name / "2_Dense" / "model.safetensors").is_file()
            load_file(written / name / "2_Dense" / "model.safetensors")
