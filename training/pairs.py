"""Uses TensorFlow. Sentence pairs for next-sentence prediction, from tokenized documents in flat arrays."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import below, example_key, stream


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments:
    """A corpus as three arrays.

    Args:
        token_ids: (N,) int32, all sentences one after the other, without special tokens.
        sentence_starts: (S + 1,) int64, where each sentence begins in `token_ids`, and N at the end.
        document_starts: (D + 1,) int64, the first sentence of each document, and S at the end.
    """

    token_ids: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray


def tokenize_documents(documents, tokenizer, texts_at_once=1024):
    """Tokenizes documents (lists of sentences); sentences without a token are left out, and documents without one."""
    sentences = [sentence for document in documents for sentence in document]
    pieces, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for start in range(0, len(sentences), texts_at_once):
        ragged = tokenizer.strings_to_ragged(tf.constant(sentences[start : start + texts_at_once], tf.string))
        pieces.append(ragged.flat_values.numpy().astype(np.int32))
        lengths.append(ragged.row_lengths().numpy())
    lengths = np.concatenate(lengths)
    document = np.repeat(np.arange(len(documents)), [len(document) for document in documents])[lengths > 0]
    return TokenizedDocuments(
        token_ids=np.concatenate(pieces),
        sentence_starts=np.cumsum([0, *lengths[lengths > 0]], dtype=np.int64),
        document_starts=np.append(np.unique(document, return_index=True)[1], len(document)).astype(np.int64),
    )


def pair_maker(documents, *, max_length, cls_id, sep_id, pad_id, seed):
    """Makes next-sentence examples: A, and B which follows it or, with probability 1/2, comes from another document.

    One epoch reads the corpus about once. Example i starts at the sentence that holds token (i + u) * stride, with a
    fraction u that differs by epoch: so the examples spread evenly, and start elsewhere each time. From there sentences
    run on until they fill the row, at least two of them, and are cut in two at a random sentence: A, and the B that
    follows. A random B starts at any sentence of any other document and is as long as the one it replaces would be.

    Args:
        documents: TokenizedDocuments with at least two documents, one of them of at least two sentences.
        max_length: T, for [CLS] A [SEP] B [SEP].
        cls_id, sep_id, pad_id: ids of the special tokens.
        seed: int64.

    Returns:
        The number of examples in an epoch, and a function (epoch, example_index) -> features, both (B,) int64. It gives
        "token_ids", "segment_ids", "padding_mask" (B, T) int32; "next_sentence_label" (B,) int32, 0 = B follows A,
        1 = it does not; "sentences" (B, 4) int64, the half-open ranges of sentences that A and B are taken from; and
        "example_index". It is all a function of (seed, epoch, example index).

    Raises:
        ValueError: too few documents or sentences, or `max_length` is under 5.

    Source: Devlin et al. 2018, section 3.1, task 2, and `create_pretraining_data.py`. Differs: exactly half of the
    chances are random (there, also every run of a single sentence); A is cut at its front and B at its end, so that
    the two still touch.
    """
    budget = max_length - 3
    check_pairs(documents, max_length)
    token_ids = tf.constant(documents.token_ids, tf.int32)
    sentence_starts = tf.constant(documents.sentence_starts, tf.int64)
    document_starts = tf.constant(documents.document_starts, tf.int64)
    document_count = len(documents.document_starts) - 1

    # A may start at every sentence that another one follows in its document; `ends` counts those sentences' tokens.
    lengths = np.diff(documents.sentence_starts)
    lengths[documents.document_starts[1:] - 1] = 0
    ends = tf.constant(np.cumsum(lengths), tf.int64)
    total = int(lengths.sum())
    count = -(-total // budget)

    def make(epoch, example_index):
        key = example_key(seed, epoch, example_index)
        offset = below(stream(example_key(seed, epoch, 0), "pairs/start"), total)
        place = (example_index * total // count + offset) % total
        start = tf.searchsorted(ends, place, side="right", out_type=tf.int64)  # the first sentence of A
        document = tf.searchsorted(document_starts, start, side="right", out_type=tf.int64) - 1
        end = run_end(start, budget, document)
        end = tf.maximum(end, start + 2)
        split = start + 1 + below(stream(key, "pairs/split"), end - start - 1)  # A is start ... split - 1

        a_length = tf.gather(sentence_starts, split) - tf.gather(sentence_starts, start)
        other = below(stream(key, "pairs/document"), document_count - 1)
        other = other + tf.cast(other >= document, tf.int64)
        first, last = tf.gather(document_starts, other), tf.gather(document_starts, other + 1)
        other_start = first + below(stream(key, "pairs/sentence"), last - first)
        other_end = run_end(other_start, tf.maximum(budget - a_length, 1), other)

        is_random = stream(key, "pairs/random") < tf.constant(2**31, tf.uint32)
        sentences = tf.stack(
            [start, split, tf.where(is_random, other_start, split), tf.where(is_random, other_end, end)], axis=1
        )
        return {
            **pack(sentences),
            "next_sentence_label": tf.cast(is_random, tf.int32),
            "sentences": sentences,
            "example_index": example_index,
        }

    def run_end(start, tokens, document):
        """The end of the shortest run of sentences from `start` that has `tokens` tokens, or the document's end."""
        wanted = tf.gather(sentence_starts, start) + tokens
        reached = tf.searchsorted(sentence_starts, wanted, side="left", out_type=tf.int64)
        return tf.minimum(reached, tf.gather(document_starts, document + 1))

    def pack(sentences):
        """[CLS] A [SEP] B [SEP] and padding; A loses its front, B its end."""
        a_start, a_end, b_start, b_end = tf.unstack(tf.gather(sentence_starts, sentences), axis=1)  # in tokens
        a_length, b_length = longest_first(a_end - a_start, b_end - b_start, budget)
        a_length, b_length = a_length[:, None], b_length[:, None]
        position = tf.range(max_length, dtype=tf.int64)[None, :]  # (1, T)
        in_a = (position >= 1) & (position <= a_length)
        in_b = (position >= a_length + 2) & (position <= a_length + b_length + 1)
        source = tf.where(in_a, position - 1 + a_end[:, None] - a_length, position - a_length - 2 + b_start[:, None])
        tokens = tf.gather(token_ids, tf.where(in_a | in_b, source, 0))  # (B, T)
        real = position <= a_length + b_length + 2
        special = tf.where(position == 0, cls_id, tf.where(real, sep_id, pad_id))
        return {
            "token_ids": tf.where(in_a | in_b, tokens, special),
            "segment_ids": tf.cast(real & (position >= a_length + 2), tf.int32),
            "padding_mask": tf.cast(real, tf.int32),
        }

    return count, make


def longest_first(a_length, b_length, budget):
    """Lengths after the longer of two has lost tokens, one by one, until both fit; A keeps the odd one."""
    half = (budget + 1) // 2
    a_kept = tf.minimum(a_length, tf.maximum(budget - b_length, half))
    return a_kept, tf.minimum(b_length, budget - a_kept)


def check_pairs(documents, max_length):
    """Raises ValueError where sentence pairs cannot be made."""
    if max_length < 5:
        raise ValueError(f"`max_length` must be at least 5 for [CLS] A [SEP] B [SEP], got {max_length}.")
    sizes = np.diff(documents.document_starts)
    if len(sizes) < 2:
        raise ValueError(
            f"Next-sentence prediction needs at least 2 documents, got {len(sizes)}. "
            "Put a blank line between documents."
        )
    if sizes.max() < 2:
        raise ValueError(
            f"Next-sentence prediction needs a document of at least 2 sentences, got {len(sizes)} documents of one."
        )
