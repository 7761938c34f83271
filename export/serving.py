"""A client of TensorFlow Serving and of `keras-bert serve`, over REST or gRPC, that knows what each head is asked."""

import base64
import functools
import http.client
import importlib.util
import itertools
import json
import queue
import ssl
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np


class Client(NamedTuple):
    """A connection to one model.

    Args:
        ask: (signature, dict of lists of strings, names of the outputs) -> dict of arrays, strings as str.
        batch_size: most texts of a request; more are sent in several.
        close: ends the connection.
    """

    ask: Callable
    batch_size: int
    close: Callable


class Classification(NamedTuple):
    """The likeliest label, and the probabilities of all in the order of the model's labels."""

    label: str
    probabilities: list[float]


class Answer(NamedTuple):
    """A span of the context, half-open in code points; the first three are None where there is no answer."""

    answer: str | None
    start: int | None
    end: int | None
    score: float
    null_score: float


class Entity(NamedTuple):
    """A span of the text, half-open in code points, with its label."""

    start: int
    end: int
    label: str
    score: float
    text: str


class Word(NamedTuple):
    """A word for a [MASK]."""

    word: str
    probability: float


class Choice(NamedTuple):
    """The place of the likeliest choice, and the probabilities of all."""

    choice: int
    probabilities: list[float]


def connect(address, model, version=None, label=None, timeout_s=30.0, batch_size=64):
    """Gives a `Client` of a model.

    Args:
        address: "http://host:8501" or "https://..." for REST, "grpc://host:8500" or "grpcs://..." for gRPC, which needs
            the extra `serving`.
        model: its name; `version`, a number, or `label` choose another than the newest.
        timeout_s: of a request.

    The functions that take the client raise ValueError where the server refuses the request (it is wrong or too large,
    there is no such model), TimeoutError where the answer takes too long, and ConnectionError where no server is
    there, or where it has too much to do.
    """
    place = urlsplit(address)
    if place.scheme not in ("http", "https", "grpc", "grpcs") or not place.hostname:
        raise ValueError(f"`address` must be such as http://localhost:8501 or grpc://localhost:8500, got {address!r}.")
    if version is not None and label is not None:
        raise ValueError(f"Give `version` or `label`, got {version!r} and {label!r}.")
    by = _grpc if place.scheme.startswith("grpc") else _rest
    ask, close = by(place, model, version, label, timeout_s)
    return Client(ask, batch_size, close)


def classify(client, texts, pairs=None):
    """Asks a sequence_classifier; gives a `Classification` for each text, or text and pair."""
    found = _ask_texts(client, texts, pairs, ("label", "probabilities"))
    return [Classification(str(label), row.tolist()) for label, row in zip(*found, strict=True)]


def score(client, texts, pairs=None):
    """Asks a sequence_regressor; gives a float for each text, or text and pair."""
    (scores,) = _ask_texts(client, texts, pairs, ("score",))
    return scores.tolist()


def rerank(client, queries, passages):
    """Asks a reranker; gives a float for each query with its passage."""
    (scores,) = _ask(client, "serving_default", {"text": queries, "text_pair": passages}, ("score",))
    return scores.tolist()


def embed(client, texts, pairs=None):
    """Asks a sentence_embedder; gives an array (n, D) float32."""
    return _ask_texts(client, texts, pairs, ("embedding",))[0]


def follows(client, texts, pairs):
    """Asks next_sentence; gives for each text the probability that its pair follows."""
    (probabilities,) = _ask(client, "serving_default", {"text": texts, "text_pair": pairs}, ("probabilities",))
    return probabilities[:, 0].tolist()


def answer(client, questions, contexts):
    """Asks a span_extractor; gives an `Answer` for each question with its context, which may have any length."""
    names = ("answer", "start", "end", "score", "null_score")
    columns = _ask(client, "serving_default", {"question": questions, "context": contexts}, names)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Answer(*(row[:3] if row[1] >= 0 else (None, None, None)), *row[3:]) for row in rows]


def tag(client, texts):
    """Asks a token_classifier; gives a list of `Entity` for each text, which may have any length."""
    names = ("entity_start", "entity_end", "entity_label", "entity_score")
    columns = [column.tolist() for column in _ask(client, "serving_default", {"text": texts}, names)]
    found = []
    for text, *values in zip(texts, *columns, strict=True):
        text = text if isinstance(text, str) else text.decode(errors="replace")
        rows = zip(*values, strict=True)
        found.append([Entity(*row, text[row[0] : row[1]]) for row in rows if row[0] >= 0])
    return found


def fill_mask(client, texts, pairs=None):
    """Asks a masked_language_model; gives for each text a list with, for each [MASK], the likeliest `Word`s."""
    columns = _ask_texts(client, texts, pairs, ("words", "probabilities"))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        [list(itertools.starmap(Word, zip(*mask, strict=True))) for mask in zip(*row, strict=True) if mask[0][0]]
        for row in rows
    ]


def choose(client, texts, choices):
    """Asks multiple_choice; gives a `Choice` for each text with its list of choices; these may differ in number."""
    counts = [len(row) for row in choices]
    found = {}
    for count in set(counts):
        rows = [i for i, size in enumerate(counts) if size == count]
        inputs = {"text": [texts[i] for i in rows], "choices": [list(choices[i]) for i in rows]}
        columns = _ask(client, "serving_default", inputs, ("choice", "probabilities"))
        found |= zip(rows, (Choice(int(c), p.tolist()) for c, p in zip(*columns, strict=True)), strict=True)
    return [found[i] for i in range(len(counts))]


