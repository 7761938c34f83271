"""The benchmark of pretraining data runs on toys, without the peers."""

import pytest

from benchmarks import pipeline
from keras_bert.training.pairs import tokenize_documents
from tests.training.toy import numbered_documents, tokenizer_for


@pytest.mark.slow
def test_tables(monkeypatch):
    documents = numbered_documents((9, 30, 17))
    tokenizer = tokenizer_for(documents)
    tokenized = tokenize_documents(documents, tokenizer)
    monkeypatch.setattr(pipeline, "MASKING", pipeline.MASKING[:2])
    rows = pipeline.rows_of(tokenized, tokenizer, 10)
    assert rows.shape == (10, pipeline.LENGTH)
    assert [row[0] for row in pipeline.masking(rows, tokenizer, 4, 1).rows] == ["ours, tokens", "ours, whole words"]
    monkeypatch.setattr(pipeline, "KINDS", {"packed": {"row_sequences": 3, "short_probability": 0.5}})
    assert [row[0] for row in pipeline.from_shards(tokenized, tokenizer, 2, 1, 1).rows] == ["packed"]
    unpacked, packed = pipeline.padding(tokenized, tokenizer, 60, 4).rows[0][1:]
    assert float(unpacked[:-1]) > float(packed[:-1])
