"""The scores of `benchmarks.scores` are those of the metrics, whichever examples are drawn."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import score_tasks
from keras_bert.training.metrics import entity_metrics, matthews, spearman, squad_scores
from keras_bert.training.metrics.classification import confusion_matrix

ARTICLE = [
    {"id": "a", "question": "who", "answers": [{"text": "the old queen", "answer_start": 0}]},
    {"id": "b", "question": "when", "is_impossible": True, "answers": []},
]


def article(number):
    asked = [{**one, "id": f"{one['id']}{number}"} for one in ARTICLE]
    return {"title": str(number), "paragraphs": [{"context": "the old queen slept", "qas": asked}]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data of all tasks, tiny."""
    pairs = [("a film", "a book", 1), ("a film", "a play", 0), ("a book", "a play", 0), ("one", "two", 1)]
    files = {
        "mrpc/train.tsv": "sentence1\tsentence2\tlabel\n" + "".join(f"{a}\t{b}\t{y}\n" for a, b, y in pairs),
        "stsb/train.tsv": "sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{y + len(b)}\n" for a, b, y in pairs),
        "cola/train.tsv": "".join(f"x\t{y}\t\t{a}\n" for a, _, y in pairs),
        "conll2003/eng.train": "EU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n\nGerman B-MISC\n",
        "squad2/dev_part.json": json.dumps({"data": [article(i) for i in range(16)]}),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(score_tasks, "SHARED", tmp_path)
    scored = {name: dataclasses.replace(task, test=task.train) for name, task in score_tasks.TASKS.items()}
    monkeypatch.setattr(score_tasks, "TASKS", scored | {"squad2": score_tasks.TASKS["squad2"]})
    score_tasks.write_articles(tmp_path)
    return tmp_path


def score(task, folder, answers, drawn=slice(None)):
    found = score_tasks.TASKS[task]
    counted = found.kind.counts(score_tasks.settings(task, "model", 0, folder))
    return found.score(counted(answers)[drawn])


def test_classes_and_numbers(folder):
    right, given = np.array([1, 0, 0, 1]), [1, 1, 0, 0]
    assert score("mrpc", folder, given) == pytest.approx(0.5)
    assert score("mrpc", folder, given, [0, 0, 2]) == 1
    assert score("cola", folder, given) == pytest.approx(matthews(confusion_matrix(right, np.array(given), 2)))
    numbers = [7.0, 1.0, 2.0, 5.0]
    assert score("stsb", folder, numbers) == pytest.approx(spearman(np.array([7.0, 6, 6, 4]), np.array(numbers)))


def test_entities(folder):
    right = [["B-ORG", "O"], ["B-PER", "I-PER"], ["B-MISC"]]
    given = [["B-ORG", "O"], ["B-PER", "O"], ["O"]]
    assert score("conll2003", folder, given) == pytest.approx(entity_metrics(right, given)["f1"], abs=1e-4)
    assert score("conll2003", folder, given, [0, 0]) == 1
    assert score("conll2003", folder, given, [2, 2]) == 0


def test_answers_of_the_last_articles(folder):
    given = ["queen", "", "the old queen", "queen", "", "", "a", "b"]
    right = {i: ["the old queen"] if i % 2 == 0 else [] for i in range(8)}
    assert score("squad2", folder, given) == pytest.approx(squad_scores(right, dict(enumerate(given)))["f1"], abs=1e-4)
    train, test = (json.loads((folder / f"squad2-{name}.json").read_text())["data"] for name in ("train", "test"))
    assert [len(train), len(test)] == [score_tasks.TRAIN_ARTICLES, score_tasks.TEST_ARTICLES]
    assert not {a["title"] for a in train} & {a["title"] for a in test}
