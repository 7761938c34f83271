"""Uses TensorFlow. From tokenized documents to what `fit` takes: (x, y, sample_weight) for the pretraining heads."""

import dataclasses
import hashlib
import json
import math

import tensorflow as tf

from keras_bert.training.full_sentences import sequence_maker
from keras_bert.training.hashing import permute
from keras_bert.training.masking import BERT_SHARES, mask_tokens, maskable_table
from keras_bert.training.packing import pack_masked, window_planner
from keras_bert.training.pairs import TASKS, Examples, pair_maker
from keras_bert.training.pipeline import Pipeline
from keras_bert.training.word_masking import mask_words

PAIRINGS = (*TASKS, "full_sentences", "single_documents")
MASKINGS = ("tokens", "words", "spans")
SPAN_LENGTHS = (0.4, 0.3, 0.2, 0.1)  # of 1 to 4 words, as MacBERT has them
INPUTS = ("token_ids", "segment_ids", "padding_mask", "sequence_ids", "masked_positions")


def pretraining_batches(
    documents, tokenizer, *, steps=None, start=0, shard=(0, 1), parallel_calls=None, service=None, **options
):
    """Gives the batches of `pretraining_pipeline`.

    Args:
        documents, tokenizer, options: those of `pretraining_pipeline`.
        steps, start, shard, parallel_calls, service: those of `Pipeline.batches`.

    Returns:
        tf.data.Dataset of (x, y, sample_weight).
    """
    pipeline = pretraining_pipeline(documents, tokenizer, **options)
    return pipeline.batches(steps, start, shard=shard, parallel_calls=parallel_calls, service=service)


def pretraining_pipeline(
    documents,
    tokenizer,
    *,
    max_length,
    batch_size,
    max_predictions,
    seed,
    pairing="next_sentence",
    masking="tokens",
    rate=0.15,
    shares=BERT_SHARES,
    similar=None,
    short_probability=0.0,
    row_sequences=1,
):
    """Batches for pretraining: new pairs, masks and order in each epoch, all decided by `seed` and the step.

    Args:
        documents: TokenizedDocuments.
        tokenizer: its `vocab` and ids of special tokens.
        max_length, max_predictions: T and P of an example.
        pairing: "next_sentence" or "sentence_order", for `pretraining_model`; "full_sentences" or "single_documents",
            without pairs, for `masked_language_model`.
        masking: "tokens"; "words", whole ones; or "spans" of one to four words.
        rate: share of the tokens to choose.
        shares: of the chosen ones, how many become [MASK] and how many a random token.
        similar: a table from `similar_words` for words or spans, in place of [MASK].
        short_probability: share of the examples that fill a random part of the row only.
        row_sequences: S, the most examples to pack into a row of T tokens, for `packed_model`; 1 for no packing. Such a
            row has P + S predictions.

    Returns:
        A `Pipeline`, whose batches are (x, y, sample_weight) as `pretraining_inputs` or, without pairs, `masked_inputs`
        makes them.

    Raises:
        ValueError: `pairing`, `masking` or `row_sequences` is none, or what `pair_maker`, `sequence_maker` and
        `mask_tokens` raise.
    """
    settings = {
        "max_length": max_length,
        "max_predictions": max_predictions,
        "seed": seed,
        "pairing": pairing,
        "masking": masking,
        "rate": rate,
        "shares": shares,
        "similar": similar,
        "short_probability": short_probability,
    }
    check_packing(row_sequences, rate, max_length, max_predictions)
    examples = example_maker(documents, tokenizer, **settings)
    make_inputs = pretraining_inputs if pairing in TASKS else masked_inputs

    def located(number):  # among all epochs
        epoch = number // examples.count
        return epoch, permute(number % examples.count, examples.count, seed, epoch)

    def batch(numbers):
        return make_inputs(examples.make(*located(numbers[:, 0])))

    def packed_batch(numbers):
        features = examples.make(*located(numbers[numbers >= 0]))
        return make_inputs(
            pack_masked(features, numbers, max_length, max_predictions + row_sequences, tokenizer.pad_id)
        )

    plan = None
    if row_sequences > 1:
        plan = window_planner(lambda n: examples.lengths(*located(n)), max_length, row_sequences, seed)
    settings |= {"batch_size": batch_size, "row_sequences": row_sequences, "vocab": tokenizer.vocab}
    identity = fingerprint({**settings, "similar": similar and vars(similar)}, documents)
    nbytes = 2 * documents.token_ids.nbytes + 5 * documents.sentence_starts.nbytes  # with word numbers, and ends
    return Pipeline(examples.count, batch_size, batch if plan is None else packed_batch, plan, identity, nbytes)


