"""LoRA: adapters beside frozen weights, as files, merged and taken out again, in every format."""

import json
import os
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert import lora
from keras_bert.checkpoint import google
from keras_bert.config import PROJECTIONS, Lora
from keras_bert.projections import FrozenDense
from tests.checkpoint.test_families import SMALL, features_of
from tests.models import LABELS, VOCAB, model_features, randomize, tiny_bundle, tiny_config, tiny_features

TOLERANCE = 1e-5  # measured 1e-6


def adapted(head="sequence_classifier", bundle=None, rank=4, size=0.3, **options):
    """A bundle with adapters that matter: A and B of order 0.3."""
    bundle = tiny_bundle(head) if bundle is None else bundle
    made = lora.add_lora(bundle, rank, **{"targets": PROJECTIONS, **options})
    rng = np.random.default_rng(5)
    for weight in made.model.trainable_weights:
        weight.assign(rng.normal(0.0, size, weight.shape))
    return made


def answers(bundle, features=None):
    features = model_features(bundle.model, bundle.config) if features is None else features
    outputs = bundle.model(features)
    return np.concatenate([np.ravel(value) for value in keras.tree.flatten(outputs)])


def same(one, other):
    return np.abs(answers(one) - answers(other)).max() <= TOLERANCE


def values(bundle):
    return {weight.path: np.asarray(weight) for weight in bundle.model.weights}


@pytest.mark.parametrize("head", [None, *keras_bert.HEADS])
def test_only_adapters_and_head_learn(head):
    base = tiny_bundle(head)
    made = lora.add_lora(base)
    assert np.array_equal(answers(made), answers(base))
    learning = [weight.path for weight in made.model.trainable_weights]
    adapters = [path for path in learning if "/lora_" in path]
    assert sorted(adapters) == sorted(
        f"layer_{i}/attention/{name}/lora_{part}" for i in (0, 1) for name in ("query", "value") for part in "ab"
    )
    heads = [path for path in values(base) if not path.startswith(("layer_", "token_embedding", "embeddings"))]
    assert sorted(heads) == sorted(set(learning) - set(adapters))


@pytest.mark.parametrize("training", [False, True])
def test_the_dense_layer_by_hand(training):
    adapter = Lora(rank=2, alpha=5.0, dropout=0.4)
    layer = FrozenDense(7, adapter, 0.02)
    layer.build((None, 400))
    rng = np.random.default_rng(0)
    w, b, first, second = (rng.normal(0, 0.3, shape) for shape in ((400, 7), (7,), (400, 2), (2, 7)))
    weights = (layer.kernel, layer.bias, layer.lora_a, layer.lora_b)
    for weight, value in zip(weights, (w, b, first, second), strict=True):
        weight.assign(value)
    x = np.ones((50, 400), "float32")
    made = np.asarray(layer(x, training=training)) - (w.sum(0) + b)
    expected = 5.0 / 2 * first.sum(0) @ second
    if not training:
        np.testing.assert_allclose(made, np.tile(expected, (50, 1)), atol=1e-3)
    else:  # the adapter's input alone is dropped, and scaled up: the mean stays
        assert made.std(0).min() > 1.0
        np.testing.assert_allclose(made.mean(0), expected, atol=4 * made.std(0).max() / 50**0.5)


def test_p48_adapters_are_files_of_kilobytes(tmp_path):
    config = keras_bert.BertConfig.preset("bert_tiny")
    base = keras_bert.create(config, head="sequence_classifier", labels=LABELS)
    keras_bert.save(base, tmp_path / "base")
    stored = (tmp_path / "base" / "model.safetensors").read_bytes()
    made = adapted(bundle=base, size=0.1)
    before = answers(made)
    lora.save_adapter(made, tmp_path / "adapter")
    size = sum(file.stat().st_size for file in (tmp_path / "adapter").iterdir())
    assert size < 0.01 * len(stored)
    opened = keras_bert.load(tmp_path / "base")
    again = lora.load_adapter(opened, tmp_path / "adapter")
    assert np.array_equal(answers(again), before)
    merged = lora.merge(again)
    assert not [path for path in values(merged) if "lora" in path]
    assert merged.config == base.config
    assert same(merged, made)
    assert not same(merged, base)
    taken_out = lora.unmerge(merged, tmp_path / "adapter")
    assert same(taken_out, made)
    base_values = values(base)
    for path, value in values(taken_out).items():
        if path in base_values and path.startswith(("layer", "embeddings", "token")):
            np.testing.assert_allclose(value, base_values[path], atol=TOLERANCE)
    assert all(np.array_equal(value, base_values[path]) for path, value in values(opened).items())
    assert (tmp_path / "base" / "model.safetensors").read_bytes() == stored


