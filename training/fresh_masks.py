"""Uses TensorFlow. Tells when `cache()` has frozen the masks of a pretraining dataset."""

import warnings

from keras_bert.training.pipeline import MASKS


def fresh_masks(data):
    """Gives a dataset for `fit` back, and warns if batches of ours are cached in it: masks would never change.

    `cache()` is right for a held-out set, which is to be the same each time. What is worth caching in training is the
    tokenized corpus, which is in memory already.

    Args:
        data: tf.data.Dataset.
    """
    waiting = [(data, False)]
    while waiting:
        dataset, cached = waiting.pop()
        if cached and getattr(dataset, "_name", None) == MASKS:  # there is no public way to look into a dataset
            warnings.warn(
                "The masks are cached: every epoch sees the same ones. Leave out the `cache()` behind them.",
                stacklevel=2,
            )
            break
        cached = cached or type(dataset).__name__.lstrip("_") in ("CacheDataset", "SnapshotDataset", "SaveDataset")
        waiting += [(source, cached) for source in dataset._inputs()]
    return data
