"""Retrieval by the genuine MiniLM without training: the figures that its own library gives on these files."""

import json
import re

import pytest

import keras_bert
from keras_bert.retrieval import nearest
from keras_bert.training.metrics import ranking_metrics
from tests.conftest import shared_data

pytestmark = pytest.mark.slow


def scores(minilm, queries, texts, relevant):
    embedder = keras_bert.load(minilm)
    vectors = keras_bert.predict(embedder, texts)
    _, places = nearest(vectors, keras_bert.predict(embedder, queries), 100)
    return ranking_metrics(places.tolist(), relevant)


def test_questions_find_their_paragraph(minilm):
    data = json.loads(shared_data("xquad/xquad.en.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    asked = [(q["question"], i) for i, paragraph in enumerate(paragraphs) for q in paragraph["qas"]]
    queries, right = zip(*asked, strict=True)
    found = scores(minilm, list(queries), [p["context"] for p in paragraphs], [{i: 1.0} for i in right])
    assert found["queries"] == 1190
    assert round(found["mrr@10"], 3) == 0.928
    assert round(found["recall@1"], 3) == 0.885
    assert round(found["recall@10"], 3) == 0.990


def fields(path):
    """The entries of a file in SMART's layout: dicts from a field's letter to its text."""
    for entry in re.split(r"^\.I \d+\s*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        parts = re.split(r"^\.([A-Z])\s*$", entry, flags=re.MULTILINE)[1:]
        yield {letter: " ".join(text.split()) for letter, text in zip(parts[::2], parts[1::2], strict=True)}


def test_cranfield(minilm):
    texts = [f"{entry['T']} {entry['W']}" for entry in fields(shared_data("cranfield/cran.all.1400"))]
    queries = [entry["W"] for entry in fields(shared_data("cranfield/cran.qry"))]
    relevant = [{} for _ in queries]
    for line in shared_data("cranfield/cranqrel").read_text().splitlines():
        query, document, grade = map(int, line.split())
        if grade > 0:
            relevant[query - 1][document - 1] = 1.0
    assert (len(texts), len(queries)) == (1400, 225)
    found = scores(minilm, queries, texts, relevant)
    assert round(found["ndcg@10"], 3) == 0.399
    assert round(found["mrr@10"], 3) == 0.539
