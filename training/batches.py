"""Uses TensorFlow. Tokenized examples into batches of about equal lengths, for `fit` and for evaluation."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import permute

BUCKETS = 4
TEXTS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Rows:
    """Token rows end to end, so that they take no more memory than their texts did.

    Args:
        token_ids, segment_ids: (P,) int32 of all rows, [CLS] and [SEP] included.
        splits: (R + 1,) int64, where each row begins.
        pad_id: what shorter rows of a batch are filled with.
        truncated: how many rows were cut.
        choices: N, rows of an example, one after the other; with more than one, features are (B, N, T).
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    splits: np.ndarray
    pad_id: int
    truncated: int = 0
    choices: int = 1

    def __len__(self):
        return (len(self.splits) - 1) // self.choices

    @property
    def tokens(self):
        """(n,) int32, the length of each example's longest row."""
        return np.diff(self.splits).reshape(-1, self.choices).max(axis=1).astype("int32")


@dataclasses.dataclass(frozen=True)
class TokenLabels:
    """Labels of tokens, (P, ...) beside `Rows.token_ids`; `padding` is the label where there is no token."""

    values: np.ndarray
    padding: int = 0


def tokenize_examples(texts, pairs, tokenizer, max_length, choices=1):
    """Tokenizes once, 1,024 texts at a time: in each epoch's graph it would cost 3 ms a batch of 16.

    Args:
        texts, pairs: lists of str; `pairs` may be None.
        max_length: the most tokens of a row; longer ones are cut, longest-first, and counted.
        choices: as in `Rows`.
    """
    special = 2 if pairs is None else 3
    if max_length <= special:
        raise ValueError(f"`max_length` must be over {special}, for the special tokens and a word, got {max_length}.")

    def features(chosen, length):
        found = tokenizer([texts[i] for i in chosen], pairs and [pairs[i] for i in chosen], max_length=length)
        return found, found["padding_mask"].sum(axis=1)

    parts, truncated = [], 0
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        chosen = range(start, min(start + TEXTS_AT_ONCE, len(texts)))
        found, lengths = features(chosen, max_length)
        full = np.flatnonzero(lengths == max_length) + start  # with room for one more token they show if they were cut
        truncated += int(np.sum(features(full, max_length + 1)[1] > max_length)) if len(full) else 0
        real = found["padding_mask"] > 0
        parts.append((found["token_ids"][real], found["segment_ids"][real], lengths))
    token_ids, segment_ids, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    splits = np.concatenate([[0], np.cumsum(lengths, dtype="int64")])
    return Rows(token_ids, segment_ids, splits, tokenizer.pad_id, truncated, choices)


def rows_of_encodings(encodings, pad_id):
    """`Rows` of a list of `Encoding`s."""
    token_ids, segment_ids = (
        np.concatenate([np.array(getattr(encoding, name), "int32") for encoding in encodings])
        for name in ("ids", "segment_ids")
    )
    splits = np.cumsum([0, *(len(encoding.ids) for encoding in encodings)], dtype="int64")
    return Rows(token_ids, segment_ids, splits, pad_id)