@pytest.mark.parametrize("format", ["tflite", "onnx"])
def test_p48_exports_are_merged(format, tmp_path):
    """The artifact answers as the unmerged model does, and has no operation of the adapters."""
    from importlib import import_module

    from keras_bert.export import FORMATS, comparison, export, signatures

    made = adapted()
    report = export(made, tmp_path / "out", format)
    if format == "tflite":
        assert report["operations"]["FULLY_CONNECTED"] == 6 * 2 + 2
    module = import_module(FORMATS[format].module)
    probes = module.probes(signatures.Keras(made))
    assert comparison.compare(probes, module.load(tmp_path / "out"))[0] <= TOLERANCE


HEADS = [None, "sequence_classifier", "pretraining_model", "multiple_choice", "sentence_embedder"]


@pytest.mark.parametrize("head", HEADS)
def test_a_keras_file_keeps_them_apart(head, tmp_path):
    options = {"dense": ({"units": 5},)} if head == "sentence_embedder" else {}
    made = adapted(bundle=tiny_bundle(head, **options), dropout=0.1)
    made.model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    features = model_features(made.model, made.config)
    for one, other in zip(keras.tree.flatten(made.model(features)), keras.tree.flatten(again(features)), strict=True):
        assert np.array_equal(one, other)
    assert [w.path for w in again.trainable_weights] == [w.path for w in made.model.trainable_weights]


def test_what_save_writes_is_merged(tmp_path):
    made = adapted()
    keras_bert.save(made, tmp_path / "out")
    again = keras_bert.load(tmp_path / "out")
    assert again.config.lora is None
    assert same(again, made)


@pytest.mark.parametrize("family", SMALL)
def test_families(family, tmp_path):
    config = tiny_config(model_type=family, **SMALL[family])
    base = keras_bert.create(config, head="sequence_classifier", labels=LABELS)
    randomize(base.model)
    made = adapted(bundle=base, targets=("key", "output"))
    lora.save_adapter(made, tmp_path / "adapter")
    again = lora.load_adapter(base, tmp_path / "adapter")
    features = features_of(base)
    assert np.array_equal(answers(again, features), answers(made, features))
    keras_bert.save(made, tmp_path / "out")
    assert np.abs(answers(keras_bert.load(tmp_path / "out"), features) - answers(made, features)).max() <= TOLERANCE


def test_training_moves_nothing_else():
    made = lora.add_lora(tiny_bundle("sequence_classifier"), dropout=0.1)
    before = values(made)
    made.model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy", run_eagerly=True)
    made.model.fit(tiny_features(made.config), np.array([0, 1, 2]), epochs=2, verbose=0)
    moved = {path for path, value in values(made).items() if not np.array_equal(value, before[path])}
    assert moved == {weight.path for weight in made.model.trainable_weights}


