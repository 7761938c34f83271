import concurrent.futures
import contextlib
import importlib.util
import inspect
import re
import socket
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import keras_bert
from keras_bert.export import serving
from keras_bert.export.server.batching import Limits
from keras_bert.export.server.models import Models
from keras_bert.export.server.refusal import Refusal
from tests.export.server.small import serving as served
from tests.export.server.small import write_version
from tests.models import LABELS

TEXTS = ["hello world", "", "a good film, a bad world!", "你好，世界", "é 😀 the film", "the film [MASK] good " * 20]
PAIRS = TEXTS[::-1]
CHOICES = [
    ["a film", "bad"],
    ["hello", ""],
    ["good", "bad", "你"],
    ["a", "b"],
    ["hello world", "the", "a"],
    ["c", "c , c"],
]
# head -> (what the client is asked, what `predict` is), in the same form
ASKED = {
    "sequence_classifier": lambda client: [
        {"label": found.label, "probabilities": dict(zip(LABELS, found.probabilities, strict=True))}
        for found in serving.classify(client, TEXTS)
    ],
    "sequence_regressor": lambda client: serving.score(client, TEXTS),
    "sentence_embedder": lambda client: serving.embed(client, TEXTS),
    "reranker": lambda client: serving.rerank(client, TEXTS, PAIRS),
    "next_sentence": lambda client: serving.follows(client, TEXTS, PAIRS),
    "span_extractor": lambda client: [found._asdict() for found in serving.answer(client, TEXTS, PAIRS)],
    "token_classifier": lambda client: [[found._asdict() for found in row] for row in serving.tag(client, TEXTS)],
    "masked_language_model": lambda client: [
        [[word._asdict() for word in mask] for mask in row] for row in serving.fill_mask(client, TEXTS)
    ],
    "multiple_choice": lambda client: [found._asdict() for found in serving.choose(client, TEXTS, CHOICES)],
    "replaced_token_detector": lambda client: serving.replaced(client, TEXTS),
}
DEFAULT = (("span_extractor", "http"), ("token_classifier", "grpc"))
WAYS = [
    pytest.param(head, scheme, marks=[] if (head, scheme) in DEFAULT else pytest.mark.slow)
    for head in ASKED
    for scheme in ("http", "grpc")
]


def predicted(bundle):
    """What `predict` answers, in the form that `ASKED` has."""
    pairs = {"reranker": PAIRS, "next_sentence": PAIRS, "span_extractor": PAIRS, "multiple_choice": CHOICES}
    found = keras_bert.predict(bundle, TEXTS, pairs.get(bundle.head))
    if bundle.head == "token_classifier":
        return [row["entities"] for row in found]
    return [row["probabilities"] for row in found] if bundle.head == "replaced_token_detector" else found


def assert_same(got, expected):
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(got[name], value)
    elif isinstance(expected, list) or (isinstance(expected, np.ndarray) and expected.ndim):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float | np.floating):
        assert got == pytest.approx(float(expected), rel=1e-5, abs=1e-5)  # measured below
    else:
        assert got == expected


class Servicer:
    """TensorFlow Serving's gRPC protocol, as published, from the versions of our server."""

    def __init__(self, models):
        self.models = models

    def Predict(self, request, context):
        spec = request.model_spec
        try:
            number = spec.version.value if spec.HasField("version") else None
            version = self.models.find(spec.name, number, spec.version_label or None)
            run = version.signatures[spec.signature_name or "serving_default"].run
            outputs = run({name: tf.make_ndarray(value) for name, value in request.inputs.items()})
        except Refusal as refusal:
            codes = {404: grpc.StatusCode.NOT_FOUND, 400: grpc.StatusCode.INVALID_ARGUMENT}
            context.abort(codes[refusal.status], str(refusal))
        response = predict_pb2.PredictResponse(model_spec=spec)
        for name in request.output_filter or outputs:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response

    Classify = Regress = MultiInference = GetModelMetadata = None


