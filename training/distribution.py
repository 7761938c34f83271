"""Uses TensorFlow. `prepare(model)`: the same model for `fit` on any number of devices and machines, with one answer.

What Keras 3.15 lacks, and this adds: `fit` over several machines; loss and gradients as weighted means over the whole
batch, however it is split over devices; clipping of the whole batch's gradient; accumulation; one writer.
"""

import copy

import keras
import tensorflow as tf
from keras import tree

from keras_bert.training.rematerialization import rematerialize_blocks
from keras_bert.training.strategies import is_chief, is_multi_worker


def prepare(model, accumulate=1, rematerialize=False, watched=None):
    """Gives a model that shares the layers of `model` and trains alike on one device and on many.

    with strategy("mirrored").scope():
        model = prepare(keras_bert.create(config, tokenizer, "pretraining_model").model)
        model.compile(adamw(1e-4), **pretraining_objectives())
    model.fit(data)

    A batch is that of all devices together, and its gradient that of one device: a loss that is a mean is the mean over
    the batch, and where its reduction is "mean_with_sample_weight" the sum of w * l over the sum of w. What layers add
    by `add_loss` is the mean over the devices.

    Args:
        model: a functional or sequential Keras model, such as every head's, made inside the strategy's scope.
        accumulate: how many parts, one after the other, each device makes of its share of a batch: less memory, the
            same gradient. With `jit_compile` each share must divide by it.
        rematerialize: whether encoder blocks are computed again in the backward pass instead of being kept: less
            memory, the same gradient.
        watched: dict from a name to a function of (x, y, sample_weight) to a number () of a part of a batch. The logs
            of training then have its sum over the whole batch, and "gradient_norm", the global norm before clipping:
            both as means over batches, the norm without those where it is not finite.

    Returns:
        A `keras.Model`. Its `save`, `save_weights` and `export` are those of `model`, and write on the chief only.

    Raises:
        ValueError: the model is of another kind, or was made outside of the scope.
    """
    if not (isinstance(model, keras.Model) and model.built and hasattr(model, "inputs") and hasattr(model, "outputs")):
        raise ValueError(f"`model` must be a functional or a built sequential model, got a {type(model).__name__}.")
    for name in ("train_step", "test_step", "compute_loss", "compute_metrics"):
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise ValueError(f"`model` must not have its own `{name}`: `prepare` has one, and would not call it.")
    if type(accumulate) is not int or accumulate < 1:
        raise ValueError(f"`accumulate` must be an integer of at least 1, got {accumulate!r}.")
    here = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
    if here is not None and model._distribute_strategy is not here:  # without the underscore: that of here, if none
        raise ValueError("`model` must be made inside `strategy.scope()`: this one's weights are on one device.")
    if rematerialize:
        rematerialize_blocks(model)
    with model.distribute_strategy.scope():
        return Prepared(model, accumulate, watched)


