"""Requests that TensorFlow Serving sends to a model before it calls it ready, written without its protocol buffers.

A TFRecord file of PredictionLog messages. The numbers of fields are those of tensorflow_serving/apis: predict.proto,
model.proto, prediction_log.proto.
"""

from pathlib import Path

import tensorflow as tf

FILE = "assets.extra/tf_serving_warmup_requests"


def write(folder, requests):
    """Writes the file.

    Args:
        folder: the SavedModel's.
        requests: (signature, arrays by name) for each request.
    """
    path = Path(folder) / FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(prediction_log(signature, inputs))


def prediction_log(signature, inputs):
    """Gives the bytes of a PredictionLog with a PredictRequest."""
    request = _field(1, _field(3, signature.encode()))  # model_spec.signature_name
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))  # a map's entry
    return _field(6, _field(1, request))  # predict_log.request


def _field(number, content):
    """A field of bytes: its number and wire type 2, the length, the bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value):
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
