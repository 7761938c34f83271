"""Uses TensorFlow. Rows of full sentences without pairs, as RoBERTa is trained."""

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import below, example_key, stream
from keras_bert.training.pairs import Examples, row_budget


def sequence_maker(
    documents, *, max_length, cls_id, sep_id, pad_id, seed, single_documents=False, short_probability=0.0
):
    """Makes rows without pairs: [CLS] sentences [SEP].

    Either of whole sentences, as many as fit, going on with the next document after a [SEP]; a sentence is cut only if
    it alone is longer than the row. Or of a single document, filled to the end, so that the last sentence is cut: whole
    sentences would leave room that no other sequence fits into when rows are packed.

    One epoch reads the corpus about once. Example i starts at the sentence that holds token (i + u) * stride, with a
    fraction u that differs by epoch.

    Args:
        documents: TokenizedDocuments.
        max_length: T.
        cls_id, sep_id, pad_id: ids of the special tokens.
        seed: int64.
        single_documents: whether a row ends with its document.
        short_probability: share of the examples that fill a random part of the row only.

    Returns:
        Examples. Their features are "token_ids", "segment_ids" (all 0), "padding_mask", "word_ids" (B, T) int32 as
        `pair_maker` makes them; "sentences" (B, 2) int64, the half-open range that a row is taken from; and
        "example_index".

    Raises:
        ValueError: there is no sentence, `max_length` is under 4, or `short_probability` is not a share.

    Source: Liu et al. 2019, section 4.2, FULL-SENTENCES and DOC-SENTENCES. Differs: the cut of the latter's sentences.
    """
    check_sequences(documents, max_length, short_probability)
    room = max_length - 2
    # One line of tokens in which a [SEP] follows each document, and the word numbers along it.
    ends = documents.sentence_starts[documents.document_starts[1:]]
    line = tf.constant(np.insert(documents.token_ids, ends, sep_id))
    word_numbers = np.cumsum(documents.word_starts, dtype=np.int32)
    word_numbers = tf.constant(np.insert(word_numbers, ends, -1))
    document_of = np.repeat(np.arange(len(ends)), np.diff(documents.document_starts))  # of each sentence
    sizes = np.diff(documents.sentence_starts)
    starts = tf.constant(documents.sentence_starts[:-1] + document_of, tf.int64)  # of sentences, in the line
    stops = tf.constant(documents.sentence_starts[:-1] + document_of + sizes, tf.int64)
    limits = documents.document_starts[1:][document_of] if single_documents else np.full(len(sizes), len(sizes))
    limits = tf.constant(limits, tf.int64)  # where a row from each sentence ends at the latest
    cumulative = tf.constant(documents.sentence_starts[1:], tf.int64)
    total = len(documents.token_ids)
    count = -(-total // room)

    def choose(epoch, example_index):
        """The range of sentences, where it starts in the line, and how many tokens of it are taken; each (B,)."""
        key = example_key(seed, epoch, example_index)
        offset = below(stream(example_key(seed, epoch, 0), "pairs/start"), total)
        place = (example_index * total // count + offset) % total
        first = tf.searchsorted(cumulative, place, side="right", out_type=tf.int64)
        start = tf.gather(starts, first)
        budget = row_budget(key, room, short_probability)
        if single_documents:
            end = 1 + tf.searchsorted(stops, start + budget, side="left", out_type=tf.int64)  # the last one may be cut
        else:
            end = tf.searchsorted(stops, start + budget, side="right", out_type=tf.int64)  # those that end in the row
        end = tf.minimum(tf.maximum(end, first + 1), tf.gather(limits, first))
        return first, end, start, tf.minimum(tf.gather(stops, end - 1) - start, budget)

    def lengths(epoch, example_index):
        return 2 + tf.cast(choose(epoch, example_index)[-1], tf.int32)

    def make(epoch, example_index):
        first, end, start, length = choose(epoch, example_index)
        length = length[:, None]
        position = tf.range(max_length, dtype=tf.int64)[None, :]  # (1, T)
        inside = (position >= 1) & (position <= length)
        source = tf.where(inside, start[:, None] + position - 1, 0)
        real = position <= length + 1
        special = tf.where(position == 0, cls_id, tf.where(real, sep_id, pad_id))
        return {
            "token_ids": tf.where(inside, tf.gather(line, source), special),
            "segment_ids": tf.zeros_like(inside, tf.int32),
            "padding_mask": tf.cast(real, tf.int32),
            "word_ids": tf.where(inside, tf.gather(word_numbers, source), -1),
            "sentences": tf.stack([first, end], axis=1),
            "example_index": example_index,
        }

    return Examples(count, make, lengths)


def check_sequences(documents, max_length, short_probability):
    """Raises ValueError where rows cannot be made."""
    if max_length < 4:
        raise ValueError(f"`max_length` must be at least 4 for [CLS] two tokens [SEP], got {max_length}.")
    if not len(documents.token_ids):
        raise ValueError("The corpus must hold at least one token, got none.")
    if not 0 <= short_probability < 1:
        raise ValueError(f"`short_probability` must be from 0 up to 1, got {short_probability}.")
