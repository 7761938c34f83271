"""Uses TensorFlow. Labelled texts into batches of about equal lengths, for `fit` and for evaluation."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.packing import pack, packed_width, truncated
from keras_bert.tokenization.tensors import ARRAY_OPS
from keras_bert.training.hashing import permute

BUCKETS = 4
TEXTS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class TokenizedExamples:
    """Texts, or pairs, as ids end to end, so that they take no more memory than the texts did.

    Args:
        token_ids: (P,) int32 pieces of all texts, without special tokens.
        starts, lengths: (n,) int32 of the first texts in `token_ids`, cut to what fits.
        pair_starts, pair_lengths: the same for the second texts, or None.
        tokens: (n,) int32, the length of each row with its special tokens.
        truncated: how many rows were cut.
        special_ids: the ids of [CLS], [SEP], [PAD].
    """

    token_ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pair_starts: np.ndarray | None
    pair_lengths: np.ndarray | None
    tokens: np.ndarray
    truncated: int
    special_ids: tuple[int, int, int]

    def __len__(self):
        return len(self.tokens)


def tokenize_examples(texts, pairs, tokenizer, max_length):
    """Tokenizes once, 1,024 texts at a time: in each epoch's graph it would cost 3 ms a batch of 16.

    Args:
        texts, pairs: lists of str; `pairs` may be None.
        max_length: the most tokens of a row; longer ones are cut, longest-first.
    """
    special = 2 if pairs is None else 3
    if max_length <= special:
        raise ValueError(f"`max_length` must be over {special}, for the special tokens and a word, got {max_length}.")

    strings = tf.data.Dataset.from_tensor_slices([*texts, *(pairs or ())]).batch(TEXTS_AT_ONCE)
    parts, lengths = [np.zeros(1, np.int32)], []  # one id that no row uses: `pack` gathers where nothing is, too
    for ragged in strings.map(tokenizer.strings_to_ragged, tf.data.AUTOTUNE, deterministic=True):
        parts.append(ragged.flat_values.numpy())
        lengths.append(ragged.row_lengths().numpy())
    lengths = np.concatenate(lengths)
    starts = np.cumsum([1, *lengths[:-1]])
    token_ids = np.concatenate(parts)
    if len(token_ids) > np.iinfo(np.int32).max:
        raise ValueError(f"The texts must have fewer than 2^31 tokens in all, got {len(token_ids)}.")
    starts, lengths = starts.astype(np.int32), lengths.astype(np.int32)
    pair_starts = pair_lengths = None
    if pairs is not None:
        (starts, pair_starts), (lengths, pair_lengths) = np.split(starts, 2), np.split(lengths, 2)
    cut = int(np.sum(packed_width(lengths, pair_lengths) > max_length))
    lengths, pair_lengths = truncated(np, lengths, pair_lengths, max_length - special)
    tokens = packed_width(lengths, pair_lengths)
    special_ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    return TokenizedExamples(token_ids, starts, lengths, pair_starts, pair_lengths, tokens, cut, special_ids)


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


def training_batches(examples, labels, *, batch_size, seed, epochs, start=0):
    """Batches of `epochs` epochs, one after the other: each epoch has ceil(n / batch_size) of them.

    An epoch shuffles the examples, sorts them by the bucket of their length, cuts them into batches and shuffles these.
    So only the epoch's longest batch may be smaller, and every batch has one of at most 4 widths. All this is a
    function of (seed, epoch): a resumed run goes on with the batches that it would have seen.

    Args:
        examples: `TokenizedExamples`.
        labels: (n,) int.
        start: number of the batch to begin at.

    Returns:
        tf.data.Dataset of (features, labels (B,) int32); features are "token_ids", "segment_ids", "padding_mask" (B, T)
        int32.
    """
    count, batches = len(examples), steps_per_epoch(examples, batch_size)
    widths = bucket_widths(examples.tokens)
    bucket = tf.constant(np.searchsorted(widths, examples.tokens), tf.int32)

    def epoch_of_rows(epoch):
        order = permute(tf.range(count, dtype=tf.int64), count, seed, epoch)
        order = tf.gather(order, tf.argsort(tf.gather(bucket, order), stable=True))
        turn = permute(tf.range(batches, dtype=tf.int64), batches, seed, epoch)
        seen = tf.where(epoch == start // batches, tf.constant(start % batches, tf.int64), 0)
        return (
            tf.data.Dataset.from_tensor_slices(turn)
            .skip(seen)
            .map(lambda i: order[i * batch_size : (i + 1) * batch_size])
        )

    rows = tf.data.Dataset.range(start // batches, epochs).flat_map(epoch_of_rows)
    data = rows.map(_batch_maker(examples, labels, widths), tf.data.AUTOTUNE, deterministic=True)
    return data.apply(tf.data.experimental.assert_cardinality(max(0, epochs * batches - start))).prefetch(2)


def evaluation_batches(examples, labels, *, batch_size):
    """Every example once, shortest first, in the same widths: (features, labels) as `training_batches` gives them."""
    widths = bucket_widths(examples.tokens)
    order = np.argsort(np.searchsorted(widths, examples.tokens), kind="stable")
    rows = tf.data.Dataset.from_tensor_slices(order).batch(batch_size)
    return rows.map(_batch_maker(examples, labels, widths), tf.data.AUTOTUNE, deterministic=True).prefetch(2)


def steps_per_epoch(examples, batch_size):
    """How many batches an epoch has."""
    return -(-len(examples) // batch_size)


def _batch_maker(examples, labels, widths):
    arrays = {name: tf.constant(value) for name, value in vars(examples).items() if isinstance(value, np.ndarray)}
    labels, widths = tf.constant(labels, tf.int32), tf.constant(widths, tf.int32)

    def part(rows, starts, lengths):
        if starts not in arrays:
            return None
        return arrays["token_ids"], tf.gather(arrays[starts], rows), tf.gather(arrays[lengths], rows)

    def batch(rows):
        longest = tf.reduce_max(tf.gather(arrays["tokens"], rows))
        width = tf.gather(widths, tf.searchsorted(widths, [longest]))[0]
        first, second = part(rows, "starts", "lengths"), part(rows, "pair_starts", "pair_lengths")
        features = pack(ARRAY_OPS, first, second, width, *examples.special_ids)
        return {name: tf.ensure_shape(value, [None, None]) for name, value in features.items()}, tf.gather(labels, rows)

    return batch
