"""Uses TensorFlow. Sentence pairs for next-sentence or sentence-order prediction, from documents in flat arrays."""

import dataclasses
import typing
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import below, draw, example_key, stream
from keras_bert.training.masking import share
from keras_bert.training.words import tokenize_words

TASKS = ("next_sentence", "sentence_order")


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments:
    """A corpus as four arrays.

    Args:
        token_ids: (N,) int32, all sentences one after the other, without special tokens.
        sentence_starts: (S + 1,) int64, where each sentence begins in `token_ids`, and N at the end.
        document_starts: (D + 1,) int64, the first sentence of each document, and S at the end.
        word_starts: (N,) bool, whether a token begins a word.
    """

    token_ids: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray
    word_starts: np.ndarray


class Examples(typing.NamedTuple):
    """An epoch of examples, each a function of (seed, epoch, example index).

    Args:
        count: of examples in an epoch.
        make: (epoch, example_index), both (B,) int64 -> features.
        lengths: (epoch, example_index) -> (B,) int32, how many tokens each will have; it costs less than making them.
    """

    count: int
    make: Callable
    lengths: Callable


def tokenize_documents(documents, tokenizer, segmenter=None, texts_at_once=1024):
    """Tokenizes documents (lists of sentences); sentences without a token are left out, and documents without one.

    `segmenter` is that of `tokenize_words`.
    """
    sentences = [sentence for document in documents for sentence in document]
    parts = [(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, bool))]
    for start in range(0, len(sentences), texts_at_once):
        parts.append(tokenize_words(sentences[start : start + texts_at_once], tokenizer, segmenter))
    token_ids, lengths, word_starts = map(np.concatenate, zip(*parts, strict=True))
    document = np.repeat(np.arange(len(documents)), [len(document) for document in documents])[lengths > 0]
    return TokenizedDocuments(
        token_ids=token_ids,
        sentence_starts=np.cumsum([0, *lengths[lengths > 0]], dtype=np.int64),
        document_starts=np.append(np.unique(document, return_index=True)[1], len(document)).astype(np.int64),
        word_starts=word_starts,
    )