def example_maker(
    documents, tokenizer, *, max_length, max_predictions, seed, pairing, masking, rate, shares, similar,
    short_probability,
):  # fmt: skip
    """Joins pairing and masking: `Examples` whose features are masked.

    Arguments and errors are those of `pretraining_pipeline`.
    """
    check_choice("pairing", pairing, PAIRINGS)
    check_choice("masking", masking, MASKINGS)
    if similar is not None and masking == "tokens":
        raise ValueError("Similar words need `masking` to be words or spans, got tokens.")
    options = {
        "max_length": max_length,
        "cls_id": tokenizer.cls_id,
        "sep_id": tokenizer.sep_id,
        "pad_id": tokenizer.pad_id,
        "seed": seed,
        "short_probability": short_probability,
    }
    if pairing in TASKS:
        examples = pair_maker(documents, task=pairing, **options)
    else:
        examples = sequence_maker(documents, single_documents=pairing == "single_documents", **options)
    options = {
        "maskable": maskable_table(tokenizer.vocab, tokenizer.special_ids),
        "mask_id": tokenizer.mask_id,
        "max_predictions": max_predictions,
        "seed": seed,
        "rate": rate,
        "shares": shares,
    }

    def make_masked(epoch, example_index):
        features = examples.make(epoch, example_index)
        if masking == "tokens":
            return mask_tokens(features, epoch=epoch, **options)
        spans = SPAN_LENGTHS if masking == "spans" else None
        return mask_words(features, epoch=epoch, span_lengths=spans, similar=similar, **options)

    return Examples(examples.count, make_masked, examples.lengths)


def check_choice(name, value, choices):
    """Raises ValueError where a setting is none of its choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")


def check_packing(row_sequences, rate, max_length, max_predictions):
    """Raises ValueError where rows cannot be packed."""
    if row_sequences < 1:
        raise ValueError(f"`row_sequences` must be at least 1, got {row_sequences}.")
    least = math.ceil(rate * max_length)
    if row_sequences > 1 and max_predictions < least:
        raise ValueError(f"`max_predictions` must be at least {least} for packed rows, got {max_predictions}.")


def fingerprint(settings, documents):
    """A hash of settings and documents, in hexadecimal."""
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True, default=lambda array: array.tolist()).encode())
    for field in dataclasses.fields(documents):
        digest.update(getattr(documents, field.name))
    return digest.hexdigest()[:32]


def pretraining_inputs(features):
    """(x, y, sample_weight) for `pretraining_model`; x holds "masked_positions" (B, P) beside the encoder's inputs.

    y is {"mlm_logits": (B, P) int32, "nsp_logits": (B,) int32}; the weights are 1 where a token was chosen, and 1 for
    every pair. Of packed rows there is a pair in each slot, (B, S), and x has "sequence_starts".
    """
    x, labels, weights = masked_inputs(features)
    pair_labels = features["next_sentence_label"]
    pair_weights = features.get("sequence_weights")
    if pair_weights is None:
        pair_weights = tf.ones_like(pair_labels, tf.float32)
    else:
        x["sequence_starts"] = features["sequence_starts"]
    return (
        x,
        {"mlm_logits": labels, "nsp_logits": pair_labels},
        {"mlm_logits": weights, "nsp_logits": pair_weights},
    )


def masked_inputs(features):
    """(x, y, sample_weight) for `masked_language_model`: y (B, P) int32, weights (B, P) float32."""
    return {name: features[name] for name in INPUTS if name in features}, features["labels"], features["weights"]
