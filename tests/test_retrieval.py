import json

import numpy as np
import pytest

import keras_bert
from keras_bert.retrieval import _by_numpy, nearest, read_index, search, write_index
from tests.models import tiny_bundle

TEXTS = ["hello world", "good film", "bad film !", "你 好", "the a b c", "a good b ."]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "embedder"
    keras_bert.save(tiny_bundle("sentence_embedder"), folder)
    return folder


@pytest.fixture(scope="module")
def index(embedder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "index"
    write_index(keras_bert.load(embedder), TEXTS, folder, embedder)
    return folder


def test_each_text_finds_itself_first(embedder, index):
    found = read_index(index)
    assert (found.texts, found.embedder) == (TEXTS, str(embedder))
    rows = search(found, keras_bert.load(embedder), TEXTS[::-1], top=3)
    assert [row[0]["text"] for row in rows] == TEXTS[::-1]
    assert [row[0]["place"] for row in rows] == [5, 4, 3, 2, 1, 0]
    for row in rows:
        scores = [one["score"] for one in row]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(1.0, abs=1e-5)


def test_nearest_is_a_full_sort_and_equal_scores_keep_the_order():
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(50, 4)).astype("float32"), rng.normal(size=(7, 4)).astype("float32")
    vectors[10:20] = vectors[0]
    scores, places = _by_numpy(vectors, queries, 50)
    expected = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(queries @ vectors.T, expected, axis=1))
    few, _ = nearest(vectors, queries, 8)
    np.testing.assert_allclose(few, scores[:, :8], rtol=1e-6)
    assert nearest(vectors[:3], queries, 8)[0].shape == (7, 3)


def test_the_reranker_decides_the_order(embedder, index):
    reranker = tiny_bundle("reranker", seed=3)
    (row,) = search(read_index(index), keras_bert.load(embedder), ["good"], 2, reranker, candidates=4)
    (nearest_four,) = search(read_index(index), keras_bert.load(embedder), ["good"], 4)
    texts = [one["text"] for one in nearest_four]
    scores = keras_bert.predict(reranker, ["good"] * 4, texts)
    best = sorted(zip(scores, texts, strict=True), reverse=True)[:2]
    assert [(one["score"], one["text"]) for one in row] == [(pytest.approx(s, abs=1e-5), t) for s, t in best]


def test_what_does_not_fit_is_refused(embedder, index, tmp_path):
    found, bundle = read_index(index), keras_bert.load(embedder)
    with pytest.raises(ValueError, match=r"^The model must be a sentence_embedder, got reranker\.$"):
        search(found, tiny_bundle("reranker"), ["a"])
    with pytest.raises(ValueError, match=r"^An index must have at least one text, got none\.$"):
        write_index(bundle, [], tmp_path / "x", embedder)
    with pytest.raises(ValueError, match=r"^`top` must be at least 1, and at most `candidates`, got 5 and 2\.$"):
        search(found, bundle, ["a"], 5, bundle, 2)
    with pytest.raises(ValueError, match=r"index\.json is missing\.$"):
        read_index(tmp_path)
    (index / "texts.jsonl").write_text(json.dumps("one") + "\n")
    with pytest.raises(ValueError, match=r"must have a vector for each of its 1 texts, got \(6, 12\)\.$"):
        read_index(index)
