"""Scores of classifiers, with how sure they are."""

import math

import numpy as np

from keras_bert.training.metrics.intervals import wilson_interval


def confusion_matrix(right, answers, count):
    """How often class i was answered as j: (C, C) int."""
    cells = np.asarray(right, "int64") * count + np.asarray(answers, "int64")
    return np.bincount(cells, minlength=count * count).reshape(count, count)


def matthews(confusion):
    """Matthews correlation of a confusion matrix (C, C): from -1 to 1, 0 where all is one class.

    Source: Gorodkin 2004, which for two classes is Matthews 1975.
    """
    confusion = np.asarray(confusion, "float64")
    total, right = confusion.sum(), np.trace(confusion)
    true, answered = confusion.sum(axis=1), confusion.sum(axis=0)
    scale = math.sqrt(total**2 - np.sum(true**2)) * math.sqrt(total**2 - np.sum(answered**2))
    return float((right * total - np.dot(true, answered)) / scale) if scale else 0.0


def f1_of(right, answered, true):
    """Gives precision, recall and F1 of counts; 0 where nothing was answered, or nothing was there."""
    precision = right / answered if answered else 0.0
    recall = right / true if true else 0.0
    return precision, recall, 2 * right / (answered + true) if answered + true else 0.0


def classification_metrics(right, answers, labels):
    """Counts what a classifier got right.

    Args:
        right, answers: (n,) int, the true class and the one answered.
        labels: list of str, the names of the classes.

    Returns:
        dict: "examples", "accuracy", "interval" (its 95% interval), "f1" (the mean of the classes' F1; with two classes
        the second one's, as GLUE has it), "macro_f1", "matthews", and "classes": per label how many examples are of it,
        how many of these were "right", how often it was "answered", and its "f1".
    """
    confusion = confusion_matrix(right, answers, len(labels))
    accuracy = float(np.trace(confusion) / confusion.sum())
    true, answered = confusion.sum(axis=1), confusion.sum(axis=0)
    f1 = [f1_of(confusion[i, i], answered[i], true[i])[2] for i in range(len(labels))]
    classes = {
        label: {
            "examples": int(true[i]),
            "right": int(confusion[i, i]),
            "answered": int(answered[i]),
            "f1": round(float(f1[i]), 4),
        }
        for i, label in enumerate(labels)
    }
    return {
        "examples": len(right),
        "accuracy": round(accuracy, 4),
        "interval": wilson_interval(accuracy, len(right)),
        "f1": round(float(f1[1] if len(labels) == 2 else np.mean(f1)), 4),
        "macro_f1": round(float(np.mean(f1)), 4),
        "matthews": round(matthews(confusion), 4),
        "classes": classes,
    }


def multilabel_metrics(right, answers, labels):
    """Counts what a classifier of several labels a text got right.

    Args:
        right, answers: (n, C) of 0 and 1.

    Returns:
        dict: "examples", "accuracy" (the share of texts with all labels right), "interval", "micro_f1", "macro_f1" and
        "classes".
    """
    right, answers = np.asarray(right, bool), np.asarray(answers, bool)
    counts = [(int(np.sum(x)), int(np.sum(y)), int(np.sum(x & y))) for x, y in zip(right.T, answers.T, strict=True)]
    f1 = [f1_of(both, answered, true)[2] for true, answered, both in counts]
    true, answered, both = np.sum(counts, axis=0)
    accuracy = float(np.mean(np.all(right == answers, axis=1)))
    return {
        "examples": len(right),
        "accuracy": round(accuracy, 4),
        "interval": wilson_interval(accuracy, len(right)),
        "micro_f1": round(float(f1_of(both, answered, true)[2]), 4),
        "macro_f1": round(float(np.mean(f1)), 4),
        "classes": {
            label: {"examples": true, "right": both, "answered": answered, "f1": round(float(f1[i]), 4)}
            for i, (label, (true, answered, both)) in enumerate(zip(labels, counts, strict=True))
        },
    }


def calibration(probabilities, right, bins=10):
    """How often answers given with some probability are right.

    Args:
        probabilities: (n,) of the answer given.
        right: (n,) whether it was right.

    Returns:
        list of (mean probability, share right, count) of the bins with answers, and the expected calibration error:
        the mean distance of the two, weighted by count.

    Source: Guo et al. 2017.
    """
    probabilities, right = np.asarray(probabilities, "float64"), np.asarray(right, "float64")
    place = np.minimum((probabilities * bins).astype(int), bins - 1)
    curve = [
        (float(np.mean(probabilities[place == i])), float(np.mean(right[place == i])), int(np.sum(place == i)))
        for i in range(bins)
        if np.any(place == i)
    ]
    return curve, sum(count * abs(said - share) for said, share, count in curve) / len(right)
