"""Gives a model its weights, all of them or none."""

import contextlib
import functools

import keras
from keras import ops

from keras_bert.initializers import weights_follow


def assign_weights(model, arrays):
    """Sets every weight of `model` from `arrays`, or changes nothing.

    Args:
        model: a built `keras.Model`.
        arrays: dict from weight path to array of the weight's shape.

    Raises:
        ValueError: a weight has no array, an array has no weight, or a shape differs; no weight was changed.
    """
    weights = {weight.path: weight for weight in model.weights}
    missing, unused = sorted(weights.keys() - arrays.keys()), sorted(arrays.keys() - weights.keys())
    if missing or unused:
        raise ValueError(f"The names do not match. Without an array: {missing}. Without a weight: {unused}.")
    _check_shapes(weights, {path: array.shape for path, array in arrays.items()})
    for path, weight in weights.items():
        weight.assign(arrays[path])


@contextlib.contextmanager
def weights_from():
    """Gives a function that sets with what the weights of a model start that is built inside the block.

    They come into being when the block ends: none is drawn or filled before it is read, and one at a time is in memory
    twice. The function takes the model and a dict from weight path to (shape, function that reads the array); weights
    without one start by their own initializers.

    Raises:
        ValueError: a shape differs; or what a reader raises.
    """
    failures = []
    with contextlib.ExitStack() as scope:
        scope.enter_context(keras.StatelessScope())
        try:
            yield functools.partial(_start, failures)
        except BaseException:
            with weights_follow():  # nobody will see these weights
                scope.close()
            raise
    if failures:
        raise failures[0]


def _start(failures, model, readers):
    weights = {weight.path: weight for weight in model.weights if weight.path in readers}
    _check_shapes(weights, {path: shape for path, (shape, _) in readers.items()})
    for path, weight in weights.items():
        weight._initializer = functools.partial(_read, failures, readers[path][1])  # Keras has no public way


def _read(failures, reader, shape, dtype=None):
    try:
        if failures:
            return ops.zeros(shape, dtype)
        array = reader()
        turned = array.ndim == 2 and not array.flags.c_contiguous  # Keras turns in several threads, NumPy in one
        tensor = ops.transpose(ops.convert_to_tensor(array.T)) if turned else ops.convert_to_tensor(array)
        return ops.cast(tensor, dtype)
    except Exception as error:  # raised when the block ends: Keras has to get through its list of weights
        failures.append(error)
        return ops.zeros(shape, dtype)


def _check_shapes(weights, shapes):
    pairs = {path: (tuple(weight.shape), tuple(shapes[path])) for path, weight in weights.items()}
    wrong = [f"{path} must be {want}, got {got}" for path, (want, got) in pairs.items() if want != got]
    if wrong:
        raise ValueError(f"The shapes do not match: {'; '.join(wrong)}.")
