"""Scores of rankings."""

import numpy as np


def ranking_metrics(rankings, relevant, at=10):
    """Scores, per query, documents in the order given.

    Args:
        rankings: list of lists of document ids, the best first; only the first 1,000 of each are looked at.
        relevant: list of dicts from document id to its gain, above 0.
        at: the rank at which MRR and nDCG stop.

    Returns:
        dict of means over the queries: "queries", "mrr@10", "ndcg@10", "map", and "recall@1", "recall@10",
        "recall@100". Queries without a relevant document do not count.

    Sources: nDCG as trec_eval has it, with the gain itself over log2(rank + 1) (Jarvelin and Kekalainen 2002); MAP
    divides by all relevant documents, found or not.
    """
    rows = [_scores(ranking, gains, at) for ranking, gains in zip(rankings, relevant, strict=True) if gains]
    if not rows:
        raise ValueError("At least one query must have a relevant document, got none.")
    return {"queries": len(rows)} | {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def _scores(ranking, gains, at):
    ranking = list(ranking)[:1000]
    found = np.array([gains.get(document, 0.0) for document in ranking], "float64")
    hits = np.flatnonzero(found > 0)  # places, from 0
    ideal = np.sort(np.array(list(gains.values()), "float64"))[::-1]
    return {
        f"mrr@{at}": 1.0 / (hits[0] + 1) if len(hits) and hits[0] < at else 0.0,
        f"ndcg@{at}": _discounted(found[:at]) / _discounted(ideal[:at]),
        "map": float(np.sum(np.arange(1, len(hits) + 1) / (hits + 1))) / len(gains),
        **{f"recall@{k}": float(np.sum(hits < k)) / len(gains) for k in (1, 10, 100)},
    }


def _discounted(gains):
    return float(np.sum(gains / np.log2(np.arange(2, len(gains) + 2))))
