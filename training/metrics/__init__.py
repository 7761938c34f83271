"""Scores of every task: functions of right answers and given ones to a dict, and what `fit` can show."""

from keras_bert.training.metrics.answers import best_threshold, cmrc_scores, squad_scores
from keras_bert.training.metrics.classification import classification_metrics, matthews, multilabel_metrics
from keras_bert.training.metrics.correlation import pearson, regression_metrics, spearman
from keras_bert.training.metrics.entities import entity_metrics
from keras_bert.training.metrics.intervals import paired_bootstrap, wilson_interval
from keras_bert.training.metrics.retrieval import ranking_metrics
from keras_bert.training.metrics.streaming import MatthewsCorrelation

__all__ = [
    "MatthewsCorrelation",
    "best_threshold",
    "classification_metrics",
    "cmrc_scores",
    "entity_metrics",
    "matthews",
    "multilabel_metrics",
    "paired_bootstrap",
    "pearson",
    "ranking_metrics",
    "regression_metrics",
    "spearman",
    "squad_scores",
    "wilson_interval",
]
