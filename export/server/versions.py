"""Loads versions of SavedModels and replays their warm-up requests. Uses TensorFlow, and builds no Keras model."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.export.server.refusal import Refusal

FILE = "saved_model.pb"
WARM_UP = Path("assets.extra") / "tf_serving_warmup_requests"


@dataclasses.dataclass(frozen=True)
class Spec:
    """An input: `dtype` by name; `shape`, None where a size is free."""

    dtype: str
    shape: tuple


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function of the model.

    Args:
        inputs: dict from names to `Spec`.
        run: dict of arrays -> dict of arrays; raises `Refusal` where the graph refuses its inputs.
        optional: names of inputs that have a default.
    """

    inputs: dict
    run: Callable
    optional: tuple = ()


@dataclasses.dataclass(frozen=True)
class Version:
    """A loaded SavedModel: its `number`, `signatures` by name, and `metadata` as TensorFlow Serving shows it."""

    number: int
    signatures: dict
    metadata: dict


def find_versions(folder):
    """Gives dict number -> path: the folders in `folder` with a number as name; a SavedModel itself is version 1."""
    folder = Path(folder)
    if (folder / FILE).is_file():
        return {1: folder}
    if not folder.is_dir():
        return {}
    numbered = [path for path in folder.iterdir() if path.name.isascii() and path.name.isdigit()]
    return {int(path.name): path for path in numbered if (path / FILE).is_file()}


def stamp(path):
    """Gives what changes when any file of a version does; None while files come and go."""
    try:
        files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    except OSError:
        return None


def load_version(path, number):
    """Loads a SavedModel and runs its warm-up requests, if there are any.

    Raises:
        Exception: whatever TensorFlow says of a broken folder.
    """
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((Path(path) / FILE).read_bytes())
    read = model.meta_graphs[0].signature_def
    definitions = {
        name: json_format.MessageToDict(
            definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for name, definition in read.items()
    }
    loaded = tf.saved_model.load(str(path))
    signatures = {
        name: _signature(loaded, function, read[name].defaults) for name, function in loaded.signatures.items()
    }
    version = Version(number, signatures, definitions)
    warm_up(version, path)
    return version


def warm_up(version, path):
    """Answers the requests in `assets.extra`; gives their number."""
    file = Path(path) / WARM_UP
    if not file.is_file():
        return 0
    from tensorflow_serving.apis import prediction_log_pb2

    count = 0
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        name = request.model_spec.signature_name or "serving_default"
        version.signatures[name].run({key: tf.make_ndarray(value) for key, value in request.inputs.items()})
        count += 1
    return count


def _signature(loaded, function, defaults):
    defaults = {name: tf.make_ndarray(value) for name, value in defaults.items()}
    specs = function.structured_input_signature[1]
    inputs = {name: Spec(spec.dtype.name, tuple(spec.shape)) for name, spec in sorted(specs.items())}

    def run(arrays):
        assert loaded is not None  # the function alone does not keep its variables
        given = {**defaults, **arrays}
        try:
            outputs = function(**{name: tf.constant(array, specs[name].dtype) for name, array in given.items()})
        except tf.errors.InvalidArgumentError as error:
            raise Refusal(400, _sentence(error.message)) from None
        return {name: np.asarray(value.numpy()) for name, value in outputs.items()}

    return Signature(inputs, run, tuple(defaults))


def _sentence(message):
    """The sentence of an assertion in the graph: [what was said] [what did not hold] ...; or the first line."""
    return message.split("assertion failed: [", 1)[-1].split("]", 1)[0].split("\n", 1)[0]