def bucket_widths(tokens, buckets=BUCKETS, multiple=8):
    """Chooses the widths to pad to that leave the least padding.

    Args:
        tokens: (n,) int32, lengths of rows.
        buckets: the most widths to have.
        multiple: every width but the widest is a multiple of it.

    Returns:
        list of int, rising; the last one is the longest length.
    """
    rounded = np.minimum(-(-tokens // multiple) * multiple, np.max(tokens))
    widths, counts = np.unique(rounded, return_counts=True)
    rows = np.concatenate([[0], np.cumsum(counts)])  # how many are within the first j widths
    best = {0: (0, [])}  # by j: the least size of the rows within the first j widths, and the widths chosen for it
    for _ in range(buckets):
        longer = {0: (0, [])}
        for j, width in enumerate(widths.tolist(), start=1):
            shorter = ((i, *found) for i, found in best.items() if i < j)
            longer[j] = min((size + width * int(rows[j] - rows[i]), [*chosen, width]) for i, size, chosen in shorter)
        best = longer
    return best[len(widths)][1]


def padding(rows):
    """The share of padding in `rows` where each has the least of the widths that holds it."""
    widths = np.array(bucket_widths(rows.tokens))
    return 1 - float(np.diff(rows.splits).sum()) / (rows.choices * widths[np.searchsorted(widths, rows.tokens)].sum())


def training_batches(rows, labels, *, batch_size, seed, epochs, start=0, weights=None):
    """Batches of `epochs` epochs, one after the other: each epoch has ceil(n / batch_size) of them.

    An epoch shuffles the examples, sorts them by the bucket of their length, cuts them into batches and shuffles these.
    So only the epoch's longest batch may be smaller, and every batch has one of at most 4 widths. All this is a
    function of (seed, epoch): a resumed run goes on with the batches that it would have seen.

    Args:
        rows: `Rows`.
        labels: (n, ...) numbers, or `TokenLabels`.
        start: number of the batch to begin at.
        weights: what each example counts, (n,); with `TokenLabels` each token, (P,). None for all alike.

    Returns:
        tf.data.Dataset of (features, labels) or (features, labels, weights); features are "token_ids", "segment_ids",
        "padding_mask" (B, T) int32, with choices (B, N, T); labels (B, ...), of tokens (B, T, ...), int32 or float32.
    """
    count, batches = len(rows), steps_per_epoch(rows, batch_size)
    widths = bucket_widths(rows.tokens)
    bucket = tf.constant(np.searchsorted(widths, rows.tokens), tf.int32)

    def epoch_of_batches(epoch):
        order = permute(tf.range(count, dtype=tf.int64), count, seed, epoch)
        order = tf.gather(order, tf.argsort(tf.gather(bucket, order), stable=True))
        turn = permute(tf.range(batches, dtype=tf.int64), batches, seed, epoch)
        seen = tf.where(epoch == start // batches, tf.constant(start % batches, tf.int64), 0)
        return (
            tf.data.Dataset.from_tensor_slices(turn)
            .skip(seen)
            .map(lambda i: order[i * batch_size : (i + 1) * batch_size])
        )

    chosen = tf.data.Dataset.range(start // batches, epochs).flat_map(epoch_of_batches)
    data = chosen.map(_batch_maker(rows, labels, weights, widths), tf.data.AUTOTUNE, deterministic=True)
    return data.apply(tf.data.experimental.assert_cardinality(max(0, epochs * batches - start))).prefetch(2)


def evaluation_batches(rows, labels, *, batch_size, weights=None):
    """Every example once, shortest first, in the same widths; arguments and elements as in `training_batches`."""
    data = tf.data.Dataset.from_tensor_slices(evaluation_order(rows)).batch(batch_size)
    maker = _batch_maker(rows, labels, weights, bucket_widths(rows.tokens))
    return data.map(maker, tf.data.AUTOTUNE, deterministic=True).prefetch(2)


def evaluation_order(rows):
    """The numbers of the examples in the order of `evaluation_batches`, (n,) int64."""
    return np.argsort(np.searchsorted(bucket_widths(rows.tokens), rows.tokens), kind="stable")


def predict_rows(model, rows, batch_size=64):
    """The model's outputs in the examples' order: list of n arrays, those of tokens with their batch's padding."""
    outputs = [None] * len(rows)
    order = iter(evaluation_order(rows))
    for features, _ in evaluation_batches(rows, np.zeros(len(rows), "int32"), batch_size=batch_size):
        for row in np.asarray(model.predict_on_batch(features)):
            outputs[next(order)] = row
    return outputs


def steps_per_epoch(rows, batch_size):
    """How many batches an epoch has."""
    return -(-len(rows) // batch_size)


def _batch_maker(rows, labels, weights, widths):
    starts, lengths = tf.constant(rows.splits[:-1]), tf.constant(np.diff(rows.splits))
    tokens, widths = tf.constant(rows.tokens), tf.constant(widths, tf.int32)
    token_ids, segment_ids = tf.constant(rows.token_ids), tf.constant(rows.segment_ids)
    of_tokens = isinstance(labels, TokenLabels)
    label_values = _numbers(labels.values if of_tokens else labels)
    weight_values = None if weights is None else tf.constant(weights, tf.float32)

    def batch(chosen):
        width = tf.gather(widths, tf.searchsorted(widths, [tf.reduce_max(tf.gather(tokens, chosen))]))[0]
        row = tf.reshape(tf.expand_dims(chosen * rows.choices, 1) + tf.range(rows.choices, dtype=tf.int64), [-1])
        place = tf.expand_dims(tf.range(tf.cast(width, tf.int64)), 0)  # (1, T)
        inside = place < tf.expand_dims(tf.gather(lengths, row), 1)  # (R, T)
        source = tf.where(inside, tf.expand_dims(tf.gather(starts, row), 1) + place, 0)

        def placed(values, padding):
            there = tf.reshape(inside, tf.concat([tf.shape(inside), [1] * (values.shape.rank - 1)], 0))
            return tf.where(there, tf.gather(values, source), tf.cast(padding, values.dtype))

        features = {
            "token_ids": placed(token_ids, rows.pad_id),
            "segment_ids": placed(segment_ids, 0),
            "padding_mask": tf.cast(inside, tf.int32),
        }
        features = {name: tf.ensure_shape(value, [None, None]) for name, value in features.items()}
        if rows.choices > 1:
            features = {name: tf.reshape(value, [-1, rows.choices, width]) for name, value in features.items()}
        y = placed(label_values, labels.padding) if of_tokens else tf.gather(label_values, chosen)
        if weight_values is None:
            return features, y
        return features, y, placed(weight_values, 0) if of_tokens else tf.gather(weight_values, chosen)

    return batch


def _numbers(values):
    values = np.asarray(values)
    return tf.constant(values, tf.float32 if np.issubdtype(values.dtype, np.floating) else tf.int32)
