"""Distillation on one device and on two, for test_distillation.py: TensorFlow takes its devices once a process.

`python -m tests.training.distill_on_replicas` prints the largest difference of losses and of weights after three steps.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from keras_bert.training.distillation import distillation_objectives, distillation_targets, distiller, student_of
from keras_bert.training.distribution import prepare
from keras_bert.training.strategies import strategy
from tests.models import tiny_features
from tests.training.test_distillation import MASKED, tiny

WEIGHTS = {"soft": 2.0, "labels": 0.5, "hidden": 3.0, "value_relations": 1.0}


def trained(name):
    """Losses, and the student's weights."""
    with strategy(name).scope():
        teacher = tiny(MASKED)
        student = student_of(teacher, (2, 4))
        model = prepare(distiller(student.model, teacher.model, WEIGHTS))
        model.compile(keras.optimizers.SGD(0.05), **distillation_objectives(WEIGHTS))
    x = tiny_features(teacher.config, batch=4)  # rows of unequal lengths, and unequal numbers of masked tokens
    x["masked_positions"] = np.array([[1, 6], [0, 0], [2, 3], [1, 1]], "int32")
    y = np.array([[3, 4], [5, 0], [0, 6], [1, 2]], "int32")
    weights = np.array([[1, 1], [1, 0], [0, 1], [0, 0]], "float32")
    data = tf.data.Dataset.from_tensors((x, y, weights)).map(distillation_targets(WEIGHTS)).repeat(3)
    history = model.fit(data, shuffle=False, verbose=0).history
    return np.ravel(list(history.values())), np.concatenate([np.ravel(weight) for weight in student.model.weights])


if __name__ == "__main__":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = trained("none"), trained("mirrored")
    print(max(float(np.abs(a - b).max()) for a, b in zip(one, two, strict=True)))