def test_half_precision():
    """A and B are float32 whatever the policy is."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        made = adapted()
        assert np.all(np.isfinite(answers(made)))
    finally:
        keras.config.set_dtype_policy("float32")
    assert {weight.dtype for weight in made.model.weights} == {"float32"}


def test_the_layout_of_peft(tmp_path):
    made = adapted(rank=5, alpha=3.0, dropout=0.25, targets=("query", "output"))
    lora.save_adapter(made, tmp_path / "adapter")
    shapes = {name: array.shape for name, array in load_file(tmp_path / "adapter" / lora.WEIGHTS).items()}
    block = "base_model.model.bert.encoder.layer.1"
    assert shapes[f"{block}.attention.self.query.lora_A.weight"] == (5, 12)
    assert shapes[f"{block}.output.dense.lora_A.weight"] == (5, 20)
    assert shapes[f"{block}.output.dense.lora_B.weight"] == (12, 5)
    assert shapes["base_model.model.classifier.weight"] == (3, 12)
    assert shapes["base_model.model.bert.pooler.dense.bias"] == (12,)
    assert len(shapes) == 2 * 2 * 2 + 4
    config = json.loads((tmp_path / "adapter" / lora.CONFIG).read_text())
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (5, 3.0, 0.25)
    assert config["modules_to_save"] == ["classifier", "pooler"]
    assert "bert.encoder.layer.0.output.dense" in config["target_modules"]
    assert len(config["target_modules"]) == 4


@pytest.mark.slow
def test_peft_opens_it_and_we_open_what_peft_wrote(tmp_path):
    interpreter = os.environ.get("KERAS_BERT_WITNESS")
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('peft') is None)"
    if not interpreter or subprocess.run([interpreter, "-c", find], check=False).returncode:
        pytest.skip("needs KERAS_BERT_WITNESS, the interpreter of an environment with torch, transformers and peft")
    base = tiny_bundle("sequence_classifier")
    made = adapted(bundle=base)
    keras_bert.save(base, tmp_path / "base")
    lora.save_adapter(made, tmp_path / "adapter")
    features = tiny_features(base.config)
    np.savez(tmp_path / "features.npz", **features)
    environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [interpreter, str(Path(__file__).with_name("witness_peft.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "missing adapter keys" not in done.stderr
    expected = np.array(json.loads((tmp_path / "answers.json").read_text()))
    np.testing.assert_allclose(np.asarray(made.model(features)), expected, atol=TOLERANCE)
    theirs = lora.load_adapter(base, tmp_path / "theirs")
    assert np.array_equal(answers(theirs), answers(made))


def test_errors(tmp_path):
    base, made = tiny_bundle("sequence_classifier"), adapted()
    lora.save_adapter(made, tmp_path / "adapter")
    with pytest.raises(ValueError, match=r"^The bundle must have no adapters yet\. Use `lora\.merge` first\.$"):
        lora.add_lora(made)
    for call in (lora.merge, lambda bundle: lora.save_adapter(bundle, tmp_path / "none")):
        with pytest.raises(ValueError, match=r"^The bundle has no adapters\."):
            call(base)
    with pytest.raises(ValueError, match=r"^The bundle must have no adapters: load the base model"):
        lora.load_adapter(made, tmp_path / "adapter")
    with pytest.raises(ValueError, match=r"is for the head 'sequence_classifier', the bundle has 'token_c"):
        lora.load_adapter(tiny_bundle("token_classifier"), tmp_path / "adapter")
    wide, deep = (
        keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "sequence_classifier", LABELS)
        for config in (tiny_config(hidden_size=15), tiny_config(num_hidden_layers=3))
    )
    with pytest.raises(ValueError, match=r"must be of another shape: the model has another base\.$"):
        lora.load_adapter(wide, tmp_path / "adapter")
    with pytest.raises(ValueError, match=r"does not fit the model\. Unknown there: \[\]\. Missing: \['base.*layer\.2"):
        lora.load_adapter(deep, tmp_path / "adapter")
    with pytest.raises(ValueError, match=r"^`targets` must be some of query, .*, got \['querry'\]\.$"):
        lora.add_lora(base, targets=("querry",))
    for name, value in (("rank", 0), ("alpha", -1), ("dropout", 1.0)):
        with pytest.raises(ValueError, match=rf"^`{name}` must be "):
            lora.add_lora(base, **{name: value})
    with pytest.raises(ValueError, match=r"^`add_tokens` needs a bundle without adapters\."):
        keras_bert.add_tokens(made, ["graph"])
    with pytest.raises(ValueError, match=r"^Google's TF1 code has no adapters\. Use `lora\.merge` first\.$"):
        google.write(made, tmp_path)


def test_files_of_other_kinds_are_refused(tmp_path):
    base, made = tiny_bundle("sequence_classifier"), adapted()
    lora.save_adapter(made, tmp_path / "adapter")
    config = tmp_path / "adapter" / lora.CONFIG
    values = json.loads(config.read_text())
    for key, value in (("use_dora", True), ("bias", "all"), ("peft_type", "LOHA"), ("rank_pattern", {"query": 2})):
        config.write_text(json.dumps(values | {key: value}))
        with pytest.raises(ValueError, match=rf"^`{key}` must be .* in .*adapter_config\.json, got "):
            lora.load_adapter(base, tmp_path / "adapter")
    config.write_text(json.dumps({key: value for key, value in values.items() if key != "r"}))
    with pytest.raises(ValueError, match=r"^'r' is missing in .*adapter_config\.json\.$"):
        lora.load_adapter(base, tmp_path / "adapter")
    config.write_text(json.dumps(values))
    weights = tmp_path / "adapter" / lora.WEIGHTS
    arrays = load_file(weights)
    save_file({**arrays, "base_model.model.other.weight": arrays["base_model.model.classifier.weight"]}, weights)
    with pytest.raises(ValueError, match=r"Unknown there: \['base_model\.model\.other\.weight'\]"):
        lora.load_adapter(base, tmp_path / "adapter")
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        lora.load_adapter(base, tmp_path / "adapter")


def test_size_beside_genuine_weights(minilm, tmp_path):
    """Rank 8 on every projection, with pooler and head, is under 3% of the base; on queries and values less."""
    base = keras_bert.load(minilm, new_head="sequence_classifier", labels=LABELS)
    whole = sum(4 * np.prod(weight.shape) for weight in base.model.weights)
    sizes = []
    for targets in (PROJECTIONS, ("query", "value")):
        lora.save_adapter(lora.add_lora(base, 8, targets=targets), tmp_path / "adapter")
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "adapter").iterdir()) / whole)
    assert sizes[1] < sizes[0] < 0.03, sizes  # measured 0.021 and 0.010
