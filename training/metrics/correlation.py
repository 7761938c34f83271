"""Scores of models that answer with a number."""

import numpy as np


def pearson(right, answers):
    """Pearson's correlation of two (n,); 0 where one of them does not vary."""
    x, y = (np.asarray(values, "float64") - np.mean(values, dtype="float64") for values in (right, answers))
    scale = np.sqrt(np.sum(x * x) * np.sum(y * y))
    return float(np.sum(x * y) / scale) if scale else 0.0


def spearman(right, answers):
    """Spearman's rank correlation of two (n,); equal numbers share their mean rank."""
    return pearson(ranks(right), ranks(answers))


def ranks(values):
    """The rank of each of n values, from 1; equal ones get the mean of theirs."""
    _, group, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group.reshape(-1)]


def regression_metrics(right, answers):
    """Compares numbers: "examples", "pearson", "spearman", "mean_squared_error"."""
    right, answers = np.asarray(right, "float64"), np.asarray(answers, "float64")
    return {
        "examples": len(right),
        "pearson": round(pearson(right, answers), 4),
        "spearman": round(spearman(right, answers), 4),
        "mean_squared_error": round(float(np.mean((right - answers) ** 2)), 4),
    }
