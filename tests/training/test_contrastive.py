import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.training.contrastive import CosineError, InBatchNegatives, siamese
from keras_bert.training.recipes import embed
from keras_bert.training.text_groups import read_groups
from tests.conftest import shared_data
from tests.models import tiny_bundle

ROOT = Path(__file__).resolve().parents[2]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def expected_loss(vectors, scale, barred=()):
    """Row by row in float64."""
    anchors, candidates = unit(vectors[:, 0]), unit(vectors[:, 1:].reshape(-1, vectors.shape[-1]))
    losses = []
    for i, anchor in enumerate(anchors):
        own = i * (vectors.shape[1] - 1)
        logits = {j: scale * anchor @ row for j, row in enumerate(candidates) if (i, j) not in barred}
        losses.append(np.log(sum(np.exp(value) for value in logits.values())) - logits[own])
    return losses


def test_in_batch_negatives_by_hand():
    vectors = np.random.default_rng(0).normal(size=(4, 3, 6))
    numbers = np.arange(8).reshape(4, 2)
    found = InBatchNegatives(5.0).call(numbers, vectors.astype("float32"))
    np.testing.assert_allclose(np.asarray(found), expected_loss(vectors, 5.0), rtol=1e-5)
    numbers[2, 0] = numbers[0, 0]  # the same text is no wrong one
    found = InBatchNegatives(5.0).call(numbers, vectors.astype("float32"))
    np.testing.assert_allclose(np.asarray(found), expected_loss(vectors, 5.0, {(0, 4), (2, 0)}), rtol=1e-5)


def test_leading_dimensions_count_by_themselves():
    vectors = np.random.default_rng(1).normal(size=(3, 2, 6))
    numbers = np.arange(3).reshape(3, 1)
    found = InBatchNegatives(5.0, (2, 4)).call(numbers, vectors.astype("float32"))
    parts = [expected_loss(vectors[..., :width], 5.0) for width in (2, 4, 6)]
    np.testing.assert_allclose(np.asarray(found), np.mean(parts, axis=0), rtol=1e-5)
    scores = np.array([0.1, 0.5, 1.0])
    found = CosineError((2,)).call(scores, vectors.astype("float32"))
    cosines = [np.sum(unit(vectors[:, 0, :w]) * unit(vectors[:, 1, :w]), axis=-1) for w in (2, 6)]
    np.testing.assert_allclose(np.asarray(found), np.mean([(c - scores) ** 2 for c in cosines], axis=0), rtol=1e-5)


def test_siamese_gives_each_text_its_vector():
    bundle = tiny_bundle("sentence_embedder")
    texts = ["hello world", "good film", "a b c", "bad film !"]
    features = bundle.tokenizer(texts)
    grouped = {name: value.reshape(2, 2, -1) for name, value in features.items()}
    vectors = siamese(bundle.model, 2).predict_on_batch(grouped)
    np.testing.assert_allclose(vectors.reshape(4, -1), bundle.model.predict_on_batch(features), atol=1e-6)


@pytest.mark.slow
def test_two_replicas_equal_one(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.contrastive_replicas", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(out.read_text())
    (loss, weights), (loss_of_two, weights_of_two) = found["one"], found["two"]
    assert loss_of_two == pytest.approx(loss, rel=1e-5)
    for one, two in zip(weights, weights_of_two, strict=True):
        np.testing.assert_allclose(two, one, atol=2e-6)


def test_positives_of_labelled_pairs(tmp_path):
    (tmp_path / "a.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\t1\nc\td\t0\ne\tf\t1\n")
    settings = {"model": "m", "train": "t", "out": "o"}
    found = embed.read(embed.Embed(**settings, positives=True), tmp_path / "a.tsv")
    assert (found.groups, found.scores) == ([["a", "b"], ["e", "f"]], None)
    assert embed.read(embed.Embed(**settings), tmp_path / "a.tsv").scores == [1.0, 0.0, 1.0]


def test_files_of_groups(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    pairs = read_groups(write("a.tsv", "sentence1\tsentence2\na b\tc\n"))
    assert (pairs.groups, pairs.scores) == ([["a b", "c"]], None)
    scored = read_groups(write("b.tsv", "text_a\ttext_b\tscore\na\tb\t4.5\n"))
    assert (scored.groups, scored.scores) == ([["a", "b"]], [4.5])
    triplets = read_groups(write("c.csv", "anchor,positive,negative\na,b,c\n"))
    assert triplets.groups == [["a", "b", "c"]]
    more = read_groups(write("d.jsonl", '{"query": "a", "positive": "b", "negatives": ["c", "d"]}\n'))
    assert more.groups == [["a", "b", "c", "d"]]
    passages = read_groups(write("j.tsv", "query\tpassage\tnegative\na\tb\tc\n"))
    assert passages.groups == [["a", "b", "c"]]
    named = read_groups(write("e.tsv", "x\ty\na\tb\n"), "x", "y")
    assert named.groups == [["a", "b"]]
    for name, content, message in (
        (
            "f.jsonl",
            '{"query": "a", "positive": "b", "negative": 3}\n',
            r"line 1 must have an anchor, .*, got \{.*3\}\.$",
        ),
        (
            "g.jsonl",
            '{"query": "a", "positive": "b", "negatives": ["c"]}\n{"query": "a", "positive": "b", "negatives": []}\n',
            r"line 2 must have 3 texts as the first line has, got 2\.$",
        ),
        ("h.tsv", "text\na\n", r"must have two columns of texts, got one\.$"),
        ("i.tsv", "text1\ttext2\tscore\na\tb\thigh\n", r"line 2: the label must be a finite number, got `high`\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            read_groups(write(name, content))


@pytest.mark.slow
def test_questions_find_their_paragraphs_better_after_training_on_others(minilm, tmp_path):
    """The genuine MiniLM, on the pairs of 16 articles of XQuAD; asked about 10 others."""
    articles = json.loads(shared_data("xquad/xquad.en.json").read_text(encoding="utf-8"))["data"]
    assert len(articles) == 48

    def write(name, chosen):
        pairs = [(q["question"], p["context"]) for article in chosen for p in article["paragraphs"] for q in p["qas"]]
        rows = [json.dumps({"query": question, "positive": context}) for question, context in pairs]
        (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    train, dev = write("train.jsonl", articles[10:26]), write("dev.jsonl", articles[:10])
    settings = {"batch_size": 16, "max_length": 128, "learning_rate": 3e-5, "epochs": 1}
    metrics = embed.run(embed.Embed(str(minilm), train, str(tmp_path / "out"), dev=dev, **settings))
    assert metrics["dev"]["mrr@10"] > metrics["before"]["mrr@10"] > 0.8
    again = embed.evaluate(embed.Embed(str(minilm), train, "o", **settings), keras_bert.load(tmp_path / "out"), dev)
    assert again.metrics == metrics["dev"]
