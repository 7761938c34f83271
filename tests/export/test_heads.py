"""Every head's exports with text in, asked beside `predict`, which knows nothing of them."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.export import code_points, onnx, saved_model, strings, tflite
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config

TEXTS = ["", "  ", "你好，世界", "hello [MASK] goods film, a [MASK]!", "the bad film " * 70, "é 😀 hello"]
OTHERS = ["hello", "the goods film. " * 50, "你 好 商", "", "a b c # hello!", "film [MASK]"]
TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]
# windows with entities and with answers; one of those with fixed shapes each; all others are slow
DEFAULT = {
    ("saved_model", "token_classifier"),
    ("saved_model", "span_extractor"),
    ("tflite", "token_classifier"),
    ("tflite", "span_extractor"),
    ("onnx", "masked_language_model"),
}


def heads(*formats):
    """(format, head) for all heads that answer texts."""
    return [
        pytest.param(format, head, marks=[] if (format, head) in DEFAULT else pytest.mark.slow)
        for format in formats
        for head, facts in keras_bert.HEADS.items()
        if facts.answer
    ]


def bundle_of(head):
    if head != "token_classifier":
        return tiny_bundle(head)
    bundle = keras_bert.create(tiny_config(), keras_bert.Tokenizer(VOCAB), head, TAGS)
    randomize(bundle.model, seed=1)
    return bundle


def asked(bundle, texts=TEXTS, others=OTHERS):
    """Texts and second texts, or None, as the head takes them."""
    takes = keras_bert.HEADS[bundle.head].answer.takes
    if takes == "choices":
        return texts, [[other, text, other[:3]] for text, other in zip(texts, others, strict=True)]
    return texts, others if takes in ("pairs", "contexts") else None


def given(texts, pairs):
    """Strings by the names of the signature, whatever they are, in their order."""
    return [np.array(values).astype(object) for values in (texts, pairs) if values is not None]


def as_answers(head, rows, width):
    """What `predict` gave, as the arrays that strings are answered with."""

    def column(name, empty=None):
        return [empty if row[name] is None else row[name] for row in rows]

    if head == "sequence_classifier":
        probabilities = [list(row["probabilities"].values()) for row in rows]
        return {"label": column("label"), "probabilities": probabilities}
    if head in ("sequence_regressor", "reranker"):
        return {"score": rows}
    if head == "sentence_embedder":
        return {"embedding": rows}
    if head == "next_sentence":
        return {"probabilities": [[row, 1 - row] for row in rows]}
    if head == "multiple_choice":
        return {"choice": column("choice"), "probabilities": column("probabilities")}
    if head == "replaced_token_detector":
        return {"probabilities": [row + [0] * (width - len(row)) for row in column("probabilities")]}
    if head == "span_extractor":
        found = {"answer": column("answer", ""), "start": column("start", -1), "end": column("end", -1)}
        return found | {"score": column("score"), "null_score": column("null_score")}
    if head == "masked_language_model":
        padded = [row + [[{"word": "", "probability": 0.0}] * 5] * (width - len(row)) for row in rows]
        return {
            name: [[[found[key] for found in mask] for mask in row] for row in padded]
            for name, key in (("words", "word"), ("probabilities", "probability"))
        }
    empty = {"start": -1, "end": -1, "label": "", "score": 0.0}
    padded = [row["entities"] + [empty] * (width - len(row["entities"])) for row in rows]
    return {f"entity_{name}": [[entity[name] for entity in row] for row in padded] for name in empty}


def assert_same(got, expected, tolerance):
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        if got[name].dtype == object:
            assert got[name].tolist() == np.char.encode(np.array(values, str), "utf-8").tolist(), name
        elif np.issubdtype(got[name].dtype, np.integer):
            np.testing.assert_array_equal(got[name], values, name)
        else:
            np.testing.assert_allclose(got[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(("format", "head"), heads("saved_model"))
def test_strings_are_answered_as_predict_answers_them(format, head, tmp_path):  # P27
    bundle = bundle_of(head)
    settings = {"null_threshold": 3.0} if head == "span_extractor" else {}  # some have answers, some have not
    saved_model.write(bundle, tmp_path, **settings)
    run = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    names = {"span_extractor": ["question", "context"], "multiple_choice": ["text", "choices"]}
    names = names.get(head, ["text", "text_pair"])

    def answered(texts, pairs):
        values = zip(names, given(texts, pairs), strict=False)
        return {name: value.numpy() for name, value in run(**{n: tf.constant(v) for n, v in values}).items()}

    texts, pairs = asked(bundle)
    got = answered(texts, pairs)
    width = next(iter(got.values())).shape[1] if next(iter(got.values())).ndim > 1 else None
    assert_same(got, as_answers(head, keras_bert.predict(bundle, texts, pairs, **settings), width), 1e-6)
    if head == "token_classifier":
        assert (got["entity_start"] >= 0).sum() == 10
    if head == "span_extractor":
        assert 1 < sum(answer != b"" for answer in got["answer"]) < 6

    bytes_ = [b"", b"  ", b"\xff\xfe", b"a" * 5000, b"\xe4\xbd"]
    texts, pairs = asked(bundle, bytes_, bytes_[::-1])
    odd = answered(texts, pairs)
    assert all(np.isfinite(value).all() for value in odd.values() if value.dtype != object)
    none = [np.zeros((0, 3) if head == "multiple_choice" and i else 0, object) for i in range(1 + (pairs is not None))]
    none = (*none, None)[:2]
    assert {len(value) for value in answered(*none).values()} == {0}


@pytest.mark.slow
def test_entities_of_a_document_of_5000_words_are_those_of_predict(tmp_path):
    bundle = bundle_of("token_classifier")
    saved_model.write(bundle, tmp_path)
    words = np.random.default_rng(0).choice(["hello", "goods", "film", ",", "a", "b", "unknown", "你"], 5000)
    texts = [" ".join(words), "the film", ""]  # 200 windows, 32 at a time
    got = saved_model.load(tmp_path)("serving_default", {"text": given(texts, None)[0]})
    width = got["entity_start"].shape[1]
    assert_same(got, as_answers(bundle.head, keras_bert.predict(bundle, texts), width), 1e-6)
    assert width > 300


@pytest.mark.parametrize(("format", "head"), heads("tflite", "onnx"))
def test_code_points_are_answered_as_predict_answers_the_text(format, head, tmp_path):
    """Of texts that fit: what is longer is cut here, and read whole by `predict`."""
    bundle, module = bundle_of(head), {"tflite": tflite, "onnx": onnx}[format]
    texts = ["", "hello [MASK] goods", "你好，世界 film", "a é b"]
    texts, pairs = asked(bundle, texts, ["a film", "", "b c!", "the bad, bad world"])
    module.write(bundle, tmp_path, inputs="text", max_length=24)
    run = module.load(tmp_path)
    rows = keras_bert.predict(bundle, texts, pairs)
    labels = {"label": bundle.labels, "words": VOCAB, "entity_label": ["A", "B"]}
    for i, (text, row) in enumerate(zip(texts, rows, strict=True)):
        couple = [text] if pairs is None else [text, pairs[i]]
        names = code_points.input_names(bundle)
        got = run("serving_default", {n: code_points.encoded(t, 96) for n, t in zip(names, couple, strict=True)})
        width = next(iter(got.values())).shape[1] if next(iter(got.values())).ndim > 1 else None
        expected = as_answers(head, row[None] if head == "sentence_embedder" else [row], width)
        expected.pop("answer", None)
        for name in labels.keys() & got.keys():
            strings_ = np.array([*labels[name], ""], object)[got[name]]
            assert strings_.tolist() == expected.pop(name)
            del got[name]
        assert_same(got, expected, 1e-5)  # measured 1e-6


def test_places_count_code_points():
    texts = tf.constant(["a😀b", "你好，世界".encode(), b"\xffab", b""])
    found = strings.cut_out(texts, tf.constant([1, 3, 0, -1]), tf.constant([3, 5, 2, -1]))
    assert [text.decode() for text in found.numpy()] == ["😀b", "世界", "\ufffda", ""]


def test_windows_go_through_the_model_in_parts():
    sizes = []

    def double(part):
        sizes.append(part["token_ids"].shape)
        return {"y": part["token_ids"] * 2, "first": part["token_ids"][:, 0]}

    for count in (0, 1, 4, 5, 13):
        ids = tf.reshape(tf.range(count * 3), [count, 3])
        found = strings.in_parts(double, {"token_ids": ids}, size=4)
        np.testing.assert_array_equal(found["y"], 2 * ids.numpy())
        np.testing.assert_array_equal(found["first"], ids.numpy()[:, 0])
    assert set(sizes) == {(None, 3)}


@pytest.mark.parametrize(
    ("head", "settings", "sentence"),
    [
        ("sequence_classifier", {"stride": 38}, "`stride` must be below 38 where `max_length` is 40, got 38."),
        ("span_extractor", {"top": 2}, "`top` must be 1 in exports of a span_extractor, got 2."),
        ("span_extractor", {"stride": 20}, "`stride` must be below 19 where `max_length` is 40, got 20."),
        ("token_classifier", {"top": 2}, "`token_classifier` takes no setting `top`."),
        (None, {"top": 2}, "`top` is for answers to texts, and this export takes ids."),
    ],
)
def test_wrong_settings(head, settings, sentence, tmp_path):
    with pytest.raises(ValueError) as error:
        saved_model.write(tiny_bundle(head), tmp_path, **settings)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("module", "head", "options", "sentence"),
    [
        (onnx, "sequence_classifier", {"inputs": "word"}, "`inputs` must be one of ids, text, pair, got 'word'."),
        (onnx, "sequence_classifier", {"max_length": 9}, "`max_length` is for answers to texts, got `inputs` 'ids'."),
        (onnx, "token_classifier", {"inputs": "pair"}, "`inputs` of 'pair' needs a tokenizer and a head that answers"),
        (tflite, "sequence_classifier", {"choices": 2}, "`choices` is for text in of a multiple_choice, got"),
        (tflite, "span_extractor", {"inputs": "ids", "top": 1}, "`top` is for answers to texts, got `inputs` 'ids'."),
        (tflite, "sequence_classifier", {"stride": 3}, "`stride` is for `predict` and SavedModels, whose windows hold"),
        (onnx, "token_classifier", {"inputs": "text", "stride": 3}, "`stride` is for `predict` and SavedModels, whose"),
    ],
)
def test_wrong_options(module, head, options, sentence, tmp_path):
    with pytest.raises(ValueError) as error:
        module.write(tiny_bundle(head), tmp_path, **options)
    assert str(error.value).startswith(sentence)


def test_embeddings_of_fewer_dimensions(tmp_path):  # P35
    bundle = tiny_bundle("sentence_embedder")
    tflite.write(bundle, tmp_path, max_length=20, dimensions=5)
    run = tflite.load(tmp_path)
    found = run("serving_default", {"code_points": code_points.encoded("hello goods", 80)})["embedding"]
    np.testing.assert_allclose(found, keras_bert.predict(bundle, ["hello goods"], dimensions=5), rtol=0, atol=1e-6)
    assert abs(np.linalg.norm(found) - 1) < 1e-6
