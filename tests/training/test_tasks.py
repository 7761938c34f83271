"""Every task from a file to a saved model: 64 easy examples are learned whole."""

import itertools
import json
import random

import numpy as np
import pytest

import keras_bert
from keras_bert.training.recipes import answer, choose, classify, embed, rerank, tag
from tests.models import VOCAB, randomize, tiny_config

FILLERS = ["the", "a", "b", "c", ",", "hello"]
COUNT = 64


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "tiny"
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB))
    randomize(bundle.model)
    keras_bert.save(bundle, folder)
    return str(folder)


def texts(*marks):
    """64 texts of fillers, each with one of the marks in it, in turn: lists of words, and the marks.

    All rows of a task fit in 8 tokens, so that each graph is traced for one width.
    """
    draw = random.Random(0)
    found = []
    for i in range(COUNT):
        words = draw.choices(FILLERS, k=draw.randint(2, 3))
        words.insert(draw.randint(0, len(words)), marks[i % len(marks)])
        found.append((words, marks[i % len(marks)]))
    return found


def single(path):
    rows = [f"{' '.join(words)}\t{mark}" for words, mark in texts("good", "bad")]
    path.with_suffix(".tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return path.with_suffix(".tsv")


def multiple(path):
    labels = {"good": ["g"], "bad": [], "film": ["f", "g"], "world": ["f"]}
    rows = [{"text": " ".join(words), "label": labels[mark]} for words, mark in texts(*labels)]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.with_suffix(".jsonl")


def regression(path):
    rows = [f"{' '.join(words)}\thello\t{1.5 if mark == 'good' else -0.5}" for words, mark in texts("good", "bad")]
    path.with_suffix(".tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]) + "\n")
    return path.with_suffix(".tsv")


def tagged(path):
    tags = {"good": "B-X", "film": "I-X", "world": "S-Y"}  # a mix, in which film begins an entity
    found = texts("good", "film", "world")
    rows = ["\n".join(f"{word} _ {tags.get(word, 'O')}" for word in words) for words, _ in found]
    path.write_text("-DOCSTART- -X- O\n\n" + "\n\n".join(rows) + "\n")
    return path


def questions(path):
    paragraphs = []
    for i, (words, _) in enumerate(texts("film", "film", "b")):
        context, asked = " ".join(words), {"id": str(i), "question": "?", "answers": []}
        if "film" in words:
            asked["answers"] = [{"text": "film", "answer_start": context.index("film")}]
        paragraphs.append({"context": context, "qas": [asked | {"is_impossible": "film" not in words}]})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return path


def choices(path):
    rows = []
    for i, (words, _) in enumerate(texts("good")):
        wrong = [" ".join(["bad" if word == "good" else word for word in words]), "the a"]
        rows.append({"text": "hello", "choices": [*wrong[: i % 3], " ".join(words), *wrong[i % 3 :]], "label": i % 3})
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.with_suffix(".jsonl")


def groups(path):
    words = ["the", "hello", "world", "good", "bad", "film", "你", "好", "商"]
    chosen = list(itertools.combinations(words, 3))[:COUNT]
    rows = [{"anchor": " ".join(w), "positive": " ".join(w[::-1]) + " .", "negative": " ".join(w[1:])} for w in chosen]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.with_suffix(".jsonl")


def passages(path):
    queries = ["a", "b", "c", "the", "hello", "world", "你", "好"]
    found = enumerate(texts("good", "bad"))
    rows = [f"{queries[i // 8]}\t{' '.join(words)}\t{int(mark == 'good')}" for i, (words, mark) in found]
    path.with_suffix(".tsv").write_text("\n".join(["query\tpassage\tlabel", *rows]) + "\n")
    return path.with_suffix(".tsv")


TASKS = {
    "classify": (classify, classify.Classify, {}, single, ("accuracy", 1.0)),
    "classify several": (classify, classify.Classify, {"kind": "multiple", "epochs": 20}, multiple, ("accuracy", 1.0)),
    "classify numbers": (classify, classify.Classify, {"kind": "regression"}, regression, ("pearson", 0.99)),
    "tag": (tag, tag.Tag, {}, tagged, ("f1", 1.0)),
    "answer": (answer, answer.Answer, {"stride": 3}, questions, ("em", 1.0)),
    "choose": (choose, choose.Choose, {}, choices, ("accuracy", 1.0)),
    "embed": (embed, embed.Embed, {"dimensions": "6"}, groups, ("recall@1", 1.0)),
    "rerank": (rerank, rerank.Rerank, {}, passages, ("map", 1.0)),
}


@pytest.fixture(scope="module")
def trained(pretrained, tmp_path_factory):
    """Gives, by task, its module, settings, file and metrics; trained once."""
    found = {}

    def train(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
            module, settings, more, write, _ = TASKS[name]
            file = write(folder / "train")
            fixed = {"batch_size": 16, "epochs": 12, "learning_rate": 2e-2, "max_length": 24}
            config = settings(pretrained, str(file), str(folder / "out"), dev=str(file), **fixed | more)
            found[name] = module, config, file, module.run(config)
        return found[name]

    return train


QUICK = ("tag", "answer", "embed")  # the others are like them; test_classify.py is quick too
EVERY = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TASKS]


@pytest.mark.parametrize("name", EVERY)
def test_easy_examples_are_learned_and_the_saved_model_answers_alike(trained, name):
    module, config, file, metrics = trained(name)
    score, least = TASKS[name][-1]
    assert metrics["dev"][score] >= least
    assert metrics == json.loads((file.parent / "out" / "metrics.json").read_text())
    again = module.evaluate(config, keras_bert.load(config.out), file)
    assert {key: again.metrics[key] for key in metrics["dev"]} == metrics["dev"]
    if least == 1.0:
        assert again.errors == []


ASKED = {
    "classify": (["the good film", "a bad b"], None),
    "classify several": (["the film", "a bad b"], None),
    "classify numbers": (["the good", "a bad b"], ["hello", "hello"]),
    "tag": (["a film b", "the world"], None),
    "answer": (["?"], ["the film b"]),
    "choose": (["hello"], [["a bad", "a good b", "the a"]]),
    "embed": (["hello good film", "film good hello ."], None),
    "rerank": (["a", "a"], ["the good", "a bad"]),
}


@pytest.mark.parametrize("name", EVERY)
def test_the_saved_model_predicts(trained, name):
    _, config, *_ = trained(name)
    found = keras_bert.predict(keras_bert.load(config.out), *ASKED[name])
    right = {
        "classify": lambda: [row["label"] for row in found] == ["good", "bad"],
        "classify several": lambda: [row["labels"] for row in found] == [["f", "g"], []],
        "classify numbers": lambda: np.allclose(found, [1.5, -0.5], atol=0.4),
        "tag": lambda: [row["labels"] for row in found] == [["O", "B-X", "O"], ["O", "B-Y"]],
        "answer": lambda: (found[0]["answer"], found[0]["start"]) == ("film", 4),
        "choose": lambda: found[0]["choice"] == 1,
        "embed": lambda: found[0] @ found[1] > 0.7,
        "rerank": lambda: found[0] > 0 > found[1],
    }
    assert right[name](), found


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_exports_answer_alike(trained, name, tmp_path):
    from keras_bert.export import export

    _, config, *_ = trained(name)
    report = export(keras_bert.load(config.out), tmp_path / "served", format="saved_model")
    assert report["agreement"] == 1.0
    assert report["largest_difference"] < 1e-5
