import contextlib
import http.client
import json
import shutil
import socket
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert.export.server.batching import Limits
from keras_bert.export.server.models import Models
from keras_bert.export.server.versions import Signature, Spec, Version
from tests.export.server.small import ask, serving, wait_for, write_version


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "tiny"
    write_version(path / "1", 1)
    write_version(path / "2", 2)
    return path


@pytest.fixture(scope="module")
def port(folder):
    models = Models({"tiny": folder}, {("tiny", "stable"): 1})
    models.load()
    with serving(models, Limits(max_body_bytes=10_000)) as found:
        yield found


@pytest.mark.parametrize(("place", "version"), [("", 2), ("/versions/2", 2), ("/versions/1", 1), ("/labels/stable", 1)])
def test_rows_columns_versions_and_labels(port, place, version):
    url = f"/v1/models/tiny{place}:predict"
    code, answer = ask(port, url, {"instances": ["ab", "é", ""]})
    assert code == 200
    expected = [{"label": "AB", "score": 0.6666667, "version": version}, {"label": "É", "score": 0.6666667}, {}]
    assert answer["predictions"][0] == expected[0]
    assert [row["label"] for row in answer["predictions"]] == ["AB", "É", ""]
    code, answer = ask(port, url, {"inputs": {"text": ["ab"]}})
    assert (code, answer) == (200, {"outputs": {"label": ["AB"], "score": [0.6666667], "version": [version]}})


def test_signatures_by_name(port):
    url = "/v1/models/tiny:predict"
    pair = {"signature_name": "serving_pair", "instances": [{"text": "a", "text_pair": "b"}]}
    assert ask(port, url, pair) == (200, {"predictions": ["a|b"]})
    ids = {"signature_name": "serving_ids", "inputs": {"token_ids": [[1, 2]]}}
    assert ask(port, url, ids) == (200, {"outputs": [[2, 4]]})


def test_status_and_metadata(port):
    available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    both = [{"version": "2", **available}, {"version": "1", **available}]
    assert ask(port, "/v1/models/tiny") == (200, {"model_version_status": both})
    assert ask(port, "/v1/models/tiny/versions/1") == (200, {"model_version_status": both[1:]})
    assert ask(port, "/v1/models/tiny/labels/stable") == (200, {"model_version_status": both[1:]})
    code, found = ask(port, "/v1/models/tiny/metadata")
    assert code == 200
    assert found["model_spec"] == {"name": "tiny", "signature_name": "", "version": "2"}
    definition = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert definition["inputs"]["text"] == {
        "dtype": "DT_STRING",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
        "name": "serving_default_text:0",
    }
    assert sorted(definition["outputs"]) == ["label", "score", "version"]
    assert definition["method_name"] == "tensorflow/serving/predict"


@pytest.mark.parametrize(
    ("path", "body", "code", "sentence"),
    [
        (":predict", b"{", 400, "The body must be JSON in UTF-8: "),
        (":predict", b"x" * 10_001, 413, "A body may have 10000 bytes; send several requests."),
        (":predict", {"instances": [7]}, 400, "`text` must be strings, got a number."),
        (":predict", {"signature_name": "serving_ids", "instances": [[9]]}, 400, "`token_ids` must be from 0 to 8."),
        (":predict", None, 405, "Predictions are asked by POST, all else by GET; got GET."),
        ("", {"instances": ["a"]}, 405, "Predictions are asked by POST, all else by GET; got POST."),
        (":classify", {"examples": []}, 400, "These models take texts, not tf.Examples; use :predict."),
        ("/versions/3:predict", {"instances": ["a"]}, 404, "Model tiny has no version 3 that answers; there are [1"),
        ("/versions/3", None, 404, "Model tiny has no version 3 that answers; there are [1, 2]."),
        ("/labels/canary", None, 404, "Model tiny has no label canary."),
        ("/versions/x", None, 404, "There is nothing at /v1/models/tiny/versions/x; try /v1/mod"),
        ("2:predict", {"instances": ["a"]}, 404, "There is no model tiny2; this server has tiny."),
        ("2", None, 404, "There is no model tiny2; this server has tiny."),
        ("2/metadata", None, 404, "There is no model tiny2; this server has tiny."),
    ],
)
def test_refusals(port, path, body, code, sentence):
    found, answer = ask(port, f"/v1/models/tiny{path}", body)
    assert found == code, answer
    assert list(answer) == ["error"]
    assert answer["error"].startswith(sentence)
    assert "\n" not in answer["error"]


def test_other_paths_and_methods_are_json_too(port):
    assert ask(port, "/") == (404, {"error": "Not Found: GET /."})
    assert ask(port, "/healthz", b"{}") == (405, {"error": "Method Not Allowed: POST /healthz."})


