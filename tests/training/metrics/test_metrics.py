import json
import random
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from keras_bert.tags import tag_spans
from keras_bert.training.metrics import (
    MatthewsCorrelation,
    classification_metrics,
    cmrc_scores,
    entity_metrics,
    matthews,
    multilabel_metrics,
    paired_bootstrap,
    pearson,
    ranking_metrics,
    regression_metrics,
    spearman,
    squad_scores,
    wilson_interval,
)
from keras_bert.training.metrics.classification import calibration
from tests.conftest import shared_data

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "entities.json"


def test_classification():
    metrics = classification_metrics([0, 0, 1, 2], [0, 1, 1, 1], ["a", "b", "c"])
    assert metrics["accuracy"] == 0.5
    assert metrics["classes"] == {
        "a": {"examples": 2, "right": 1, "answered": 1, "f1": 0.6667},
        "b": {"examples": 1, "right": 1, "answered": 3, "f1": 0.5},
        "c": {"examples": 1, "right": 0, "answered": 0, "f1": 0.0},
    }
    assert metrics["f1"] == metrics["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 3, abs=1e-4)
    assert wilson_interval(0.9, 80) == [0.8149, 0.9485]
    assert wilson_interval(1.0, 10) == [0.7225, 1.0]


def test_two_classes_have_the_second_ones_f1():
    metrics = classification_metrics([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], ["no", "yes"])
    assert metrics["f1"] == 0.5
    assert metrics["macro_f1"] == pytest.approx((2 / 3 + 1 / 2) / 2, abs=1e-4)


def test_matthews_is_the_correlation_of_two_classes():
    rng = np.random.default_rng(0)
    right, answers = rng.integers(0, 2, 50), rng.integers(0, 2, 50)
    confusion = np.array([[np.sum((right == i) & (answers == j)) for j in (0, 1)] for i in (0, 1)])
    assert matthews(confusion) == pytest.approx(np.corrcoef(right, answers)[0, 1], abs=1e-12)
    assert matthews([[5, 0], [3, 0]]) == 0.0
    # three classes, by hand: 5 of 6 right; answered 1, 3, 2 times, true 2, 2, 2: (30 - 12) / sqrt((36 - 14)(36 - 12))
    assert matthews([[1, 1, 0], [0, 2, 0], [0, 0, 2]]) == pytest.approx((30 - 12) / np.sqrt(22 * 24))


def test_matthews_over_batches():
    rng = np.random.default_rng(1)
    right, logits = rng.integers(0, 3, 40), rng.normal(size=(40, 3)).astype("float32")
    metric = MatthewsCorrelation(3)
    for start in (0, 15, 30):
        metric.update_state(right[start : start + 15], logits[start : start + 15])
    answers = logits.argmax(-1)
    confusion = np.array([[np.sum((right == i) & (answers == j)) for j in range(3)] for i in range(3)])
    assert float(metric.result()) == pytest.approx(matthews(confusion), abs=1e-6)
    assert MatthewsCorrelation.from_config(metric.get_config()).num_classes == 3


def test_several_labels():
    metrics = multilabel_metrics([[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [1, 0]], ["x", "y"])
    assert metrics["accuracy"] == pytest.approx(1 / 3, abs=1e-4)
    assert metrics["micro_f1"] == pytest.approx(2 * 2 / (3 + 3), abs=1e-4)
    assert metrics["macro_f1"] == pytest.approx((2 * 2 / (3 + 2) + 0) / 2, abs=1e-4)
    assert metrics["classes"]["y"] == {"examples": 1, "right": 0, "answered": 0, "f1": 0.0}


def test_correlations_are_scipys():
    rng = np.random.default_rng(2)
    right, answers = rng.integers(0, 6, 60) / 1.0, np.round(rng.normal(size=60), 1)
    assert pearson(right, answers) == pytest.approx(stats.pearsonr(right, answers)[0], abs=1e-12)
    assert spearman(right, answers) == pytest.approx(stats.spearmanr(right, answers)[0], abs=1e-12)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0.0
    assert regression_metrics([0, 2], [1, 2])["mean_squared_error"] == 0.5


def test_calibration():
    curve, error = calibration([0.95, 0.93, 0.55, 1.0], [1, 0, 1, 1])
    assert [count for *_, count in curve] == [1, 3]
    assert error == pytest.approx((abs(0.55 - 1) + 3 * abs(0.96 - 2 / 3)) / 4)


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: case["scheme"])
def test_entities_are_seqevals(case):
    metrics = entity_metrics(case["right"], case["answers"])
    expected = case["scores"]
    assert metrics["accuracy"] == pytest.approx(case["accuracy"], abs=5e-5)
    assert metrics["macro_f1"] == pytest.approx(expected["macro avg"]["f1-score"], abs=5e-5)
    for name, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
        assert metrics[name] == pytest.approx(expected["micro avg"][key], abs=5e-5)
        for kind, scores in metrics["types"].items():
            assert scores[name] == pytest.approx(expected[kind][key], abs=5e-5)
    assert {kind: scores["entities"] for kind, scores in metrics["types"].items()} == {
        kind: scores["support"] for kind, scores in expected.items() if not kind.endswith(" avg")
    }


def test_spans_of_tags():
    assert tag_spans(["I-PER", "I-PER", "B-PER", "O", "I-LOC"]) == [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC")]
    assert tag_spans(["B-A", "M-A", "E-A", "S-B", "S-B", "B-A", "E-B"]) == [
        (0, 3, "A"), (3, 4, "B"), (4, 5, "B"), (5, 6, "A"), (6, 7, "B"),
    ]  # fmt: skip
    assert tag_spans([]) == []
    with pytest.raises(ValueError, match=r"^A tag must be O, or one of B, .* with a type, as B-PER, got `X-PER`\.$"):
        tag_spans(["X-PER"])


def test_parts_of_speech_have_no_entities():
    assert entity_metrics([["NOUN", "VERB"]], [["NOUN", "NOUN"]]) == {"examples": 1, "words": 2, "accuracy": 0.5}
    with pytest.raises(ValueError, match=r"^Text 0 must have 2 tags, one a word, got 1\.$"):
        entity_metrics([["O", "O"]], [["O"]])


def test_squad_by_hand():
    references = {"a": ["the Big Apple", "New York"], "b": [], "c": [], "d": ["in 1999"]}
    answers = {"a": "a big, apple!", "b": "", "c": "wrong", "d": "1999 or so"}
    scores = squad_scores(references, answers)
    assert scores["em"] == 0.5
    assert scores["f1"] == pytest.approx((1 + 1 + 0 + 2 * 1 / 5) / 4, abs=1e-4)
    assert scores["has_answer"] == {"examples": 2, "em": 0.5, "f1": 0.7}
    assert scores["no_answer"] == {"examples": 2, "em": 0.5, "f1": 0.5}
    # never "": null scores part a from b and c, but d is better left unanswered than c answered
    always = {"a": "big apple", "b": "x", "c": "y", "d": "1999"}
    scores = squad_scores(references, always, {"a": -2.0, "d": -1.0, "b": 0.5, "c": 1.0})
    assert (scores["best_f1"], scores["best_f1_threshold"]) == (pytest.approx((3 + 2 / 3) / 4, abs=1e-4), -1.0)
    assert (scores["best_em"], scores["best_em_threshold"]) == (0.75, -2.0)
    with pytest.raises(ValueError, match=r"^Question a must have an answer, which may be '', got none\.$"):
        squad_scores(references, {})


def test_cmrc_by_hand():
    references = {"a": ["《光荣》公司", "光荣"], "b": ["Windows 98年"]}
    scores = cmrc_scores(references, {"a": "光荣和ω-force", "b": "Windows年"})
    # a: 2 of 3 segments (和 and the word) against 2: 2 * 2 / (2 + 4); b: windows, 98, 年 and windows, 年: a run of 1
    assert scores["em"] == 0.0
    assert scores["f1"] == pytest.approx((2 * 2 / (2 + 4) + 2 * 1 / (3 + 2)) / 2, abs=1e-4)
    assert cmrc_scores({"a": ["光荣，公司"]}, {"a": "光荣公司"})["em"] == 1.0


def test_the_right_answers_of_cmrc_are_right():
    data = json.loads(shared_data("cmrc2018/trial.json").read_text())["data"]
    questions = [q for article in data for paragraph in article["paragraphs"] for q in paragraph["qas"]]
    references = {q["id"]: [answer["text"] for answer in q["answers"]] for q in questions}
    draw = random.Random(0)
    scores = cmrc_scores(references, {name: draw.choice(right) for name, right in references.items()})
    assert scores == {"examples": 1002, "em": 1.0, "f1": 1.0}


def test_rankings_by_hand():
    scores = ranking_metrics([["a", "b", "c"], ["x"], ["y"]], [{"b": 3.0, "c": 1.0}, {"z": 1.0}, {}])
    first = (3 / np.log2(3) + 1 / np.log2(4)) / (3 + 1 / np.log2(3))
    assert scores == {
        "queries": 2,
        "mrr@10": 0.25,
        "ndcg@10": pytest.approx(first / 2, abs=1e-4),
        "map": pytest.approx((1 / 2 + 2 / 3) / 2 / 2, abs=1e-4),
        "recall@1": 0.0,
        "recall@10": 0.5,
        "recall@100": 0.5,
    }
    far = ranking_metrics([[*map(str, range(10)), "b"]], [{"b": 1.0}])
    assert (far["mrr@10"], far["ndcg@10"], far["recall@10"], far["recall@100"]) == (0.0, 0.0, 0.0, 1.0)


def test_paired_bootstrap_tells_a_difference_from_none():
    rng = np.random.default_rng(3)
    right = rng.integers(0, 2, 400)
    good = np.where(rng.random(400) < 0.9, right, 1 - right)
    same = np.where(rng.random(400) < 0.9, right, 1 - right)
    bad = np.where(rng.random(400) < 0.7, right, 1 - right)

    def accuracy(drawn, answers):
        return np.mean(right[drawn] == answers[drawn])

    low, high = paired_bootstrap(accuracy, good, same, 300)
    assert low < 0 < high
    low, high = paired_bootstrap(accuracy, good, bad, 300)
    assert 0.1 < low < high < 0.3
    low, high = paired_bootstrap(accuracy, [good, good], [bad, same], 300)
    assert low < 0.1 < high