class Prepared(keras.Model):
    """What `prepare` gives.

    Attributes:
        traces: how many times a step was traced; it rises with every new kind of batch, and should soon stop.
    """

    def __init__(self, plain, accumulate, watched=None):
        if isinstance(plain, keras.Sequential):  # it has no `input` until it is called
            inputs, outputs = plain.inputs[0], plain.outputs[0]
        else:
            inputs, outputs = plain.input, plain.output
        super().__init__(inputs, outputs, name=plain.name)
        self.dtype_policy = plain.dtype_policy  # float16 asks for loss scaling
        self._plain = lambda: plain  # not an attribute, which Keras would take for a layer
        self.accumulate, self.traces = accumulate, 0
        self._watched = None if watched is None else dict(watched)
        names = [] if watched is None else ["gradient_norm", *watched]
        self._watchers = [keras.metrics.Mean(name) for name in names]

    # what is written

    def save(self, filepath, **kwargs):
        if is_chief(self.distribute_strategy):
            self._plain().save(filepath, **kwargs)

    def save_weights(self, filepath, **kwargs):
        if is_chief(self.distribute_strategy):
            self._plain().save_weights(filepath, **kwargs)

    def export(self, filepath, **kwargs):
        if is_chief(self.distribute_strategy):
            self._plain().export(filepath, **kwargs)

    # compiling

    def compile(self, *args, **kwargs):
        """As in Keras, with optimizer and metrics from inside the scope.

        Raises:
            ValueError: something was made outside, or two things do not go together.
        """
        with self.distribute_strategy.scope():
            super().compile(*args, **kwargs)
        _check(self)
        for optimizer in _optimizers(self):
            optimizer._all_reduce_sum_gradients = list  # what it gets is summed already, so that it can be clipped

    def fit(self, *args, **kwargs):
        """As in Keras.

        Raises:
            ConnectionError: another worker has gone.
        """
        try:
            return super().fit(*args, **kwargs)
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            if not is_multi_worker(self.distribute_strategy):
                raise
            message = "A worker was lost. Start all of them again: the training goes on at the last checkpoint."
            raise ConnectionError(message) from error

    @property
    def replicas(self):
        return self.distribute_strategy.num_replicas_in_sync

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras would average a batch over replicas, which fails for strings, ragged batches and several machines.

        It would also draw that batch in each `fit` and `evaluate`; here the first one after `compile` does. An iterator
        that is left can cut TensorFlow's `Dataset.cache()` short: all later ones then end where it was.
        """
        parts = (self._compile_loss, self._compile_metrics)  # new with each `compile`
        if not all(part is None or part.built for part in parts):
            if iterator is not None:
                batches = (next(iterator) for _, _, iterator in iterator)
                data_batch = tree.map_structure(self._first_replica, next(batches))
            with self.distribute_strategy.scope():
                self._symbolic_build(data_batch=data_batch)
        variables = self.metrics_variables if self.replicas > 1 else ()
        if not all(isinstance(variable.value, tf.distribute.DistributedValues) for variable in variables):
            raise ValueError("Metrics must be made inside `strategy.scope()`, got one from outside.")

    def _first_replica(self, value):
        return self.distribute_strategy.experimental_local_results(value)[0]

    # steps

    def make_train_function(self, force=False):
        if self.train_function is None or force:
            self.train_function = self._function(self.train_step)

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            self.test_function = self._function(self.test_step)

    def _function(self, step):
        """From an iterator of batches to the metrics so far. Keras's fails on several machines."""

        def step_on_batch(batch):
            self.traces += 1
            self.distribute_strategy.run(step, args=(batch,))
            return self.get_metrics_result()  # read outside of the replicas: sums over all of them

        def step_on_iterator(iterator):
            return step_on_batch(iterator.get_next())

        if not self.run_eagerly:
            whole = self.jit_compile and self.replicas == 1  # of several, each one's gradients alone are compiled
            options = {"reduce_retracing": True, "autograph": False}
            step_on_batch = tf.function(step_on_batch, jit_compile=whole, **options)
            step_on_iterator = tf.function(step_on_iterator, **options)

        def function(iterator):
            if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
                return step_on_iterator(iterator)
            return step_on_batch(next(iterator))  # `train_on_batch`

        return function

    def train_step(self, data):
        data = keras.utils.unpack_x_y_sample_weight(data)
        totals = self._sum(self._weights(data))
        gradients, losses = self._gradients_of_share(data, totals)
        *gradients, losses = self._sum([*gradients, losses])
        self._track(losses, totals)
        self._watch(data, gradients)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))

    def test_step(self, data):
        data = keras.utils.unpack_x_y_sample_weight(data)
        totals = self._sum(self._weights(data))
        _, losses = self._forward(data, totals, training=False)
        self._track(self._sum(losses), totals)

    def _sum(self, values):
        """Sums over all replicas."""
        if self.replicas == 1:
            return values
        return tf.distribute.get_replica_context().all_reduce("SUM", values)

    # losses

    def _weights(self, data):
        """What each loss is divided by, once summed over all replicas, and the number of rows: (K + 1,) float32."""
        x, _, weights = data
        rows = tf.cast(_rows(x), tf.float32)
        found = [
            tf.reduce_sum(tf.cast(_at(weights, part.path), tf.float32)) if _is_weighted(part, weights) else rows
            for part in self._compile_loss._flat_losses
        ]
        return tf.stack([*found, rows])

    def _forward(self, data, totals, training):
        """Gives the loss, and each loss with the added ones at the end (K + 1,): sums over replicas are the batch's."""
        x, y, weights = data
        y_pred = self(x, training=training)
        if self._compile_metrics is not None:
            self._compile_metrics.update_state(y, y_pred, weights)
        parts = self._compile_loss._flat_losses
        losses = [_part_of_loss(part, data, y_pred, totals[i], totals[-1]) for i, part in enumerate(parts)]
        shares = self.replicas * (self.accumulate if training else 1)
        added = sum((tf.cast(tf.reduce_sum(loss), tf.float32) for loss in self.losses), tf.constant(0.0)) / shares
        factors = [1.0 if part.loss_weights is None else part.loss_weights for part in parts]
        return sum(map(tf.multiply, losses, factors), added), tf.stack([*losses, added])

    def _track(self, losses, totals):
        """Moves the metrics of the losses: each is a mean over batches, weighted by their rows, as in Keras."""
        parts, rows = self._compile_loss._flat_losses, totals[-1] / self.replicas
        factors = [1.0 if part.loss_weights is None else part.loss_weights for part in parts]
        self._loss_tracker.update_state(tf.tensordot(losses, [*factors, 1.0], 1), sample_weight=rows)
        for metric, loss in zip(self._compile_loss.metrics, tf.unstack(losses)[:-1], strict=False):
            metric.update_state(loss, sample_weight=rows)

    def _watch(self, data, gradients):
        """Moves the metrics of what is watched."""
        if self._watched is None:
            return
        norm = tf.linalg.global_norm(gradients) / self.optimizer.scale_loss(1.0)
        finite = tf.math.is_finite(norm)  # it is not where float16 has overflowed: that step is skipped
        self._watchers[0].update_state(tf.where(finite, norm, 0.0), sample_weight=tf.cast(finite, tf.float32))
        sums = self._sum([tf.cast(count(*data), tf.float32) for count in self._watched.values()])
        for metric, value in zip(self._watchers[1:], sums, strict=True):
            metric.update_state(value)

    # gradients

    def _gradients_of_share(self, data, totals):
        """Gradients and losses of this replica's share of the batch: a list, and (K + 1,)."""
        compute = self._gradients if self.accumulate == 1 else self._accumulated
        if self.jit_compile and self.replicas > 1:
            compute = tf.function(compute, reduce_retracing=True, autograph=False, jit_compile=True)
        return compute(data, totals)

    def _gradients(self, data, totals):
        weights = self.trainable_weights
        with tf.GradientTape() as tape:
            loss, losses = self._forward(data, totals, training=True)
            loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [tf.convert_to_tensor(gradient) for gradient in gradients], losses  # dense: repeated rows have one norm

    def _accumulated(self, data, totals):
        """The same, with one part of the share after the other."""

        def body(i, gradients, losses):
            new_gradients, new_losses = self._gradients(self._part(data, i), totals)
            return i + 1, list(map(tf.add, gradients, new_gradients)), losses + new_losses

        zeros = [tf.zeros(weight.shape, weight.dtype) for weight in self.trainable_weights]
        start = (tf.constant(0), zeros, tf.zeros_like(totals))
        _, gradients, losses = tf.while_loop(lambda i, *_: i < self.accumulate, body, start, parallel_iterations=1)
        return gradients, losses

    def _part(self, data, i):
        """Rows of part `i`; where the share does not divide, some parts have one more."""
        count, rows = self.accumulate, _rows(data[0])

        def part(value):
            if self.jit_compile:  # XLA must know the size
                return tf.reshape(value, [count, rows // count, *tf.unstack(tf.shape(value)[1:])])[i]
            return value[i * rows // count : (i + 1) * rows // count]

        return tree.map_structure(lambda value: None if value is None else part(value), data)


def _rows(x):
    return tf.shape(next(value for value in tree.flatten(x) if value is not None))[0]


def _at(values, path):
    """The part of labels, outputs or weights that a loss takes; weights may be one for all losses."""
    for key in path if tree.is_nested(values) else ():
        values = values[key]
    return values


def _is_weighted(part, weights):
    """Whether a loss is divided by the sum of its weights, not by the number of its values."""
    return part.loss.reduction == "mean_with_sample_weight" and _at(weights, part.path) is not None


def _part_of_loss(part, data, y_pred, total, rows):
    """What this replica's rows add to a loss.

    Args:
        total, rows: float32, over all replicas: what `_weights` gives for this loss, and the number of rows.
    """
    x, y, weights = data
    y, y_pred, weight = _at(y, part.path), _at(y_pred, part.path), _at(weights, part.path)
    if getattr(y_pred, "_keras_mask", None) is not None:
        raise ValueError("Outputs must not carry a Keras mask, which has no mean over replicas: use sample weights.")
    summed = copy.copy(part.loss)
    summed.reduction = "sum"
    value = tf.cast(summed(y, y_pred, weight), tf.float32)
    if part.loss.reduction == "sum":
        return value
    if _is_weighted(part, weights):
        return tf.math.divide_no_nan(value, total)
    values = part.loss.call(*(tf.cast(tensor, part.loss.dtype) for tensor in (y, y_pred)))  # only its size is used
    of_one_row = tf.math.divide_no_nan(tf.cast(tf.size(values), tf.float32), tf.cast(_rows(x), tf.float32))
    return tf.math.divide_no_nan(value, of_one_row * rows)


def _optimizers(model):
    """The optimizer, and the one inside it where the loss is scaled."""
    inner = getattr(model.optimizer, "inner_optimizer", None)
    return [optimizer for optimizer in (model.optimizer, inner) if optimizer is not None]


def _check(model):
    """Refuses, before any work, what would not work or be another answer."""
    if model._compile_loss is None:
        raise ValueError("`loss` must be given: a prepared model averages compiled losses over its replicas.")
    for loss in tree.flatten(model.loss):
        if isinstance(loss, keras.losses.Loss) and (
            loss.reduction in (None, "none") or type(loss).__call__ is not keras.losses.Loss.__call__
        ):
            raise ValueError(f"The loss {loss.name} must have a reduction and Keras's own `__call__`, to be averaged.")
    if model.steps_per_execution != 1:
        raise ValueError(f"`steps_per_execution` must be 1 in a prepared model, got {model.steps_per_execution}.")
    for optimizer in _optimizers(model):
        if optimizer.gradient_accumulation_steps:
            raise ValueError("`gradient_accumulation_steps` must be left to `prepare(model, accumulate=...)`.")
        if optimizer._distribution_strategy is not model.distribute_strategy:
            raise ValueError("The optimizer must be made inside `strategy.scope()`, got one from outside.")
    devices = model.distribute_strategy.extended.worker_devices if model.replicas > 1 else ()
    if model.jit_compile and sum("CPU" in device for device in devices) > 1:
        raise ValueError("`jit_compile` must be False with several CPU devices: XLA compiles for the first one only.")
