"""Bag-of-words logistic regression: what a classifier reaches that cannot read word order."""

import re

import numpy as np

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def bag_of_words_accuracy(train_texts, train_labels, texts, labels):
    """The held-out accuracy of the best of several strengths, which is generous: no other model may choose there.

    Args:
        train_labels, labels: lists of 0 and 1.
    """
    vocab = sorted({word for text in train_texts for word in words(text)})
    x, x_held = multi_hot(train_texts, vocab), multi_hot(texts, vocab)
    # |w|^2 does not change under rotation: n coordinates do instead of V, and the equations are small.
    rotation = np.linalg.svd(x, full_matrices=False)[2].T
    x, x_held = (np.column_stack([part @ rotation, np.ones(len(part))]) for part in (x, x_held))
    weights = [logistic_regression(x, np.asarray(train_labels), strength) for strength in STRENGTHS]
    return max(float(np.mean((x_held @ w > 0) == np.asarray(labels))) for w in weights)


def words(text):
    """Lower-cased words; "don't" is one."""
    return re.findall(r"\w+(?:'\w+)?", text.lower())


def multi_hot(texts, vocab):
    """(n, V) float64: 1 where a word is in the text."""
    return np.array([[word in found for word in vocab] for found in map(set, map(words, texts))], "float64")


def logistic_regression(x, y, strength, steps=30):
    """Weights that minimise the sum of logistic losses + strength / 2 * |w|^2, by Newton's method.

    Args:
        x: (n, d + 1) float64; the last column is of ones, for the bias, which is not penalised.
        y: (n,) 0 and 1.
    """
    penalty = np.full(x.shape[1], strength)
    penalty[-1] = 1e-6
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + np.diag(penalty)
        step = np.linalg.solve(hessian, x.T @ (p - y) + penalty * w)
        w -= step
        if np.abs(step).max() < 1e-8:
            break
    return w
