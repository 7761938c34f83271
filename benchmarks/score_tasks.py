"""The tasks of `benchmarks.scores`: settings of our recipes, our answers, and how answers are scored.

Answers are lists of what JSON holds, one a test example: a class or a number, a list of tags, an answer's text.
"""

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.data import SHARED
from keras_bert.files import replace_file
from keras_bert.tags import tag_spans
from keras_bert.training.metrics import matthews, spearman, squad_scores
from keras_bert.training.metrics.classification import classification_metrics, confusion_matrix, f1_of
from keras_bert.training.questions import read_questions
from keras_bert.training.recipes import answer, classify, tag
from keras_bert.training.tagged import read_tagged

RECIPE = ("max_length", "batch_size", "epochs", "learning_rate")
TRAIN_ARTICLES = 8  # of the 16 of squad2; the last four are scored
TEST_ARTICLES = 4


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set.

    Args:
        recipe: "classify", "tag" or "answer".
        train, test: files, of SHARED, or of --work where `settings` writes them.
        score: what counts.
        options: of the recipe.
    """

    recipe: str
    train: str
    test: str
    score: str
    options: dict = dataclasses.field(default_factory=dict)


TASKS = {
    "sst2": Task("classify", "sst2/train.tsv", "sst2/dev.tsv", "accuracy"),
    "stsb": Task(
        "classify", "stsb/train.tsv", "stsb/dev.tsv", "spearman", {"kind": "regression", "label_column": "score"}
    ),
    "mrpc": Task("classify", "mrpc/train.tsv", "mrpc/test.tsv", "f1"),
    "rte": Task("classify", "rte/train.tsv", "rte/dev.tsv", "accuracy"),
    "cola": Task("classify", "cola/train.tsv", "cola/dev.tsv", "matthews", {"text_column": "4", "label_column": "2"}),
    "conll2003": Task("tag", "conll2003/eng.train", "conll2003/eng.testb", "f1"),
    "squad2": Task("answer", "squad2-train.json", "squad2-test.json", "f1"),
}
SETTINGS = {  # no dev file, so that both sides keep the last epoch; no text is cut at these lengths
    "classify": (classify.Classify, {"max_length": 128, "batch_size": 32, "epochs": 3, "learning_rate": 5e-5}),
    "tag": (tag.Tag, {"max_length": 256, "batch_size": 32, "epochs": 2, "learning_rate": 1e-4}),
    "answer": (answer.Answer, {"max_length": 256, "stride": 64, "batch_size": 16, "epochs": 2, "learning_rate": 1e-4}),
}


def settings(task, model, seed, work):
    """The recipe's settings; files of squad2's articles are written to `work`."""
    found = TASKS[task]
    make, usual = SETTINGS[found.recipe]
    if found.recipe == "answer":
        write_articles(Path(work) / found.train, Path(work) / found.test)
    folder = Path(work) if found.recipe == "answer" else SHARED
    files = {"train": str(folder / found.train), "test": str(folder / found.test)}
    return make(model=str(model), out="unused", seed=seed, **files, **found.options, **usual)


def write_articles(train, test):
    """Writes the first and the last articles of squad2, each file once."""
    articles = json.loads((SHARED / "squad2" / "dev_part.json").read_text(encoding="utf-8"))["data"]
    for path, chosen in ((train, articles[:TRAIN_ARTICLES]), (test, articles[-TEST_ARTICLES:])):
        if not path.exists():
            with replace_file(path) as temporary:
                Path(temporary).write_text(json.dumps({"data": chosen}), encoding="utf-8")


def ours(config):
    """Runs our recipe, loads what it wrote, and answers the test examples."""
    import keras_bert

    recipe = {classify.Classify: classify, tag.Tag: tag, answer.Answer: answer}[type(config)]
    with tempfile.TemporaryDirectory() as temporary:
        config = dataclasses.replace(config, out=str(Path(temporary) / "model"))
        recipe.run(config)
        bundle = keras_bert.load(config.out)
        return ANSWERS[recipe](config, bundle)


def classes(config, bundle):
    examples = classify.read(config, config.test)
    rows = classify.rows_of(config, examples, bundle.tokenizer, config.max_length)
    outputs = classify.outputs_of(bundle, *rows)
    return (outputs if outputs.ndim == 1 else outputs.argmax(axis=1)).tolist()


def tags(config, bundle):
    return tag.answers(bundle, read_tagged(config.test).words, config.max_length)


def texts(config, bundle):
    """Answers, "" where the null score is the higher one."""
    found = answer.answers(config, bundle, read_questions(config.test), config.max_length)
    return ["" if row["null_score"] > row["score"] else row["answer"] or "" for row in found]


ANSWERS = {classify: classes, tag: tags, answer: texts}


def measured(task, config, answers):
    """What is counted of each example, (n, k): rows that `scorer` makes a score of."""
    if TASKS[task].recipe == "tag":
        right = read_tagged(config.test).labels
        pairs = [(set(tag_spans(x)), set(tag_spans(y))) for x, y in zip(right, answers, strict=True)]
        return np.array([(len(x & y), len(y), len(x)) for x, y in pairs])
    if TASKS[task].recipe == "answer":
        right = [[text for text, _ in found] for found in read_questions(config.test).answers]
        return np.array([squad_scores({0: x}, {0: y})["f1"] for x, y in zip(right, answers, strict=True)])
    examples = classify.read(config, config.test)
    labels = classify.labels_of(config, classify.read(config, config.train))
    return np.stack([classify.targets_of(config, examples, labels), answers], axis=1)


def scorer(task):
    """Gives the function from rows of `measured` to the task's score."""
    if TASKS[task].recipe == "tag":
        return lambda rows: f1_of(*rows.sum(axis=0))[2]
    if TASKS[task].recipe == "answer":
        return lambda rows: rows.mean()
    return {
        "accuracy": lambda rows: (rows[:, 0] == rows[:, 1]).mean(),
        "f1": lambda rows: classification_metrics(*rows.astype(int).T, ["0", "1"])["f1"],
        "matthews": lambda rows: matthews(confusion_matrix(*rows.astype(int).T, 2)),
        "spearman": lambda rows: spearman(*rows.T),
    }[TASKS[task].score]
