"""Every task from a file to a saved model: 64 easy examples are learned whole."""

import itertools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

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
    "classify several": (classify, classify.Classify, {"kind": "multiple", "epochs": 40}, multiple, ("accuracy", 1.0)),
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


@pytest.mark.parametrize(
    ("name", "exported"), [("embed", False), *(pytest.param(name, True, marks=pytest.mark.slow) for name in TASKS)]
)
def test_with_adapters_the_encoder_stays_and_merged_ones_agree(pretrained, tmp_path, name, exported, monkeypatch):
    module, settings, more, write, _ = TASKS[name]
    kept, finish = [], module.finish

    def watched(config, bundle, *rest):
        kept.append(bundle)
        return finish(config, bundle, *rest)

    monkeypatch.setattr(module, "finish", watched)
    fixed = {"batch_size": 16, "epochs": 1, "learning_rate": 2e-2, "max_length": 24, "lora_rank": 2}
    config = settings(pretrained, str(write(tmp_path / "train")), str(tmp_path / "out"), **{**more, **fixed})
    module.run(config)
    adapted = kept[0]
    before = {weight.path: weight for weight in keras_bert.load(pretrained).model.weights}
    for weight in adapted.model.weights:
        if weight.path in before:  # all but the adapters and the head
            assert np.array_equal(weight, before[weight.path]) != weight.path.startswith("pooler/"), weight.path
    learnt = [weight for weight in adapted.model.weights if weight.path.endswith("/lora_b")]  # they start as zero
    assert len(learnt) == 6  # of the only block
    assert all(np.any(weight) for weight in learnt)
    merged = keras_bert.load(config.out)
    assert not [weight.path for weight in merged.model.weights if "/lora_" in weight.path]
    features = merged.tokenizer(["the good film", "a bad b"], ["hello", "a"])
    if name == "choose":
        features = {key: value[:, None] for key, value in features.items()}
    answers = np.asarray(adapted.model(features))
    np.testing.assert_allclose(merged.model(features), answers, rtol=0, atol=1e-6)  # measured 2e-7
    if exported:
        from keras_bert.export import export

        export(adapted, tmp_path / "served", format="saved_model")
        served = tf.saved_model.load(tmp_path / "served").signatures["serving_ids"]
        (found,) = served(**{key: tf.constant(value) for key, value in features.items()}).values()
        np.testing.assert_allclose(found, answers, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_exports_answer_alike(trained, name, tmp_path):
    from keras_bert.export import export

    _, config, *_ = trained(name)
    report = export(keras_bert.load(config.out), tmp_path / "served", format="saved_model")
    assert report["agreement"] == 1.0
    assert report["largest_difference"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tag", "answer"])
def test_files_on_disk_give_what_was_learned(trained, name, tmp_path):  # P66
    """Entities and answers of every training text, from the SavedModel and from the TFLite file, text in."""
    from keras_bert.export import code_points, export, tflite

    _, config, *_ = trained(name)
    bundle = keras_bert.load(config.out)
    export(bundle, tmp_path / "saved", format="saved_model")
    export(bundle, tmp_path / "lite", format="tflite", inputs="text", max_length=24)
    run = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    marks = {"tag": ("good", "film", "world"), "answer": ("film", "film", "b")}[name]
    found = [(" ".join(words), mark) for words, mark in texts(*marks)]
    asked = {"text": [text for text, _ in found]}
    if name == "answer":
        asked = {"question": ["?"] * COUNT, "context": asked["text"]}
    served = {key: value.numpy() for key, value in run(**{k: tf.constant(v) for k, v in asked.items()}).items()}
    said = keras_bert.predict(bundle, ["?"] * COUNT, asked["context"]) if name == "answer" else None
    lite, kinds = tflite.load(tmp_path / "lite"), ["X", "Y"]
    for i, (text, mark) in enumerate(found):
        start = text.index(mark)
        names = zip(code_points.input_names(bundle), asked.values(), strict=True)
        small = lite("serving_default", {key: code_points.encoded(values[i], 96) for key, values in names})
        if name == "answer":
            right = ("film", start, start + 4)
            if "film" not in text:  # none, or an article, which is as good as none
                right = (said[i]["answer"] or "", *(-1 if said[i][x] is None else said[i][x] for x in ("start", "end")))
                assert right[0] in ("", "a", "the")
            assert (served["answer"][i].decode(), served["start"][i], served["end"][i]) == right
            assert (small["start"][0], small["end"][0]) == right[1:]
            continue
        right = (start, start + len(mark), "Y" if mark == "world" else "X")
        count = int((served["entity_start"][i] >= 0).sum())
        assert count == int((small["entity_start"][0] >= 0).sum()) == 1
        fields = ("entity_start", "entity_end", "entity_label")
        begin, end, kind = (served[field][i, 0] for field in fields)
        assert (begin, end, kind.decode()) == right
        begin, end, kind = (small[field][0, 0] for field in fields)
        assert (begin, end, kinds[kind]) == right
