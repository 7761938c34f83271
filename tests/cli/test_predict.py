"""`keras-bert predict` for heads that take more than texts: columns, options, order."""

import json

import pytest

import keras_bert
from keras_bert_cli import predict_texts
from tests.models import tiny_bundle


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for head in ("span_extractor", "multiple_choice", "token_classifier", "next_sentence"):
        keras_bert.save(tiny_bundle(head), path / head)
    return path


def rows(said):
    return [json.loads(line) for line in said.splitlines()]


def test_questions(run, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(predict_texts, "AT_ONCE", 2)  # several blocks
    asked = [("the ?", "hello film " * (40 - i)) for i in range(5)]
    lines = [json.dumps({"id": i, "context": context, "question": q}) + "\n" for i, (q, context) in enumerate(asked)]
    (tmp_path / "asked.jsonl").write_text("".join(lines))
    options = ("--set", "null_threshold=1e9", "--set", "top=2", "--max-length", 20)
    run("predict", folders / "span_extractor", "--file", tmp_path / "asked.jsonl", "--out", tmp_path / "o", *options)
    found = rows((tmp_path / "o").read_text())
    bundle = keras_bert.load(folders / "span_extractor")
    expected = keras_bert.predict(
        bundle, *map(list, zip(*asked, strict=True)), max_length=20, null_threshold=1e9, top=2
    )
    for row, (question, context), answer in zip(found, asked, expected, strict=True):
        assert row["question"] == question
        assert "context" not in row
        assert row["answer"] == context[row["start"] : row["end"]] == answer["answer"]
        assert len(row["others"]) == 1
    (row,) = rows(run("predict", folders / "span_extractor", "the ?", "--pair", "a b c", *options))
    assert row["answer"] in "a b c"


def test_choices_words_and_next_sentences(run, folders, tmp_path):
    (row,) = rows(
        run("predict", folders / "multiple_choice", "hello", "--pair", "good", "--pair", "bad", "--pair", "a")
    )
    assert row["choices"] == ["good", "bad", "a"]
    assert len(row["probabilities"]) == 3
    (tmp_path / "c.jsonl").write_text('{"text": "hello", "choices": ["good", "bad", "a"]}\n')
    assert rows(run("predict", folders / "multiple_choice", "--file", tmp_path / "c.jsonl")) == [row]
    (tmp_path / "w.jsonl").write_text('{"words": ["hello", "goods"]}\n{"words": ["a", "", "b"]}\n')
    found = rows(run("predict", folders / "token_classifier", "--file", tmp_path / "w.jsonl"))
    assert [len(row["labels"]) for row in found] == [2, 3]
    (row,) = rows(run("predict", folders / "next_sentence", "hello", "--pair", "a film"))
    assert 0 < row["probability"] < 1


def test_faults(run, folders, tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "hello"}\n')
    choices = folders / "multiple_choice"
    for arguments, sentence in (
        ((choices, "--file", tmp_path / "c.jsonl"), "c.jsonl line 1 must have `choices`, got text."),
        ((choices, "a", "--pair", "b", "--set", "top"), "`--set` must be NAME=VALUE, got 'top'."),
        ((choices, "a", "--pair", "b", "--set", "top=many"), "`top` must be a number, got 'many' in --set."),
        ((choices, "a", "--pair", "b", "--set", "top=3"), "`multiple_choice` takes no setting `top`."),
        ((folders / "next_sentence", "a"), "`next_sentence` needs `pairs`, a second text for each."),
        (
            (folders / "next_sentence", "a", "--pair", "b", "--pair", "c"),
            "must be there once for each text, got 2 for 1.",
        ),
    ):
        assert sentence in run("predict", *arguments, code=1)
