import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.distribution import prepare
from keras_bert.training.event_file import EventFile
from keras_bert.training.journal import EVENTS, LOG, Journal, Reports, log_interval, read_log


def events_in(folder):
    """The events of a folder, file by file in the order of their names."""
    files = sorted(str(path) for path in folder.iterdir())
    return [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(files)]


def test_an_event_file_holds_what_tensorboard_reads(tmp_path):
    for first, step in ((0, 1), (5, 6)):
        events = EventFile(tmp_path, first)
        events.write(step, {"train/mlm_loss": 2.5, "train/learning_rate": 1e-3})
        assert len(list(tmp_path.iterdir())) == (1 if first == 0 else 2)
        assert events_in(tmp_path)[-1].step == step  # readable before it is closed
        events.close()
    version, one, again, start, other = events_in(tmp_path)
    assert version.file_version == again.file_version == "brain.Event:2"
    assert {value.tag: value.simple_value for value in one.summary.value} == pytest.approx(
        {"train/mlm_loss": 2.5, "train/learning_rate": 1e-3}
    )
    assert (start.session_log.status, start.step) == (tf.compat.v1.SessionLog.START, 6)
    assert (one.step, other.step) == (1, 6)


def test_a_journal_goes_on_where_the_run_does(tmp_path):
    journal = Journal(tmp_path)
    for step in (2, 4, 6):
        journal.write(step, {"mlm_loss": float(step)})
    journal.write(6, {}, {"mlm_loss": 7.0})
    journal.close()
    with open(tmp_path / LOG, "a", encoding="utf-8") as file:
        file.write('{"step": 8, "mlm_l')  # killed while it wrote
    journal = Journal(tmp_path, first=5)
    journal.write(6, {"mlm_loss": 6.5})
    journal.close()
    assert read_log(tmp_path / LOG) == [
        {"step": 2, "mlm_loss": 2.0},
        {"step": 4, "mlm_loss": 4.0},
        {"step": 6, "mlm_loss": 6.5},
    ]
    assert len(list((tmp_path / EVENTS).iterdir())) == 2
    Journal(tmp_path).close()
    assert read_log(tmp_path / LOG) == []
    assert len(list((tmp_path / EVENTS).iterdir())) == 1


def test_a_process_that_writes_nothing(tmp_path):
    journal = Journal(None)
    journal.write(1, {"mlm_loss": 1.0})
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_the_interval_of_lines():
    assert [log_interval(steps) for steps in (1, 199, 400, 1000, 20_000, 10**6)] == [1, 1, 2, 5, 100, 100]


class Sheet:
    """A journal to look into."""

    def __init__(self):
        self.lines = []

    def write(self, step, values, held_out=None):
        self.lines.append((step, values, held_out))


def test_reports_are_means_since_the_line_before():
    x = keras.Input((1,))
    model = prepare(
        keras.Model(x, keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")(x)),
        watched={"tokens": lambda x, *_: tf.reduce_sum(x), "masked_tokens": lambda x, *_: tf.size(x)},
    )
    model.compile(keras.optimizers.SGD(0.0), "mse")
    values = np.arange(1.0, 8.0, dtype="float32").reshape(7, 1)  # step i has loss i^2 and gradient 2 i^2
    sheet, curve = Sheet(), []
    reports = Reports(
        sheet, lambda: {"loss": 0.5}, lambda logs: {"loss": float(logs["loss"])}, {3, 7}, every=2, first=0, curve=curve
    )
    model.fit(values, np.zeros_like(values), batch_size=1, shuffle=False, verbose=0, callbacks=[reports])
    lines = [(step, values) for step, values, held in sheet.lines if held is None]
    assert [step for step, _ in lines] == [2, 3, 4, 6, 7]
    assert [values["loss"] for _, values in lines] == [2.5, 9.0, 16.0, 30.5, 49.0]
    assert [values["gradient_norm"] for _, values in lines] == [5.0, 18.0, 32.0, 61.0, 98.0]
    assert {values["masked_tokens"] for _, values in lines} == {1.0}
    assert all(values["tokens_per_second"] > 0 and values["learning_rate"] == 0 for _, values in lines)
    assert [(step, held) for step, _, held in sheet.lines if held] == [(3, {"loss": 0.5}), (7, {"loss": 0.5})]
    assert curve == [
        {"step": 3, "train": {"loss": pytest.approx((1 + 4 + 9) / 3, abs=1e-4)}, "held_out": {"loss": 0.5}},
        {"step": 7, "train": {"loss": pytest.approx((16 + 25 + 36 + 49) / 4, abs=1e-4)}, "held_out": {"loss": 0.5}},
    ]
    json.dumps(sheet.lines)


def test_the_norm_is_that_of_unscaled_finite_gradients():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        x = keras.Input((1,))
        y = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", dtype="float32")(x)
        model = prepare(keras.Model(x, y), watched={})
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(keras.optimizers.SGD(0.0), "mse")
    values = np.array([[3.0], [1e25]], "float32")  # the second one's square is infinite
    logs = model.fit(values, np.zeros_like(values), batch_size=1, shuffle=False, verbose=0).history
    assert float(model.optimizer.dynamic_scale) > 1
    assert logs["gradient_norm"] == [18.0]
