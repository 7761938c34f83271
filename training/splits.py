"""Splits of examples into parts that have the same share of every class."""

import numpy as np


def stratified_folds(classes, count, seed=0):
    """Gives each example the number of its part, (n,) int, 0 to `count` - 1.

    A class's examples are spread over the parts as evenly as they can be, and so are all of them together.

    Args:
        classes: (n,) of anything that can be compared; all alike for a plain random split.
        count: of parts.

    Raises:
        ValueError: there are fewer examples than parts.
    """
    classes = np.asarray(classes)
    if not 2 <= count <= len(classes):
        raise ValueError(f"The number of parts must be from 2 to the {len(classes)} examples, got {count}.")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]  # class by class
    folds = np.empty(len(classes), "int64")
    folds[order] = np.arange(len(classes)) % count
    return folds
