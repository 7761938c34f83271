"""How sure a score is."""

import math
import statistics

import numpy as np


def wilson_interval(share, count):
    """The 95% interval of a share seen in `count` trials: [low, high]. Source: Wilson 1927."""
    z = statistics.NormalDist().inv_cdf(0.975)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return [round(middle - half, 4), round(middle + half, 4)]


def paired_bootstrap(score, ours, theirs, samples=1000, seed=0):
    """The 95% interval of the difference of two systems' scores on the same examples: [low, high].

    Args:
        score: (indices (m,) of examples, answers) -> float; it is asked with both systems' answers on each sample.
        ours, theirs: the answers, each of n examples, or several runs' (lists of them): a sample then also draws runs.
        samples: how many times n examples are drawn with replacement.

    Source: Efron 1979; in pairs, so that what is hard for both does not count.
    """
    ours, theirs = (answers if isinstance(answers, list) else [answers] for answers in (ours, theirs))
    n = len(ours[0])
    if any(len(answers) != n for answers in [*ours, *theirs]):
        raise ValueError("All runs must have answers for the same examples.")
    rng = np.random.default_rng(seed)
    differences = []
    for _ in range(samples):
        drawn = rng.integers(0, n, n)
        means = [
            np.mean([score(drawn, runs[i]) for i in rng.integers(0, len(runs), len(runs))]) for runs in (ours, theirs)
        ]
        differences.append(means[0] - means[1])
    return [float(x) for x in np.quantile(differences, [0.025, 0.975])]