def replaced(client, texts, pairs=None):
    """Asks a replaced_token_detector; gives for each text the probabilities of its tokens, [CLS] and [SEP] included."""
    (probabilities,) = _ask_texts(client, texts, pairs, ("probabilities",))
    return [row[: np.flatnonzero(row)[-1] + 1].tolist() for row in probabilities]  # 0 stands only at padding


def _ask_texts(client, texts, pairs, outputs):
    """Asks the signature for texts, or the one for pairs."""
    if pairs is None:
        return _ask(client, "serving_default", {"text": texts}, outputs)
    return _ask(client, "serving_pair", {"text": texts, "text_pair": pairs}, outputs)


def _ask(client, signature, inputs, outputs):
    """Gives the outputs in the order of their names, (n, ...) each; of several requests, padded to the widest."""
    sizes = {name: len(values) for name, values in inputs.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"All inputs must be equally many, got {sizes}.")
    for name, values in inputs.items():
        if isinstance(values, str | bytes):
            raise ValueError(f"`{name}` must be a list of strings, got one string.")
    starts = range(0, max(1, next(iter(sizes.values()))), client.batch_size)
    parts = [
        client.ask(signature, {name: values[i : i + client.batch_size] for name, values in inputs.items()}, outputs)
        for i in starts
    ]
    return [_together([part[name] for part in parts]) for name in outputs]


def _together(arrays):
    """Puts arrays one below the other, the narrower ones padded; one without values takes the type of the others."""
    dtype = next((array.dtype for array in arrays if array.size), arrays[0].dtype)
    width = np.max([array.shape[1:] for array in arrays], axis=0)
    filler = {"O": "", "i": -1, "f": 0.0}[dtype.kind]
    padded = [
        np.pad(array.astype(dtype), [(0, 0), *((0, int(n)) for n in width - array.shape[1:])], constant_values=filler)
        for array in arrays
    ]
    return np.concatenate(padded)


def _typed(value):
    """Gives an array of strings, of int32 or of float32."""
    array = np.asarray(value)
    if array.dtype.kind in "US" or array.size == 0:
        return np.asarray(value, object)
    return array.astype("float32" if array.dtype.kind == "f" else "int32")


def _rest(place, model, version, label, timeout_s):
    path = f"{place.path.rstrip('/')}/v1/models/{quote(model, safe='')}"
    path += f"/versions/{int(version)}" if version is not None else ""
    path += f"/labels/{quote(label, safe='')}" if label is not None else ""
    kind = http.client.HTTPConnection
    if place.scheme == "https":
        kind = functools.partial(http.client.HTTPSConnection, context=ssl.create_default_context())
    idle = queue.LifoQueue()  # connections that are open and not in use

    def post(body):
        while True:
            try:
                connection, is_new = idle.get_nowait(), False
            except queue.Empty:
                connection, is_new = kind(place.hostname, place.port, timeout=timeout_s), True
            try:
                connection.request("POST", f"{path}:predict", body, {"content-type": "application/json"})
                response = connection.getresponse()
                found = response.status, response.read()
            except TimeoutError:
                connection.close()
                raise TimeoutError(f"{place.netloc} gave no answer within {timeout_s:g} s.") from None
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if is_new:
                    raise ConnectionError(f"{place.netloc} cannot be asked: {error}.") from None
                continue  # the server may have closed an idle connection
            idle.put(connection)
            return found

    def ask(signature, inputs, outputs):
        values = {name: _json_strings(strings) for name, strings in inputs.items()}
        status, body = post(json.dumps({"signature_name": signature, "inputs": values}))
        if status != 200:
            raise _refused(status, _error_of(body))
        found = json.loads(body)["outputs"]
        found = {outputs[0]: found} if len(outputs) == 1 else found
        return {name: _typed(found[name]) for name in outputs}

    def close():
        while not idle.empty():
            idle.get_nowait().close()

    return ask, close


def _json_strings(values):
    if isinstance(values, bytes):
        return {"b64": base64.b64encode(values).decode()}
    return values if isinstance(values, str) else [_json_strings(value) for value in values]


def _error_of(body):
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def _refused(status, said):
    if status in (408, 504):
        return TimeoutError(said)
    if status in (400, 404, 413):
        return ValueError(said)
    return ConnectionError(f"The server answered {status}: {said}")


def _grpc(place, model, version, label, timeout_s):
    missing = [name for name in ("grpc", "tensorflow_serving") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError('gRPC needs tensorflow-serving-api: pip install "keras3-bert[serving]"')
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    if place.scheme == "grpcs":
        channel = grpc.secure_channel(place.netloc, grpc.ssl_channel_credentials())
    else:
        channel = grpc.insecure_channel(place.netloc)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    codes = {
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    }

    def ask(signature, inputs, outputs):
        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.name, request.model_spec.signature_name = model, signature
        if version is not None:
            request.model_spec.version.value = int(version)
        if label is not None:
            request.model_spec.version_label = label
        for name, strings in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(strings, tf.string))
        try:
            response = stub.Predict(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise _refused(codes.get(error.code(), error.code().name), error.details()) from None
        arrays = {name: tf.make_ndarray(response.outputs[name]) for name in outputs}
        return {name: _decoded(array) if array.dtype == object else array for name, array in arrays.items()}

    return ask, channel.close


def _decoded(array):
    texts = np.empty(array.shape, object)
    texts.flat = [text.decode(errors="replace") for text in array.flat]
    return texts