@contextlib.contextmanager
def serving_grpc(models):
    """Runs the servicer on the loopback; gives its port."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Servicer(models), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(20)


@contextlib.contextmanager
def connected(scheme, folder, **options):
    models = Models({"model": folder}, {("model", "stable"): 1})
    models.load()
    with serving_grpc(models) if scheme == "grpc" else served(models, Limits()) as port:
        client = serving.connect(f"{scheme}://127.0.0.1:{port}", "model", **options)
        try:
            yield client
        finally:
            client.close()


@pytest.mark.parametrize(("head", "scheme"), WAYS)
def test_the_client_gives_what_predict_gives(head, scheme, written_head):
    bundle, folder = written_head(head)
    expected = predicted(bundle)
    with connected(scheme, folder) as client:
        assert_same(ASKED[head](client), expected)
        assert_same(ASKED[head](client._replace(batch_size=4)), expected)  # in several requests, put together


def test_every_head_that_answers_texts_is_known():
    assert set(ASKED) == {name for name, head in keras_bert.HEADS.items() if head.answer is not None}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_version(folder / "1", 1)
    write_version(folder / "2", 2)
    return folder


@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize(("options", "version"), [({}, 2), ({"version": 2}, 2), ({"label": "stable"}, 1)])
def test_versions_and_labels_and_bytes(tiny, scheme, options, version):
    with connected(scheme, tiny, **options) as client:
        found = client.ask("serving_default", {"text": ["a", "é", "é".encode()]}, ("label", "version"))
        assert found["label"].tolist() == ["A", "É", "É"]
        assert found["version"].tolist() == [version] * 3
        assert client.ask("serving_pair", {"text": ["a"], "text_pair": ["b"]}, ("both",))["both"].tolist() == ["a|b"]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_model_that_is_not_there_is_an_error_of_the_caller(tiny, scheme):
    with (
        connected(scheme, tiny, version=7) as client,
        pytest.raises(ValueError, match=r"Model model has no version 7 that answers; there are \[1, 2\]"),
    ):
        serving.classify(client, ["a"])


def test_a_wrong_signature_is_an_error_of_the_caller(tiny):
    with (
        connected("http", tiny) as client,
        pytest.raises(ValueError, match="`inputs` must have text, got question, context"),
    ):
        serving.answer(client, ["a"], ["b"])


def test_an_idle_connection_that_the_server_closed_is_opened_again(tiny):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = serving.connect(f"http://127.0.0.1:{port}", "model", timeout_s=20)
        body = b'{"outputs": [0.5]}'
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)

        def answers():
            for _ in range(2):  # each connection gets one answer, and is closed though it was to be kept
                connection, _ = listening.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(answer)

        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            serving_thread = threads.submit(answers)
            assert serving.score(client, ["a"]) == [0.5]
            assert serving.score(client, ["a"]) == [0.5]
            serving_thread.result(20)
        client.close()


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_no_server_and_no_answer(scheme):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        client = serving.connect(f"{scheme}://127.0.0.1:{port}", "model", timeout_s=0.3)
        with pytest.raises(TimeoutError):
            serving.score(client, ["a"])
        client.close()
    client = serving.connect(f"{scheme}://127.0.0.1:{port}", "model", timeout_s=20)
    with pytest.raises(ConnectionError):
        serving.score(client, ["a"])
    client.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("localhost:8501", "m"), "`address` must be such as http://localhost:8501 or grpc://localhost:8500"),
        (("http://localhost", "m", 1, "stable"), "Give `version` or `label`, got 1 and 'stable'."),
    ],
)
def test_wrong_addresses(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        serving.connect(*arguments)


@pytest.mark.parametrize("texts", [["none", "a cat"], ["a cat", "none"]])
def test_answers_of_several_requests_are_put_together_whatever_is_empty(texts):
    values = {"entity_start": 2, "entity_end": 4, "entity_label": "x", "entity_score": 0.5}

    def ask(signature, inputs, outputs):
        found = inputs["text"] == ["a cat"]
        return {name: serving._typed([[values[name]] if found else []]) for name in outputs}

    found = serving.tag(serving.Client(ask, 1, None), texts)
    assert found == [[serving.Entity(2, 4, "x", 0.5, "ca")] if text == "a cat" else [] for text in texts]


def test_wrong_texts():
    client = serving.connect("http://localhost:9", "m")
    with pytest.raises(ValueError, match="`text` must be a list of strings, got one string"):
        serving.score(client, "a")
    with pytest.raises(ValueError, match="All inputs must be equally many"):
        serving.score(client, ["a", "b"], ["c"])


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'gRPC needs tensorflow-serving-api: pip install "keras3-bert\[serving\]"'):
        serving.connect("grpc://localhost:9", "m")


def test_the_guide_names_every_function():
    guide = (Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    told = re.findall(r"`(\w+)\((client, [\w, =]*)\)`", guide)
    own = [f for f in vars(serving).values() if inspect.isfunction(f) and f.__module__ == serving.__name__]
    known = [(f.__name__, str(inspect.signature(f))[1:-1]) for f in own if not f.__name__.startswith("_")]
    assert sorted(told) == sorted(pair for pair in known if pair[1].startswith("client"))
