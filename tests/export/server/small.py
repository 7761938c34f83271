"""Small SavedModels for the server, and a server in a thread, on the loopback alone."""

import contextlib
import http.client
import json
import threading
import time

import tensorflow as tf
import uvicorn

from keras_bert.export.server import app


def write_version(path, number):
    """A SavedModel that says which version it is, how long texts are, and how many rows went through it together."""
    module = tf.Module()
    module.number = tf.Variable(number)

    def answers(text):
        rows = tf.shape(text)[0]
        return {
            "label": tf.strings.upper(text, encoding="utf-8"),
            "score": tf.cast(tf.strings.length(text), tf.float32) / 3,
            "version": tf.fill([rows], module.number),
        }

    def pairs(text, text_pair):
        return {"both": tf.strings.join([text, text_pair], "|")}

    def ids(token_ids):
        check = tf.debugging.assert_less(token_ids, 9, "`token_ids` must be from 0 to 8.")
        with tf.control_dependencies([check]):
            return {"twice": 2 * tf.identity(token_ids)}

    def spec(name):
        return tf.TensorSpec([None], tf.string, name=name)

    functions = {
        "serving_default": (answers, [spec("text")]),
        "serving_pair": (pairs, [spec("text"), spec("text_pair")]),
        "serving_ids": (ids, [tf.TensorSpec([None, None], tf.int32, name="token_ids")]),
    }
    made = {name: tf.function(function, specs).get_concrete_function() for name, (function, specs) in functions.items()}
    tf.saved_model.save(module, str(path), signatures=made)
    return path


@contextlib.contextmanager
def serving(models, limits, poll_s=0.05):
    """Runs the server in a thread; gives its port."""
    listening = app.listen("127.0.0.1", 0)
    config = uvicorn.Config(app.application(models, limits, poll_s), log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
    assert not thread.is_alive()


def wait_for(holds, timeout_s=60):
    """Waits until `holds()` is true."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def ask(port, path, body=None, method=None):
    """Gives the status and what the JSON, or the text, of the answer is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, body)
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer.status, json.loads(text) if "json" in answer.headers["content-type"] else text
    finally:
        connection.close()
