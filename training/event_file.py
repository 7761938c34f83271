"""Uses TensorFlow. Scalars for TensorBoard, written without it: an event file is a TFRecord of protocol buffers."""

import os
import socket
import time
from pathlib import Path

import tensorflow as tf


class EventFile:
    """A new event file in a folder, for a run that begins or goes on.

    Args:
        folder: what `tensorboard --logdir` is given.
        first: the step that the run goes on from, or 0. TensorBoard then forgets what an earlier file has after it.
    """

    def __init__(self, folder, first=0):
        Path(folder).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 1000}.{socket.gethostname()}.{os.getpid()}"
        self.file = tf.io.TFRecordWriter(str(Path(folder) / name))
        self._write(file_version="brain.Event:2")
        if first:
            start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
            self._write(step=first + 1, session_log=start)

    def write(self, step, values):
        """Writes numbers by name, and makes them readable at once."""
        scalars = [tf.compat.v1.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=tf.compat.v1.Summary(value=scalars))
        self.file.flush()

    def close(self):
        self.file.close()

    def _write(self, **fields):
        self.file.write(tf.compat.v1.Event(wall_time=time.time(), **fields).SerializeToString())
