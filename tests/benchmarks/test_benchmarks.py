"""The benchmarks run on toys, without the peers."""

import pytest
import tokenizers as huggingface

from benchmarks import data, inference, report, rounds, serving, tokenizers, training
from keras_bert import Tokenizer
from keras_bert.tokenization.vocabulary import write_vocab
from tests.models import VOCAB

OURS = "keras_bert"
SIZES = training.Sizes(len(VOCAB), 12, 2, 3, 20, 40, batch_size=4, max_length=10, max_predictions=3)
TEXTS = ["hello worlds", "", "a good film!", "商务大床房 é", "unknown words"] * 3


@pytest.fixture
def vocab(tmp_path):
    path = tmp_path / "vocab.txt"
    write_vocab(VOCAB, path)
    return path


@pytest.fixture
def alone(monkeypatch):
    """Leaves out the peers, whether they are installed or not."""
    for module, name in ((tokenizers, "IN_GRAPH"), (training, "CONTESTANTS"), (inference, "CONTESTANTS")):
        monkeypatch.setattr(module, name, tuple(c for c in getattr(module, name) if c.module == OURS))


def test_rounds_take_turns_and_the_first_is_not_timed():
    calls = []
    found = rounds.interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert "".join(calls) == "ba" + "ab" + "ba" + "ab"
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 3, "b": 3}
    assert rounds.medians({"a": [(3.0, 6.0), (1.0, 4.0), (2.0, 9.0)]}) == {"a": (2.0, 6.0)}


def test_what_is_not_installed_has_no_row():
    contestants = (rounds.Contestant("a", "no_such_module", None), rounds.Contestant("b", "json", lambda x: x + 1))
    assert rounds.prepared(contestants, 1) == {"b": 2}


def test_differing_counts_texts(vocab):
    encode = tokenizers.reference(vocab, True)
    assert tokenizers.differing(Tokenizer(VOCAB).strings_to_ragged, encode, TEXTS) == 0
    assert tokenizers.differing(Tokenizer(VOCAB, lowercase=False).strings_to_ragged, encode, ["Hello", "a", "A b"]) == 2
    assert tokenizers.differing(Tokenizer(VOCAB).strings_to_ragged, encode, ["", ""]) == 0


def test_both_references_agree(vocab):
    both = [f(vocab, True)(TEXTS) for f in (tokenizers.reference, tokenizers.reference_fast)]
    assert [x.ids for x in both[0]] == [x.ids for x in both[1]]
    assert isinstance(both[0][0], huggingface.Encoding)


def test_a_tflite_file_is_asked(vocab):
    pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")
    table = tokenizers.lite_latency(vocab, True, "a good film! " * 99, rounds=1, times=2)
    assert [row[0] for row in table.rows][::3] == ["ours, 512 code points, 1 thread", "ours, 54 code points, 2 threads"]
    assert all(float(ms) > 0 and float(cpu) >= 0 for _, ms, cpu in table.rows)


def test_all_ways_count_the_same_tokens(vocab):
    mine = tokenizers.in_tf_data(Tokenizer(VOCAB).strings_to_ragged, TEXTS, 4)
    assert mine() == tokenizers.in_python(tokenizers.reference(vocab, True), TEXTS, 4)() > 0


@pytest.mark.usefixtures("alone")
def test_tokenizer_tables(vocab):
    assert tokenizers.exactness(vocab, True, {"some": TEXTS}).rows == [("ours", "0")]
    assert [row[0] for row in tokenizers.throughput(vocab, True, TEXTS, 4, 1, "English").rows] == [
        "ours",
        "tokenizers encode_batch",
        "tokenizers encode_batch_fast",
    ]
    assert [row[2] for row in tokenizers.latency(vocab, True, 1, 1).rows] == ["1.00"]


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_model_tables():
    gathered, every_position = training.pretraining(SIZES, 1, 1).rows
    assert gathered[-2:] == ("1.00", "1.00")
    assert every_position[0] == "ours, all positions through the vocabulary"
    rows = inference.inference(SIZES, 1, {(1, 5): 1})
    assert rows.columns == ("model", "largest difference", "ms at (1, 5)", "CPU ms")
    assert [row[0] for row in rows.rows] == ["ours: tf.function", "ours: SavedModel"]
    assert all(float(row[1]) <= 1e-6 for row in rows.rows)


@pytest.mark.slow
def test_texts_of_mixed_length_are_predicted_both_ways(vocab):
    table = inference.predicting(SIZES, vocab, TEXTS, 1)
    assert [row[0] for row in table.rows] == ["predict, by length", "padded to 40"]
    assert float(table.title.split()[-1]) < 1e-5
    assert table.rows[1][3] == "1.00"


def test_a_section_is_replaced_and_others_stay(tmp_path):
    table = report.Table("Speed", ("name", "ms"), [("ours", "1.0")])
    out = tmp_path / "results.md"
    for title in ("A", "B", "A"):
        report.publish(title, [table], out)
    text = out.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# Results", "## A", "## B"]
    assert text.count("| name | ms |\n| --- | ---: |\n| ours | 1.0 |") == 2
    assert "commit" in text
    assert "Python 3." in text


def test_code_points_are_all_there():
    texts = data.code_points()
    assert len(texts) == 1_112_063
    assert texts[0] == "a\x01a"


@pytest.mark.slow
def test_serving_counts_what_was_answered(vocab):
    lengths = {"short": (3, 6), "none": (90, 99)}
    table = serving.serving(SIZES, vocab, TEXTS, 4, 0.4, 2, {"short": lengths["short"]})
    names = [row[0] for row in table.rows]
    assert names == ["short tokens, one by one", "short tokens, micro-batching"]
    for row in table.rows:
        assert float(row[1]) > 0
        assert float(row[5]) > 0
        assert int(row[6]) > 0
        assert row[7] == "0"
    assert table.rows[0][2] == "1.00"
    assert serving.texts_by_length(Tokenizer(VOCAB), TEXTS, lengths)["none"] == []