def test_a_body_without_a_length_is_limited_too(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"POST /v1/models/tiny:predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):  # it is refused before all is sent
            for _ in range(20):
                connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert b" 413 " in connection.recv(1000)


def test_health_and_metrics(port):
    assert ask(port, "/healthz") == (200, {"status": "ok"})
    assert version_of(port) == 2
    ask(port, "/v1/models/nobody:predict", {"instances": ["a"]})
    code, text = ask(port, "/metrics")
    assert code == 200
    assert 'keras_bert_requests_total{model="tiny",status="200"}' in text
    assert 'keras_bert_requests_total{model="",status="404"}' in text
    assert 'keras_bert_model_version{model="tiny"} 2.0' in text
    assert 'keras_bert_request_seconds_bucket{le="0.001",model="tiny"}' in text
    assert "keras_bert_batch_rows_count" in text
    assert "process_cpu_seconds_total" in text or sys.platform != "linux"
    assert "nobody" not in text


def version_of(port):
    return ask(port, "/v1/models/tiny:predict", {"instances": ["a"]})[1]["predictions"][0]["version"]


def asking(port, seen, stop):
    """Asks one request after the other on one connection, and keeps (status, version)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        connection.request("POST", "/v1/models/tiny:predict", b'{"instances": ["a"]}')
        answer = connection.getresponse()
        body = json.loads(answer.read())
        seen.append((answer.status, body["predictions"][0]["version"] if answer.status == 200 else body))
    connection.close()


def test_a_new_version_takes_over_and_no_request_is_lost(folder, tmp_path):
    served = tmp_path / "tiny"
    shutil.copytree(folder / "1", served / "1")
    models = Models({"tiny": served})
    models.load()
    seen, stop = [], threading.Event()
    with serving(models, Limits()) as port:
        threads = [threading.Thread(target=asking, args=(port, seen, stop)) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            shutil.copytree(folder / "2", served / "2")
            wait_for(lambda: seen and seen[-1] == (200, 2))
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert ask(port, "/v1/models/tiny/versions/1")[0] == 404
    assert set(seen) == {(200, 1), (200, 2)}


def test_a_broken_new_version_is_told_and_the_old_one_stays(folder, tmp_path):
    served = tmp_path / "tiny"
    shutil.copytree(folder / "1", served / "1")
    models = Models({"tiny": served})
    models.load()
    with serving(models, Limits()) as port:
        (served / "2").mkdir()
        (served / "2" / "saved_model.pb").write_bytes(b"no model")
        wait_for(lambda: len(ask(port, "/v1/models/tiny")[1]["model_version_status"]) == 2)
        newest, old = ask(port, "/v1/models/tiny")[1]["model_version_status"]
        assert (newest["version"], newest["state"], newest["status"]["error_code"]) == ("2", "END", "UNKNOWN")
        assert newest["status"]["error_message"]
        assert (old["version"], old["state"]) == ("1", "AVAILABLE")
        assert version_of(port) == 1
        shutil.rmtree(served / "2")
        shutil.copytree(folder / "2", served / "2")  # mended
        wait_for(lambda: version_of(port) == 2)


def slow_models(seconds):
    def run(inputs):
        time.sleep(seconds)
        return {"text": inputs["text"]}

    version = Version(1, {"serving_default": Signature({"text": Spec("string", (None,))}, run)}, {})
    return SimpleNamespace(
        folders={"slow": None}, find=lambda *_: version, newest=lambda _: 1, refresh=lambda: None, entries=None
    )


def test_slow_answers_and_full_queues():
    limits = Limits(max_batch_size=1, max_queue=1, timeout_s=0.5)
    with serving(slow_models(1.0), limits) as port:
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(ask(port, "/v1/models/slow:predict", {"instances": ["a"]})))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join(30)
        codes = sorted(code for code, _ in found)
        assert codes == [429, 429, 504, 504]
        said = {code: answer["error"] for code, answer in found}
        assert said[504] == "There was no answer within 0.5 s."
        assert said[429] == "1 rows are waiting and 1 may; try again later."
        time.sleep(1.0)


def test_a_body_that_does_not_come_is_408():
    with (
        serving(slow_models(0), Limits(timeout_s=0.3)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        connection.sendall(b"POST /v1/models/slow:predict HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        assert b" 408 " in connection.recv(1000)


def test_warm_up_requests_are_replayed(folder, tmp_path):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    from keras_bert.export.server import versions

    path = shutil.copytree(folder / "1", tmp_path / "1")
    assert versions.warm_up(versions.load_version(path, 1), path) == 0
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.signature_name = "serving_ids"
    request.inputs["token_ids"].CopyFrom(tf.make_tensor_proto(np.ones((1, 3), "int32")))
    (path / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(path / versions.WARM_UP)) as file:
        file.write(log.SerializeToString())
    assert versions.warm_up(versions.load_version(path, 1), path) == 1
    request.inputs["token_ids"].CopyFrom(tf.make_tensor_proto(np.full((1, 3), 9, "int32")))
    with tf.io.TFRecordWriter(str(path / versions.WARM_UP)) as file:
        file.write(log.SerializeToString())
    models = Models({"tiny": path})
    with pytest.raises(ValueError, match="does not load: `token_ids` must be from 0 to 8"):
        models.load()


@pytest.mark.parametrize(
    ("made", "labels", "sentence"),
    [
        ((), {}, "must hold a SavedModel, or version folders such as"),
        (("1",), {("tiny", "stable"): 4}, "must hold the versions that have labels, but 4 is not there"),
        (("1",), {("other", "stable"): 1}, "A label must be one of tiny, got one of `other`"),
    ],
)
def test_a_folder_that_cannot_be_served(folder, tmp_path, made, labels, sentence):
    for name in made:
        shutil.copytree(folder / name, tmp_path / name)
    with pytest.raises(ValueError, match=sentence):
        Models({"tiny": tmp_path}, labels).load()


def test_large_requests_are_answered_too(folder):
    models = Models({"tiny": folder})
    models.load()
    texts = [f"text {i}" for i in range(4000)]
    with serving(models, Limits(max_queue=5000)) as port:
        code, answer = ask(port, "/v1/models/tiny:predict", {"instances": texts})
    assert code == 200
    assert [row["label"] for row in answer["predictions"]] == [text.upper() for text in texts]