def pair_maker(documents, *, max_length, cls_id, sep_id, pad_id, seed, task="next_sentence", short_probability=0.0):
    """Makes sentence pairs: A, and B which follows it or, with probability 1/2, does not.

    "next_sentence" takes such a B from another document; "sentence_order" exchanges A and B.

    One epoch reads the corpus about once. Example i starts at the sentence that holds token (i + u) * stride, with a
    fraction u that differs by epoch: so the examples spread evenly, and start elsewhere each time. From there sentences
    run on until they fill the row, at least two of them, and are cut in two at a random sentence: A, and the B that
    follows. A random B starts at any sentence of any other document and is as long as the one it replaces would be.

    Args:
        documents: TokenizedDocuments with at least two documents (for sentence order, one), one of them of at least two
            sentences.
        max_length: T, for [CLS] A [SEP] B [SEP].
        cls_id, sep_id, pad_id: ids of the special tokens.
        seed: int64.
        task: "next_sentence" or "sentence_order".
        short_probability: share of the examples that fill a random part of the row only, from 2 tokens up.

    Returns:
        Examples. Their features are "token_ids", "segment_ids", "padding_mask" (B, T) int32; "word_ids" (B, T) int32,
        one number at the tokens of a word, -1 at special tokens and padding; "next_sentence_label" (B,) int32, 0 = the
        second part follows the first, 1 = it does not; "sentences" (B, 4) int64, the half-open ranges of sentences of
        the first and the second part; and "example_index".

    Raises:
        ValueError: too few documents or sentences, `max_length` is under 5, the task is unknown, or
            `short_probability` is not a share.

    Source: Devlin et al. 2018, section 3.1, task 2, and `create_pretraining_data.py`; Lan et al. 2019, section 3.1, for
    the order. Differs: exactly half of the
    chances are random (there, also every run of a single sentence); A is cut at its front and B at its end, so that
    the two still touch.
    """
    room = max_length - 3
    check_pairs(documents, max_length, task, short_probability)
    word_numbers = tf.constant(np.cumsum(documents.word_starts, dtype=np.int32))
    token_ids = tf.constant(documents.token_ids, tf.int32)
    sentence_starts = tf.constant(documents.sentence_starts, tf.int64)
    document_starts = tf.constant(documents.document_starts, tf.int64)
    document_count = len(documents.document_starts) - 1

    # A may start at every sentence that another one follows in its document; `ends` counts those sentences' tokens.
    followed = np.diff(documents.sentence_starts)
    followed[documents.document_starts[1:] - 1] = 0
    ends = tf.constant(np.cumsum(followed), tf.int64)
    total = int(followed.sum())
    count = -(-total // room)

    def choose(epoch, example_index):
        """Sentences (B, 4) of A and B, tokens that fit (B,), whether B is another one or before A (B,)."""
        key = example_key(seed, epoch, example_index)
        offset = below(stream(example_key(seed, epoch, 0), "pairs/start"), total)
        place = (example_index * total // count + offset) % total
        start = tf.searchsorted(ends, place, side="right", out_type=tf.int64)  # the first sentence of A
        document = tf.searchsorted(document_starts, start, side="right", out_type=tf.int64) - 1
        budget = row_budget(key, room, short_probability)
        end = run_end(start, budget, document)
        end = tf.maximum(end, start + 2)
        split = start + 1 + below(stream(key, "pairs/split"), end - start - 1)  # A is start ... split - 1

        a_length = tf.gather(sentence_starts, split) - tf.gather(sentence_starts, start)
        follows, before = (split, end), (start, split)
        differs = stream(key, "pairs/random") < tf.constant(2**31, tf.uint32)
        if task == "next_sentence":
            other = below(stream(key, "pairs/document"), document_count - 1)
            other = other + tf.cast(other >= document, tf.int64)
            first, last = tf.gather(document_starts, other), tf.gather(document_starts, other + 1)
            other_start = first + below(stream(key, "pairs/sentence"), last - first)
            other_end = run_end(other_start, tf.maximum(budget - a_length, 1), other)
            follows = tf.where(differs, other_start, split), tf.where(differs, other_end, end)
        return tf.stack([*before, *follows], axis=1), budget, differs

    def lengths(epoch, example_index):
        sentences, budget, _ = choose(epoch, example_index)
        a_start, a_end, b_start, b_end = tf.unstack(tf.gather(sentence_starts, sentences), axis=1)  # in tokens
        return 3 + tf.cast(sum(longest_first(a_end - a_start, b_end - b_start, budget)), tf.int32)

    def make(epoch, example_index):
        sentences, budget, differs = choose(epoch, example_index)
        swapped = differs & (task == "sentence_order")
        return {
            **pack(sentences, budget, swapped),
            "next_sentence_label": tf.cast(differs, tf.int32),
            "sentences": tf.where(swapped[:, None], tf.roll(sentences, 2, axis=1), sentences),
            "example_index": example_index,
        }

    def run_end(start, tokens, document):
        """The end of the shortest run of sentences from `start` that has `tokens` tokens, or the document's end."""
        wanted = tf.gather(sentence_starts, start) + tokens
        reached = tf.searchsorted(sentence_starts, wanted, side="left", out_type=tf.int64)
        return tf.minimum(reached, tf.gather(document_starts, document + 1))

    def pack(sentences, budget, swapped):
        """[CLS] A [SEP] B [SEP] and padding, or B first; A loses its front, B its end."""
        a_start, a_end, b_start, b_end = tf.unstack(tf.gather(sentence_starts, sentences), axis=1)  # in tokens
        a_length, b_length = longest_first(a_end - a_start, b_end - b_start, budget)
        a_start = a_end - a_length
        a_start, b_start = tf.where(swapped, b_start, a_start)[:, None], tf.where(swapped, a_start, b_start)[:, None]
        a_length, b_length = tf.where(swapped, b_length, a_length), tf.where(swapped, a_length, b_length)
        a_length, b_length = a_length[:, None], b_length[:, None]  # from here on A is the first part
        position = tf.range(max_length, dtype=tf.int64)[None, :]  # (1, T)
        in_a = (position >= 1) & (position <= a_length)
        in_b = (position >= a_length + 2) & (position <= a_length + b_length + 1)
        source = tf.where(in_a, position - 1 + a_start, position - a_length - 2 + b_start)
        source = tf.where(in_a | in_b, source, 0)
        tokens = tf.gather(token_ids, source)  # (B, T)
        real = position <= a_length + b_length + 2
        special = tf.where(position == 0, cls_id, tf.where(real, sep_id, pad_id))
        return {
            "token_ids": tf.where(in_a | in_b, tokens, special),
            "segment_ids": tf.cast(real & (position >= a_length + 2), tf.int32),
            "padding_mask": tf.cast(real, tf.int32),
            "word_ids": tf.where(in_a | in_b, tf.gather(word_numbers, source), -1),
        }

    return Examples(count, make, lengths)


def longest_first(a_length, b_length, budget):
    """Lengths after the longer of two has lost tokens, one by one, until both fit; A keeps the odd one."""
    half = (budget + 1) // 2
    a_kept = tf.minimum(a_length, tf.maximum(budget - b_length, half))
    return a_kept, tf.minimum(b_length, budget - a_kept)


def row_budget(key, room, short_probability):
    """How many tokens an example may hold: `room`, or with `short_probability` 2 to `room`; (B,) int64."""
    if not short_probability:
        return tf.fill(tf.shape(key), tf.constant(room, tf.int64))
    is_short = draw(stream(key, "pairs/short"), 0) < share(short_probability)
    return tf.where(is_short, 2 + below(stream(key, "pairs/length"), room - 1), room)


def check_pairs(documents, max_length, task, short_probability):
    """Raises ValueError where sentence pairs cannot be made."""
    if task not in TASKS:
        raise ValueError(f"`task` must be one of {', '.join(TASKS)}, got {task!r}.")
    if not 0 <= short_probability < 1:
        raise ValueError(f"`short_probability` must be from 0 up to 1, got {short_probability}.")
    if max_length < 5:
        raise ValueError(f"`max_length` must be at least 5 for [CLS] A [SEP] B [SEP], got {max_length}.")
    sizes = np.diff(documents.document_starts)
    if len(sizes) < 2 and (task == "next_sentence" or not len(sizes)):
        raise ValueError(
            f"Next-sentence prediction needs at least 2 documents, got {len(sizes)}. "
            "Put a blank line between documents."
        )
    if sizes.max() < 2:
        name = task.capitalize().replace("_", "-")
        raise ValueError(
            f"{name} prediction needs a document of at least 2 sentences, got {len(sizes)} documents of one."
        )
