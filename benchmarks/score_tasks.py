"""The tasks of `benchmarks.scores`: settings of our recipes, our answers, and how answers are scored.

Answers are lists of what JSON holds, one a test example: a class or a number, a list of tags, an answer's text.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import keras_bert
from benchmarks.data import SHARED
from keras_bert.files import read_json, replace_file
from keras_bert.tags import tag_spans
from keras_bert.training.metrics import matthews, spearman, squad_scores
from keras_bert.training.metrics.classification import confusion_matrix, f1_of
from keras_bert.training.questions import read_questions
from keras_bert.training.recipes import answer, classify, tag
from keras_bert.training.tagged import read_tagged

TRAIN_ARTICLES = 8  # of the 16 of squad2; the last four are scored
TEST_ARTICLES = 4


def classes(config, bundle):
    examples = classify.read(config, config.test)
    rows = classify.rows_of(config, examples, bundle.tokenizer, config.max_length)
    outputs = classify.outputs_of(bundle, *rows)
    return (outputs if outputs.ndim == 1 else outputs.argmax(axis=1)).tolist()


def class_counts(config):
    examples = classify.read(config, config.test)
    labels = classify.labels_of(config, classify.read(config, config.train))
    right = classify.targets_of(config, examples, labels)
    return lambda answers: np.stack([right, answers], axis=1)


def tags(config, bundle):
    return tag.answers(bundle, read_tagged(config.test).words, config.max_length)


def tag_counts(config):
    right = [set(tag_spans(labels)) for labels in read_tagged(config.test).labels]

    def counts(answers):
        pairs = zip(right, (set(tag_spans(labels)) for labels in answers), strict=True)
        return np.array([(len(true & given), len(given), len(true)) for true, given in pairs])

    return counts


def texts(config, bundle):
    """Answers, "" where the null score is the higher one."""
    questions = read_questions(config.test)
    settings = {"max_length": config.max_length, "max_answer_tokens": config.max_answer_tokens}
    found = keras_bert.predict(bundle, questions.questions, questions.contexts, stride=config.stride, **settings)
    return [row["answer"] or "" for row in found]


def text_counts(config):
    right = [[text for text, _ in found] for found in read_questions(config.test).answers]
    return lambda answers: np.array([squad_scores({0: x}, {0: y})["f1"] for x, y in zip(right, answers, strict=True)])


@dataclasses.dataclass(frozen=True)
class Kind:
    """What tasks of a recipe have in common.

    Args:
        recipe: its module.
        make: its settings; usual: what all tasks set of them. There is no dev file, so both sides keep the last epoch.
        answers: (settings, bundle) -> answers to the test examples.
        counts: settings -> function from answers to what is counted of each example, (n, k) or (n,).
    """

    recipe: ModuleType
    make: type
    usual: dict
    answers: Callable
    counts: Callable


CLASSIFY = Kind(
    classify,
    classify.Classify,
    {"max_length": 128, "batch_size": 32, "epochs": 3, "learning_rate": 5e-5},
    classes,
    class_counts,
)
TAG = Kind(tag, tag.Tag, {"max_length": 256, "batch_size": 32, "epochs": 2, "learning_rate": 1e-4}, tags, tag_counts)
ANSWER = Kind(
    answer,
    answer.Answer,
    {"max_length": 256, "stride": 64, "batch_size": 16, "epochs": 2, "learning_rate": 1e-4},
    texts,
    text_counts,
)
KINDS = {kind.make: kind for kind in (CLASSIFY, TAG, ANSWER)}


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set.

    Args:
        train, test: files of SHARED, or of --work where `write_articles` wrote them.
        name: of the score.
        score: rows of the kind's counts -> score.
        options: of the recipe.
    """

    kind: Kind
    train: str
    test: str
    name: str
    score: Callable
    options: dict = dataclasses.field(default_factory=dict)


def accuracy(rows):
    return (rows[:, 0] == rows[:, 1]).mean()


def f1_of_ones(rows):
    true, given = rows.T
    return f1_of((true * given).sum(), given.sum(), true.sum())[2]


TASKS = {
    "sst2": Task(CLASSIFY, "sst2/train.tsv", "sst2/dev.tsv", "accuracy", accuracy),
    "stsb": Task(
        CLASSIFY,
        "stsb/train.tsv",
        "stsb/dev.tsv",
        "spearman",
        lambda rows: spearman(*rows.T),
        {"kind": "regression", "label_column": "score"},
    ),
    "mrpc": Task(CLASSIFY, "mrpc/train.tsv", "mrpc/test.tsv", "f1", f1_of_ones),
    "rte": Task(CLASSIFY, "rte/train.tsv", "rte/dev.tsv", "accuracy", accuracy),
    "cola": Task(
        CLASSIFY,
        "cola/train.tsv",
        "cola/dev.tsv",
        "matthews",
        lambda rows: matthews(confusion_matrix(*rows.T, 2)),
        {"text_column": "4", "label_column": "2"},
    ),
    "conll2003": Task(
        TAG, "conll2003/eng.train", "conll2003/eng.testb", "f1", lambda rows: f1_of(*rows.sum(axis=0))[2]
    ),
    "squad2": Task(ANSWER, "squad2-train.json", "squad2-test.json", "f1", np.mean),
}


def settings(task, model, seed, work):
    """The recipe's settings."""
    found = TASKS[task]
    folder = Path(work) if found.kind is ANSWER else SHARED
    files = {"train": str(folder / found.train), "test": str(folder / found.test)}
    return found.kind.make(model=str(model), out="unused", seed=seed, **files, **found.options, **found.kind.usual)


def write_articles(work):
    """Writes the first and the last articles of squad2 to `work`."""
    articles = read_json(SHARED / "squad2" / "dev_part.json")["data"]
    task = TASKS["squad2"]
    for name, chosen in ((task.train, articles[:TRAIN_ARTICLES]), (task.test, articles[-TEST_ARTICLES:])):
        with replace_file(Path(work) / name) as temporary:
            Path(temporary).write_text(json.dumps({"data": chosen}), encoding="utf-8")


def ours(config):
    """Runs our recipe, loads what it wrote, and answers the test examples."""
    kind = KINDS[type(config)]
    with tempfile.TemporaryDirectory() as temporary:
        config = dataclasses.replace(config, out=str(Path(temporary) / "model"))
        kind.recipe.run(config)
        return kind.answers(config, keras_bert.load(config.out))
