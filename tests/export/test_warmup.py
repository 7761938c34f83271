"""Requests for warming up, read by protocol buffers that are made here from the published numbers of the fields."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework.tensor_pb2 import TensorProto

from keras_bert.export import saved_model, warmup
from tests.models import tiny_bundle

# tensorflow_serving/apis: model.proto, predict.proto, prediction_log.proto, as far as a request needs them
MESSAGES = {
    "ModelSpec": {"name": (1, "string"), "signature_name": (3, "string")},
    "Entry": {"key": (1, "string"), "value": (2, "bytes")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "Entry")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "PredictionLog": {"predict_log": (6, "PredictLog")},
}


@pytest.fixture(scope="module")
def prediction_log():
    file = descriptor_pb2.FileDescriptorProto(name="serving_test.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if field == "inputs" else kinds.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if kind in MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".t.{kind}"
            else:
                made.type = kinds.TYPE_STRING if kind == "string" else kinds.TYPE_BYTES
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.PredictionLog"))


def read(message, data):
    """Gives (signature, inputs) of one record; nothing in it may be unknown."""
    log = message.FromString(data)
    assert log.SerializeToString(deterministic=True) == data
    request = log.predict_log.request
    assert request.model_spec.name == ""
    inputs = {entry.key: tf.make_ndarray(TensorProto.FromString(entry.value)) for entry in request.inputs}
    return request.model_spec.signature_name, inputs


def test_requests_are_answered(prediction_log, tmp_path):
    saved_model.write(tiny_bundle("multiple_choice"), tmp_path)
    run = saved_model.load(tmp_path)
    records = [read(prediction_log, record.numpy()) for record in tf.data.TFRecordDataset(str(tmp_path / warmup.FILE))]
    assert [signature for signature, _ in records] == ["serving_default"] * 2 + ["serving_ids", "serving_ids_int64"]
    assert records[0][1]["choices"].shape == (1, 3)
    for signature, inputs in records:
        assert all(np.isfinite(values).all() for values in run(signature, inputs).values())


def test_long_fields(prediction_log):
    text = np.array(["a" * 70_000], object)
    _, inputs = read(prediction_log, warmup.prediction_log("serving_default", {"text": text}))
    assert inputs["text"].tolist() == [b"a" * 70_000]
