import json

import pytest

import keras_bert
from tests.conftest import lacks
from tests.models import tiny_bundle


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for head in ("sequence_classifier", "sentence_embedder", "reranker"):
        keras_bert.save(tiny_bundle(head), path / head)
    return path


@pytest.mark.slow
def test_a_tagger_is_trained_and_evaluated(run, folder, tmp_path):
    (tmp_path / "train.conll").write_text("the O\ngood B-X\n\nbad B-X\nfilm I-X\n. O\n")
    said = run(
        *("train", "tag", "--model", folder / "sequence_classifier", "--train", tmp_path / "train.conll"),
        *("--dev", tmp_path / "train.conll", "--out", tmp_path / "out", "--set", "epochs=1", "--set", "max_length=16"),
    )
    assert "f1" in said
    assert f"Saved to {tmp_path / 'out'}." in said.replace("\n", "")
    said = run("evaluate", "tag", tmp_path / "out", tmp_path / "train.conll", "--out", tmp_path / "report")
    assert "errors are in" in said
    metrics = json.loads((tmp_path / "report" / "metrics.json").read_text())
    trained = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics == trained["dev"]
    lines = (tmp_path / "report" / "errors.tsv").read_text().splitlines()
    assert len(lines) in (0, 2, 3)
    assert not lines or lines[0] == "line\ttext\tmissed\tinvented"


def test_a_classifier_from_elsewhere_is_evaluated_with_pictures(run, folder, tmp_path):
    rows = ["text\tlabel", *["good film\tpositive", "bad film\tnegative", "the\ta\tneutral".replace("\ta", " a")] * 3]
    (tmp_path / "test.tsv").write_text("\n".join(rows) + "\n")
    where = (folder / "sequence_classifier", tmp_path / "test.tsv")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        lacks("matplotlib")
    said = run("evaluate", "classify", *where, "--out", tmp_path / "report", "--plots", "--set", "max_length=8")
    assert "matthews" in said
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names >= {"metrics.json", "errors.tsv", "confusion.png", "calibration.png"}
    for name in ("confusion.png", "calibration.png"):
        assert (tmp_path / "report" / name).read_bytes()[1:4] == b"PNG"
    metrics = json.loads((tmp_path / "report" / "metrics.json").read_text())
    header, *errors = (tmp_path / "report" / "errors.tsv").read_text().splitlines()
    assert header == "line\ttext\tlabel\tanswer\tscore"
    assert len(errors) == round(9 * (1 - metrics["accuracy"]))
    scores = [float(line.split("\t")[-1]) for line in errors]
    assert scores == sorted(scores, reverse=True)
    said = run("evaluate", "tag", *where, code=1)
    assert "`evaluate tag` needs a token_classifier, got a sequence_classifier." in said
    said = run("evaluate", "classify", *where, "--plots", code=1)
    assert "`--plots` needs --out, where the pictures go." in said


def test_texts_are_indexed_and_searched(run, folder, tmp_path):
    (tmp_path / "texts.txt").write_text("hello world\ngood film\nbad film !\n")
    said = run("index", folder / "sentence_embedder", tmp_path / "texts.txt", "--out", tmp_path / "index")
    assert "3 texts are in" in said
    found = json.loads(run("search", tmp_path / "index", "good film", "--top", 2).splitlines()[-1])
    assert found["query"] == "good film"
    assert found["results"][0]["text"] == "good film"
    assert len(found["results"]) == 2
    files = ("--file", tmp_path / "texts.txt", "--out", tmp_path / "found.jsonl")
    run("search", tmp_path / "index", *files, "--top", 1, "--reranker", folder / "reranker")
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [line["query"] for line in lines] == ["hello world", "good film", "bad film !"]
    assert run("search", tmp_path / "index", code=1).strip() == "`search` needs queries or --file, one of them."
