"""Uses TensorFlow. From tokenized documents to what `fit` takes: (x, y, sample_weight) for the pretraining heads."""

import tensorflow as tf

from keras_bert.training.hashing import permute
from keras_bert.training.masking import mask_tokens, maskable_table
from keras_bert.training.pairs import pair_maker

INPUTS = ("token_ids", "segment_ids", "padding_mask", "masked_positions")


def pretraining_batches(
    documents, tokenizer, *, max_length, batch_size, max_predictions, seed, steps=None, start=0, parallel_calls=None
):
    """Batches for `pretraining_model`: new pairs, masks and order in each epoch, all decided by `seed` and the step.

    Args:
        documents: TokenizedDocuments.
        tokenizer: its `vocab` and ids of special tokens.
        max_length, max_predictions: T and P.
        steps: how many batches; None for one epoch, whose last batch may be smaller.
        start: the step to begin at: a resumed run sees the batches that it would have seen.
        parallel_calls: batches made at once; None lets tf.data decide. It changes nothing but the speed.

    Returns:
        tf.data.Dataset of (x, y, sample_weight) as `pretraining_inputs` makes them.
    """
    ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    count, make_pairs = pair_maker(documents, max_length=max_length, seed=seed, **ids)
    maskable = maskable_table(tokenizer.vocab, tokenizer.special_ids)
    examples = count if steps is None else steps * batch_size

    def batch(step):
        first = step * batch_size
        number = tf.range(first, tf.minimum(first + batch_size, examples))  # over all epochs, (B,) int64
        epoch = number // count
        features = make_pairs(epoch, permute(number % count, count, seed, epoch))
        features = mask_tokens(
            features,
            maskable=maskable,
            mask_id=tokenizer.mask_id,
            max_predictions=max_predictions,
            seed=seed,
            epoch=epoch,
        )
        return pretraining_inputs(features)

    steps = -(-examples // batch_size)
    calls = parallel_calls or tf.data.AUTOTUNE
    return tf.data.Dataset.range(start, steps).map(batch, calls, deterministic=True).prefetch(tf.data.AUTOTUNE)


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
