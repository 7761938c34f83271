"""Scores of classifiers, with how sure they are."""

import math
import statistics

import numpy as np


def wilson_interval(share, count):
    """The 95% interval of a share seen in `count` trials: [low, high]. Source: Wilson 1927."""
    z = statistics.NormalDist().inv_cdf(0.975)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return [round(middle - half, 4), round(middle + half, 4)]


def classification_metrics(right, answers, labels):
    """Counts what a classifier got right.

    Args:
        right, answers: (n,) int, the true class and the one answered.
        labels: list of str, the names of the classes.

    Returns:
        dict: "examples", "accuracy", "interval" (its 95% interval), and "classes": per label how many examples are of
        it, how many of these were "right", and how often it was "answered".
    """
    right, answers = np.asarray(right), np.asarray(answers)
    accuracy = float(np.mean(right == answers))
    classes = {
        label: {
            "examples": int(np.sum(right == i)),
            "right": int(np.sum((right == i) & (answers == i))),
            "answered": int(np.sum(answers == i)),
        }
        for i, label in enumerate(labels)
    }
    interval = wilson_interval(accuracy, len(right))
    return {"examples": len(right), "accuracy": round(accuracy, 4), "interval": interval, "classes": classes}
