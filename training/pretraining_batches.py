"""Uses TensorFlow. From tokenized documents to what `fit` takes: (x, y, sample_weight) for the pretraining heads."""

import tensorflow as tf

from keras_bert.training.full_sentences import sequence_maker
from keras_bert.training.hashing import permute
from keras_bert.training.masking import mask_tokens, maskable_table
from keras_bert.training.pairs import TASKS, pair_maker
from keras_bert.training.word_masking import mask_words

PAIRINGS = (*TASKS, "full_sentences")
MASKINGS = ("tokens", "words", "spans")
SPAN_LENGTHS = (0.4, 0.3, 0.2, 0.1)  # of 1 to 4 words, as MacBERT has them
INPUTS = ("token_ids", "segment_ids", "padding_mask", "masked_positions")


def pretraining_batches(
    documents,
    tokenizer,
    *,
    max_length,
    batch_size,
    max_predictions,
    seed,
    steps=None,
    start=0,
    parallel_calls=None,
    pairing="next_sentence",
    masking="tokens",
    rate=0.15,
    short_probability=0.0,
):
    """Batches for pretraining: new pairs, masks and order in each epoch, all decided by `seed` and the step.

    Args:
        documents: TokenizedDocuments.
        tokenizer: its `vocab` and ids of special tokens.
        max_length, max_predictions: T and P.
        steps: how many batches; None for one epoch, whose last batch may be smaller.
        start: the step to begin at: a resumed run sees the batches that it would have seen.
        parallel_calls: batches made at once; None lets tf.data decide. It changes nothing but the speed.
        pairing: "next_sentence" or "sentence_order", for `pretraining_model`; "full_sentences", rows without pairs, for
            `masked_language_model`.
        masking: "tokens"; "words", whole ones; or "spans" of one to four words.
        rate: share of the tokens to choose.
        short_probability: share of the examples that fill a random part of the row only.

    Returns:
        tf.data.Dataset of (x, y, sample_weight) as `pretraining_inputs` or, without pairs, `masked_inputs` makes them.

    Raises:
        ValueError: `pairing` or `masking` is unknown, or what `pair_maker`, `sequence_maker` and `mask_tokens` raise.
    """
    make_inputs = masked_inputs if pairing == "full_sentences" else pretraining_inputs
    count, make = example_maker(
        documents,
        tokenizer,
        max_length=max_length,
        max_predictions=max_predictions,
        seed=seed,
        pairing=pairing,
        masking=masking,
        rate=rate,
        short_probability=short_probability,
    )
    examples = count if steps is None else steps * batch_size

    def batch(step):
        first = step * batch_size
        number = tf.range(first, tf.minimum(first + batch_size, examples))  # over all epochs, (B,) int64
        epoch = number // count
        return make_inputs(make(epoch, permute(number % count, count, seed, epoch)))

    steps = -(-examples // batch_size)
    calls = parallel_calls or tf.data.AUTOTUNE
    return tf.data.Dataset.range(start, steps).map(batch, calls, deterministic=True).prefetch(tf.data.AUTOTUNE)


def example_maker(
    documents, tokenizer, *, max_length, max_predictions, seed, pairing, masking, rate, short_probability
):
    """Joins pairing and masking: the number of examples in an epoch, and (epoch, example_index) -> masked features.

    Arguments and errors are those of `pretraining_batches`.
    """
    check_choice("pairing", pairing, PAIRINGS)
    check_choice("masking", masking, MASKINGS)
    options = {
        "max_length": max_length,
        "cls_id": tokenizer.cls_id,
        "sep_id": tokenizer.sep_id,
        "pad_id": tokenizer.pad_id,
        "seed": seed,
        "short_probability": short_probability,
    }
    if pairing == "full_sentences":
        count, make = sequence_maker(documents, **options)
    else:
        count, make = pair_maker(documents, task=pairing, **options)
    options = {
        "maskable": maskable_table(tokenizer.vocab, tokenizer.special_ids),
        "mask_id": tokenizer.mask_id,
        "max_predictions": max_predictions,
        "seed": seed,
        "rate": rate,
    }

    def make_masked(epoch, example_index):
        features = make(epoch, example_index)
        if masking == "tokens":
            return mask_tokens(features, epoch=epoch, **options)
        spans = SPAN_LENGTHS if masking == "spans" else None
        return mask_words(features, epoch=epoch, span_lengths=spans, **options)

    return count, make_masked


def check_choice(name, value, choices):
    """Raises ValueError where a setting is none of its choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")


def pretraining_inputs(features):
    """(x, y, sample_weight) for `pretraining_model`; x holds "masked_positions" (B, P) beside the encoder's inputs.

    y is {"mlm_logits": (B, P) int32, "nsp_logits": (B,) int32}; the weights are 1 where a token was chosen, and 1 for
    every pair.
    """
    x, labels, weights = masked_inputs(features)
    pair_labels = features["next_sentence_label"]
    y = {"mlm_logits": labels, "nsp_logits": pair_labels}
    return x, y, {"mlm_logits": weights, "nsp_logits": tf.ones_like(pair_labels, tf.float32)}


def masked_inputs(features):
    """(x, y, sample_weight) for `masked_language_model`: y (B, P) int32, weights (B, P) float32."""
    return {name: features[name] for name in INPUTS}, features["labels"], features["weights"]
