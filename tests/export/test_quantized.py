import importlib
import json

import keras
import numpy as np
import onnx
import pytest

import keras_bert
from keras_bert.export import FORMATS, agreement, comparison, export, onnx_quantization
from keras_bert.export import onnx as onnx_format
from keras_bert.files import replace_folder
from tests.conftest import shared_data
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config

WORDS = [word for word in VOCAB if word.isalpha() and word not in ("good", "bad", "s", "ing")]
# large enough for the quantizers, which leave small weights as they are
SIZES = {"hidden_size": 48, "intermediate_size": 100, "max_position_embeddings": 40}


def sentences(count, seed):
    """Texts with "good" or "bad" in them, and which of both."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    texts = []
    for label in labels:
        words = list(rng.choice(WORDS, rng.integers(3, 12)))
        words.insert(rng.integers(0, len(words) + 1), ("bad", "good")[label])
        texts.append(" ".join(words))
    return texts, labels


@pytest.fixture(scope="module")
def fitted():
    """A classifier that has learned something: random weights decide at random, and a rounding turns them."""
    keras.utils.set_random_seed(7)
    bundle = keras_bert.create(
        tiny_config(**SIZES), keras_bert.Tokenizer(VOCAB), "sequence_classifier", ["bad", "good"]
    )
    texts, labels = sentences(200, 0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    bundle.model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    bundle.model.fit(bundle.tokenizer(texts, max_length=16), labels, epochs=8, batch_size=20, verbose=0)
    return bundle


@pytest.mark.parametrize(
    ("format", "quantize", "share"),
    [
        ("tflite", "dynamic", 0.62),
        ("onnx", "dynamic", 0.62),
        ("onnx", "weight_only", 0.45),
        pytest.param("tflite", "int8", 0.75, marks=pytest.mark.slow),
        pytest.param("tflite", "float16", 0.75, marks=pytest.mark.slow),
        pytest.param("onnx", "float16", 0.75, marks=pytest.mark.slow),
    ],
)
def test_quantized_classifier_keeps_its_answers(format, quantize, share, fitted, tmp_path):  # P32
    texts, labels = sentences(200, 1)
    sizes = {"inputs": "ids", "max_length": 16} if format == "tflite" else {}
    report = export(fitted, tmp_path / "out", format, evaluation=texts, quantize=quantize, **sizes)
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert report["evaluation"]["probes"] == 200
    assert report["agreement"] == report["evaluation"]["agreement"] >= 0.99
    weights = sum(weight.value.numpy().nbytes for weight in fitted.model.weights)
    assert report["bytes"] < share * weights + 30_000  # measured: the graph itself takes up to 26,000
    run = importlib.import_module(FORMATS[format].module).load(tmp_path / "out")
    features = fitted.tokenizer([texts[0].ljust(99)], max_length=16)
    given = {name: np.pad(ids, [[0, 0], [0, 16 - ids.shape[1]]]) for name, ids in features.items()}
    if format == "onnx":
        given = {name: ids.astype("int64") for name, ids in given.items()}
    padded = run("serving_default", given)["logits"]
    assert padded.argmax() == labels[0]  # padding changes no answer


@pytest.mark.parametrize(
    ("format", "options", "least"),
    [
        ("onnx", {"quantize": "dynamic"}, 0.9),
        ("onnx", {"quantize": "weight_only"}, 0.999),
        pytest.param(
            "tflite", {"quantize": "dynamic", "inputs": "pair", "max_length": 12}, 0.9, marks=pytest.mark.slow
        ),
    ],
)
def test_quantized_embedder_reports_its_cosines(format, options, least, tmp_path):
    bundle = keras_bert.create(tiny_config(**SIZES), keras_bert.Tokenizer(VOCAB), "sentence_embedder")
    randomize(bundle.model, seed=1)  # with seed 0 ONNX's "dynamic" is refused: mean cosine 0.983
    report = export(bundle, tmp_path / "out", format, **options)
    found = report["evaluation"]
    assert found["probes"] == len(agreement.TEXTS) == 50
    assert least < found["cosine_min"] <= found["cosine_percentile_1"] <= found["cosine_mean"] < 1
    assert found["cosine_mean"] >= 0.99
    assert report["agreement"] is None


def test_int8_is_alike_with_padding_and_says_what_it_leaves_out(fitted, tmp_path):  # P32
    seen, asked = sentences(40, 3)[0], sentences(200, 1)[0]
    sizes = {"inputs": "free_ids", "evaluation": asked, "calibration": seen}
    report = export(fitted, tmp_path / "out", "tflite", quantize="int8", **sizes)
    assert report["agreement"] >= 0.98
    assert report["options"] == {"quantize": "int8", "inputs": "free_ids"}
    assert report["left_out"]["dense"] == ["layer_0/output", "layer_1/output"]
    left = report["left_out"]["operations"]
    assert left["FULLY_CONNECTED"] == left["SOFTMAX"] == 2  # of 14 dense layers
    assert not {"QUANTIZE", "GATHER"} & left.keys()
    run = importlib.import_module(FORMATS["tflite"].module).load(tmp_path / "out")
    for text in asked[:9]:
        features = fitted.tokenizer([text], max_length=16)
        (alone,) = run("serving_default", features).values()
        padded = {name: np.pad(ids, [[0, 0], [0, 9]]) for name, ids in features.items()}
        np.testing.assert_allclose(run("serving_default", padded)["logits"], alone, rtol=0, atol=1e-6)


def test_int8_needs_texts(tmp_path):
    bundle, out = tiny_bundle("multiple_choice"), tmp_path / "out"
    with pytest.raises(ValueError, match=r"'int8' needs a tokenizer and a head for one text or pair, got multiple_ch"):
        export(bundle, out, "tflite", quantize="int8", inputs="ids")
    with pytest.raises(ValueError, match=r"^`calibration` is for the format tflite with `quantize` 'int8'\.$"):
        export(bundle, out, "onnx", calibration=["a"], quantize="dynamic")


def test_too_little_agreement_is_refused(fitted, tmp_path, monkeypatch):  # P32
    with replace_folder(tmp_path / "out") as folder:
        (folder / "artifact").write_text("old")
    texts, labels = sentences(50, 2)
    write = onnx_format.write

    def write_and_change_half(bundle, folder, quantize):
        kernel = bundle.model.get_layer("logits").kernel
        before = kernel.value.numpy()
        kernel.assign(np.zeros_like(before))  # the bias alone decides: one class for every text
        write(bundle, folder, quantize)
        kernel.assign(before)

    monkeypatch.setattr(onnx_format, "write", write_and_change_half)
    with pytest.raises(ValueError, match=r"^The onnx file with `quantize` 'dynamic' agrees with the ") as error:
        export(fitted, tmp_path / "out", "onnx", evaluation=texts, quantize="dynamic")
    share = min(labels.mean(), 1 - labels.mean()), max(labels.mean(), 1 - labels.mean())
    assert any(f"in {value:.2%} over 50 texts, needed 98.00%." in str(error.value) for value in share)
    assert str(error.value).endswith("(not written)")
    assert (tmp_path / "out" / "artifact").read_text() == "old"


@pytest.mark.parametrize(
    ("format", "pairs"),
    [
        ("onnx", True),
        pytest.param("saved_model", False, marks=pytest.mark.slow),
        pytest.param("saved_model", True, marks=pytest.mark.slow),
    ],
)
def test_evaluation_without_quantization_is_in_the_report(format, pairs, tmp_path):
    texts = ["hello world", "", "a good film"]
    given = list(zip(texts, texts[::-1], strict=True)) if pairs else texts
    report = export(tiny_bundle("sequence_classifier"), tmp_path / "out", format, evaluation=given)
    assert report["evaluation"] == {"probes": 3, "agreement": 1.0}


def probe(expected, **inputs):
    return comparison.Probe("", inputs, lambda: expected)


def test_what_is_measured():
    mask = np.array([[1, 1, 0]])
    rows = np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]])
    got = {"logits": np.array([[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]])}
    probes = [probe({"logits": rows}, padding_mask=mask)]
    assert agreement.measure("token_classifier", probes, lambda *_: got) == {"probes": 1, "agreement": 0.5}
    # start at 1 and end at 0 on the one side, the other way round on the other; padding is never either
    spans = {"logits": np.array([[[0.0, 1.0], [1.0, 0.0], [9.0, 9.0]]])}
    probes = [probe(spans, padding_mask=mask)]
    assert agreement.measure("span_extractor", probes, lambda *_: spans)["agreement"] == 1.0
    turned = {"logits": spans["logits"][..., ::-1]}
    assert agreement.measure("span_extractor", probes, lambda *_: turned)["agreement"] == 0.0
    broken = {"logits": np.array([[[0.0, 1.0], [np.nan, 0.0], [0.0, 1.0]]])}
    assert agreement.measure("span_extractor", probes, lambda *_: broken)["agreement"] == 0.0
    detected = [probe({"logits": np.array([[1.0, -1.0, 1.0]])}, padding_mask=mask)]
    said = {"logits": np.array([[1.0, 1.0, -1.0]])}
    assert agreement.measure("replaced_token_detector", detected, lambda *_: said)["agreement"] == 0.5

    vectors = [probe({"embedding": np.array([[1.0, 0.0]])}), probe({"embedding": np.array([[3.0, 4.0]])})]
    found = agreement.measure("sentence_embedder", vectors, lambda *_: {"embedding": np.array([[5.0, 0.0]])})
    assert (found["cosine_mean"], found["cosine_min"]) == pytest.approx((0.8, 0.6))
    scores = [probe({"score": np.array([value])}, at=value) for value in (1.0, 2.0, 4.0)]
    found = agreement.measure("reranker", scores, lambda _, inputs: {"score": np.array([3 - 2 * inputs["at"]])})
    assert found["correlation"] == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        ({"probes": 9, "agreement": 0.98}, ""),
        ({"probes": 9, "agreement": 0.97}, "agrees with the model in 97.00% over 9 texts, needed 98.00%"),
        ({"probes": 9, "cosine_mean": np.nan}, "has a mean cosine with the model of nan% over 9 texts, needed 99.00%"),
        ({"probes": 9, "correlation": 0.5}, "has a correlation with the model of 50.00% over 9 texts, needed 99.00%"),
    ],
)
def test_what_is_too_little(measured, sentence):
    assert agreement.shortfall(measured, {"agreement": 0.98}) == sentence


def test_each_vector_may_have_to_be_close():
    measured = {"probes": 9, "cosine_mean": 0.995, "cosine_min": 0.985}
    assert agreement.shortfall(measured, {}) == ""
    lacks = "has a cosine with the model of 98.50% over 9 texts, needed 99.00%"
    assert agreement.shortfall(measured, onnx_format.AGREEMENT["weight_only"]) == lacks


@pytest.mark.parametrize(
    ("head", "format", "options", "sentence"),
    [
        ("sequence_classifier", "onnx", {"quantize": "int4"}, r"one of float16, dynamic, weight_only, got 'int4'\.$"),
        ("sequence_classifier", "tflite", {"quantize": "int4"}, r"one of float16, dynamic, int8, got 'int4'\.$"),
        ("sequence_classifier", "saved_model", {"quantize": "dynamic"}, r"`saved_model` takes no option `quantize`\.$"),
        ("sequence_classifier", "onnx", {"evaluation": []}, r"`evaluation` must hold at least one text, got none\.$"),
        ("sequence_classifier", "onnx", {"evaluation": ["a", 3]}, r"`texts\[1\]` must be a string, got int\.$"),
        ("multiple_choice", "onnx", {"evaluation": ["a"]}, r"a head for one text or pair, got multiple_choice\.$"),
    ],
)
def test_wrong_arguments(head, format, options, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        export(tiny_bundle(head), tmp_path / "out", format, **options)
    assert not list(tmp_path.iterdir())


def test_pairs_for_a_file_of_single_texts(tmp_path):
    bundle, out = tiny_bundle("sequence_classifier"), tmp_path / "out"
    with pytest.raises(ValueError, match=r"takes `inputs` 'text', but what it is to be asked are pairs of texts\.$"):
        export(bundle, out, "tflite", evaluation=[("a", "b")], inputs="text")


def test_weights_as_int8():
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(40, 50)).astype("float32") for name in ("matrix", "table")}
    weights["table"][3] *= 100
    weights["matrix"][:, 3] *= 100
    gather = onnx.helper.make_node("Gather", ["table", "ids"], ["rows"])
    product = onnx.helper.make_node("MatMul", ["x", "matrix"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([gather, product], "g", [], []))
    for name, value in {**weights, "small": np.ones((3, 3), "float32"), "bias": np.ones(2000, "float32")}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx_quantization.store_as_int8(model)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {name: value.dtype.name for name, value in stored.items()} == {
        **{f"{name}/int8": "int8" for name in weights},
        **{f"{name}/scales": "float32" for name in weights},
        "small": "float32",
        "bias": "float32",
    }
    assert [stored[f"{name}/scales"].shape for name in weights] == [(1, 50), (40, 1)]
    for name, value in weights.items():
        error = np.abs(stored[f"{name}/int8"] * stored[f"{name}/scales"] - value)
        assert (error <= stored[f"{name}/scales"] * 0.501).all()
    assert [node.op_type for node in model.graph.node] == ["Cast", "Mul", "Cast", "Mul", "Gather", "MatMul"]


def test_halved_weights():
    rng = np.random.default_rng(0)
    weights = {"large": rng.normal(size=(40, 40)), "beyond": rng.normal(size=(40, 40)) * 1e5, "small": np.ones(40)}
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []))
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value.astype("float32"), name))
    onnx_quantization.halve(model)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    float16, float32 = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    assert stored == {"large/float16": float16, "beyond": float32, "small": float32}
    (cast,) = model.graph.node
    assert (cast.op_type, *cast.input, *cast.output) == ("Cast", "large/float16", "large")


@pytest.mark.slow
def test_genuine_weights_keep_their_answers_on_sst2(minilm, tmp_path):
    from keras_bert.training.examples import read_examples
    from keras_bert.training.recipes.classify import Classify, run

    train, dev = tmp_path / "train.tsv", shared_data("sst2/dev.tsv")
    lines = shared_data("sst2/train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    train.write_text("".join(lines[:8001]), encoding="utf-8")
    out = str(tmp_path / "sst2")
    run(Classify(str(minilm), str(train), out, epochs=1, batch_size=32, learning_rate=1e-4, max_length=64))
    bundle, texts = keras_bert.load(out), read_examples(dev).texts
    seen = [line.split("\t")[0] for line in lines[9000:9064]]
    needed = {  # the agreement, and of the weights' bytes
        "tflite": {"float16": (0.995, 0.55), "dynamic": (0.985, 0.30), "int8": (0.98, 0.40)},
        "onnx": {"float16": (0.995, 0.55), "dynamic": (0.98, 0.30), "weight_only": (0.995, 0.30)},
    }
    for format, ways in needed.items():
        for quantize, (share, size) in ways.items():
            sizes = {"max_length": 64} if format == "tflite" else {}
            if quantize == "int8":
                sizes["calibration"] = seen
            report = export(bundle, tmp_path / "out", format, evaluation=texts, quantize=quantize, **sizes)
            assert report["agreement"] >= share
            assert report["bytes"] < size * 91e6
