"""Uses TensorFlow. Batches that can be begun at any step, shared by workers, and made by a tf.data service."""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from keras_bert.training.packing import WINDOW
from keras_bert.training.service import through_service

plain = tf.autograph.experimental.do_not_convert  # with autograph a first pipeline took twice as long to trace
MOST_SERVED = 2_000_000_000  # bytes: the pipeline travels as one message, which may have 2 GiB
ENDLESS = tf.int64.max - WINDOW  # a number of examples that no run reaches
MASKS = "keras_bert_batch"  # name of the operation that makes a batch, by which `fresh_masks` finds it


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """What batches are made from.

    Args:
        examples: of one epoch.
        batch_size: rows of a batch, on all workers together.
        to_batch: (B, S) int64, numbers of examples over all epochs, -1 for none -> (x, y, sample_weight).
        plan: (number of a window, number of all examples), both () int64 -> (R, S) int64, the rows of its examples.
            None where each example has a row of its own.
        identity: a hash of what the batches are a function of.
        nbytes: of the arrays that `to_batch` holds.
    """

    examples: int
    batch_size: int
    to_batch: Callable
    plan: Callable | None
    identity: str
    nbytes: int

    def batches(self, steps=None, start=0, *, epochs=1, shard=(0, 1), parallel_calls=None, service=None):
        """Gives the batches from a place on.

        Args:
            steps: the step to end before, counted from the run's beginning; None for the end of the last of `epochs`
                epochs, whose last batch may be smaller.
            start: the step to begin at, or what `place` gave for it.
            shard: (index, count): which part of every batch is wanted, where `count` workers share the batches. The
                parts are disjoint and together the batch.
            parallel_calls: batches made at once; None lets tf.data decide. It changes nothing but the speed.
            service: address of a tf.data service that makes the batches, "grpc://host:port".

        Returns:
            tf.data.Dataset of (x, y, sample_weight).

        Raises:
            ValueError: `start` is a place in other batches, `shard` is none, or the service cannot take so large a
                corpus.
        """
        if not 0 <= shard[0] < shard[1]:
            raise ValueError(f"`shard` must be (index, count) with 0 <= index < count, got {shard}.")
        if service is not None and self.nbytes > MOST_SERVED:
            size = f"{MOST_SERVED / 1e9:g} GB, got {self.nbytes / 1e9:.1f} GB in memory"
            raise ValueError(f"A tf.data service takes corpora of {size}. Make the batches in the training process.")
        place = self._checked(start) if isinstance(start, dict) else self.place(start)
        examples = epochs * self.examples if steps is None else None
        count = max(0, (self.steps(epochs) if steps is None else steps) - place["step"])
        make = self._unpacked if self.plan is None else self._packed
        data = make(place, count, examples, shard, parallel_calls or tf.data.AUTOTUNE, service)
        return data.apply(tf.data.experimental.assert_cardinality(count)).prefetch(tf.data.AUTOTUNE)

    def place(self, step):
        """Gives where a run is after `step` steps: a small dict of JSON's types, to be saved with a checkpoint.

        It is what `Checkpoints` takes as its `place`. Packed rows are counted, from the last place that was asked for.

        Returns:
            dict: "step"; "epoch"; "window" and "row", where the next one is among the packed rows; "pipeline", which
            tells these batches from others.
        """
        if self.plan is None:
            return self._described(step, step * self.batch_size // self.examples, 0, 0)
        known = {"step": 0, "window": 0, "row": 0}
        if self._last and self._last["step"] <= step:
            known = self._last
        window, row = known["window"], known["row"] + (step - known["step"]) * self.batch_size
        while row >= (rows := self._rows(window, ENDLESS)):
            window, row = window + 1, row - rows
        self._last.update(self._described(step, window * WINDOW // self.examples, window, row))
        return dict(self._last)

    def _described(self, step, epoch, window, row):
        return {"step": step, "epoch": epoch, "window": window, "row": row, "pipeline": self.identity}

    @functools.cached_property
    def _last(self):
        return {}

    def steps(self, epochs=1):
        """Gives how many batches `epochs` epochs have; packed rows are counted."""
        rows = examples = epochs * self.examples
        if self.plan is not None:
            rows = sum(self._rows(window, examples) for window in range(-(-examples // WINDOW)))
        return -(-rows // self.batch_size)

    def _rows(self, window, examples):
        return int(self._count(tf.constant(window, tf.int64), tf.constant(examples, tf.int64)))

    @functools.cached_property
    def _count(self):
        return tf.function(lambda *window: tf.shape(self.plan(*window))[0], autograph=False)

    def _checked(self, place):
        if place["pipeline"] != self.identity:
            raise ValueError(
                "The place must be one in these batches, got one in others. Go on with the corpus, the vocabulary and "
                "the settings that the run began with."
            )
        self._last.update(place)
        return place

    def _unpacked(self, place, count, examples, shard, calls, service):
        @plain
        def batch(step):
            first = step * self.batch_size
            size = tf.minimum(first + self.batch_size, examples or ENDLESS) - first
            return self.to_batch(tf.range(*(first + border for border in borders(size, shard)))[:, None])

        data = tf.data.Dataset.range(place["step"], place["step"] + count)
        if service is not None:
            return through_service(data, batch, service, place["step"])
        return data.map(batch, calls, deterministic=True, name=MASKS)

    def _packed(self, place, count, examples, shard, calls, service):
        examples = examples or ENDLESS
        data = tf.data.Dataset.range(place["window"], -(-examples // WINDOW))

        @plain
        def plan(window):
            return self.plan(window, examples)

        if service is None:
            data = data.map(plan, calls, deterministic=True)
        else:  # whole windows are made there, and cut into batches here
            data = through_service(data, plain(lambda window: self.to_batch(plan(window))), service, place["window"])
        data = data.unbatch().skip(place["row"]).batch(self.batch_size).take(count)

        @plain
        def part(*batch):
            first, end = borders(tf.shape(tf.nest.flatten(batch)[0], tf.int64)[0], shard)
            batch = tf.nest.map_structure(lambda value: value[first:end], batch)
            return self.to_batch(*batch) if service is None else batch

        return data.map(part, calls, deterministic=True, name=MASKS)


def borders(size, shard):
    """Where a part of `size` rows begins and ends, () int64 each: `shard` is (index, count) of the equal parts."""
    index, count = shard
    return size * index // count, size * (index + 1) // count
