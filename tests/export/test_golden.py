import json

import numpy as np
import pytest

from keras_bert.export import agreement, export, golden, verify
from tests.models import LABELS, tiny_bundle

FEW = ("a good film", "", "你好，世界", "é 😀\t\n")


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(agreement, "TEXTS", FEW)


def lines(folder):
    return [json.loads(line) for line in (folder / golden.FILE).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("format", "head", "options"),
    [
        ("tflite", "sequence_classifier", {"inputs": "pair", "max_length": 12}),
        ("onnx", "reranker", {}),
        pytest.param("saved_model", "sequence_classifier", {}, marks=pytest.mark.slow),
        pytest.param("saved_model", "token_classifier", {}, marks=pytest.mark.slow),
        pytest.param("saved_model", "multiple_choice", {}, marks=pytest.mark.slow),
        pytest.param("onnx", "span_extractor", {"inputs": "text", "max_length": 12}, marks=pytest.mark.slow),
        pytest.param("onnx", "sentence_embedder", {"quantize": "dynamic"}, marks=pytest.mark.slow),
    ],
)
def test_artifact_is_verified_by_what_lies_beside_it(format, head, options, few, tmp_path):
    report = export(tiny_bundle(head), tmp_path / "out", format, **options)
    assert report["golden"]["texts"] == len(FEW)
    (tmp_path / "out").rename(tmp_path / "moved")
    found = verify(tmp_path / "moved")
    assert (found["format"], found["evaluation"]["probes"]) == (format, len(FEW))
    assert all(value >= 0.99 for value in found["evaluation"].values())
    assert found["largest_difference"] <= found["allowed_difference"]
    rows = lines(tmp_path / "moved")
    assert [row["text"] for row in rows] == list(FEW)
    if options.get("inputs") == "pair":
        assert [row["text_pair"] for row in rows] == list(FEW[::-1])
        assert rows[0]["inputs"]["code_points"][0][:12] == [*map(ord, "a good film"), 0]
        assert [len(row["outputs"]["probabilities"][0]) for row in rows] == [len(LABELS)] * len(FEW)

    floats = ("probabilities", "score", "embedding", "entity_score")
    answer = next(name for name in floats if name in rows[0]["outputs"])
    rows[0]["outputs"][answer] = np.add(rows[0]["outputs"][answer], 0.5).tolist()
    (tmp_path / "moved" / golden.FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=r"gives other answers than when it was made: max difference \d"):
        verify(tmp_path / "moved")


def test_floats_come_back_as_they_were():
    values = {"y": np.random.default_rng(0).normal(size=(3, 4)).astype("float32"), "label": np.array([b"a b"], object)}
    found = golden._arrays(json.loads(json.dumps(golden._plain(values))), "int32")
    np.testing.assert_array_equal(found["y"], values["y"])
    assert found["y"].dtype == np.float32
    assert found["label"].tolist() == [b"a b"]
    assert golden._arrays({"ids": [[1, 2]]}, "int64")["ids"].dtype == np.int64
    assert golden._arrays({"code_points": [[1, 2]]}, "int64")["code_points"].dtype == np.int32
    choices = np.array([[b"a", b"b"], [b"c", b""]], object)
    assert golden._arrays(golden._plain({"choices": choices}), "int32")["choices"].tolist() == choices.tolist()


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ((), r"must hold report\.json; a folder without it is no export\.$"),
        (("report.json",), r"must hold golden\.jsonl; a folder without it is no export that a text is enough for\.$"),
    ],
)
def test_nothing_to_verify(files, sentence, tmp_path):
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=sentence):
        verify(tmp_path)
