import re

import pytest

from keras_bert.training.examples import label_ids, label_names, read_examples
from tests.conftest import shared_data


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_tsv_takes_quotes_as_letters(write):
    path = write("a.tsv", 'sentence\tlabel\n"quoted\t1\nhe said "no" .\t0\n\t1\n')
    examples = read_examples(path)
    assert examples.texts == ['"quoted', 'he said "no" .', ""]
    assert (examples.labels, examples.pairs, examples.lines) == (["1", "0", "1"], None, [2, 3, 4])


def test_csv_has_quoting_and_line_ends_inside_texts(write):
    path = write("a.csv", 'Label,Text\r\npos,"a, ""b""\nc"\r\n\r\nneg,d\r\n')
    examples = read_examples(path)
    assert examples.texts == ['a, "b"\nc', "d"]
    assert (examples.labels, examples.lines) == (["pos", "neg"], [2, 5])


def test_jsonl_and_pairs(write):
    lines = '{"sentence1": "花呗", "sentence2": "b", "label": 0}\n\n'
    lines += '{"label": "1", "sentence1": "c", "sentence2": "d"}\n'
    examples = read_examples(write("a.jsonl", "\ufeff" + lines))
    assert (examples.texts, examples.pairs) == (["花呗", "c"], ["b", "d"])
    assert (examples.labels, examples.lines) == (["0", "1"], [1, 3])


def test_columns_by_name_by_number_and_without_labels(write):
    path = write("a.tsv", "text\tother\tlabel\tmood\nx\ty\t1\tsad\n")
    assert read_examples(path, label="mood").labels == ["sad"]
    assert read_examples(path, text="other").texts == ["y"]
    assert read_examples(path, pair="other").pairs == ["y"]
    assert read_examples(path, labelled=False).labels is None
    headless = write("b.tsv", "gj04\t1\t\tThe sailors rode.\n")
    examples = read_examples(headless, text="4", label="2")
    assert (examples.texts, examples.labels, examples.lines) == (["The sailors rode."], ["1"], [1])


@pytest.mark.parametrize(
    ("name", "rows", "pairs"),
    [
        ("sst2/dev.tsv", 872, False),
        ("rte/dev.tsv", 277, True),
        ("mrpc/test.tsv", 1725, True),
        ("chnsenticorp/dev.tsv", 1200, False),
        ("afqmc/dev.jsonl", 4316, True),
        ("lcqmc/dev.tsv", 8802, True),
    ],
)
def test_published_files_are_read_without_naming_columns(name, rows, pairs):
    examples = read_examples(shared_data(name))
    assert len(examples) == rows
    assert (examples.pairs is not None) == pairs
    assert label_names(examples) in (["0", "1"], ["entailment", "not_entailment"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", r"^.*a\.txt must end in \.tsv, \.csv or \.jsonl, got \.txt\.$"),
        ("a.tsv", "", r"^.*a\.tsv must hold at least one example, got none\.$"),
        ("a.tsv", "text\tlabel\n", r"^.*a\.tsv must hold at least one example, got none\.$"),
        ("a.tsv", "text\tlabel\na\t1\nb\n", r"^.*a\.tsv line 3 must have 2 columns as line 1 has, got 1\.$"),
        ("a.tsv", "text\ttext\na\t1\n", r"^.*a\.tsv names a column twice: text, text\.$"),
        ("a.tsv", b"text\tlabel\na\t1\n\xff\t1\n", r"^.*a\.tsv must be UTF-8, line 3 is not: byte 0xff at column 1\.$"),
        ("a.tsv", "text\tlabel\na\t \n", r"^.*a\.tsv line 2: `label` must be a label, got an empty one\.$"),
        ("a.csv", 'text,label\n"a,1\n', r"^.*a\.csv line 2 is not CSV: unexpected end of data\.$"),
        (
            "a.tsv",
            "gj04\t1\n",
            r"^.*a\.tsv must hold at least one example, got none\.$",
        ),
        (
            "a.tsv",
            "gj04\t1\ngj05\t1\n",
            r"^.*a\.tsv has no column for the text that is known by its name\. Line 1 has: `gj04`, `1`\. "
            r"Say which one it is; numbers, counted from 1, where there is no header\.$",
        ),
        ("a.tsv", "text\tlebal\na\t1\n", r"^.*a\.tsv has no column for the label that is known by its name\. .*$"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', r"^.*a\.jsonl line 2 is not JSON: .* at column 8\.$"),
        ("a.jsonl", "[1]\n", r"^.*a\.jsonl line 1 must be a JSON object, got list\.$"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', r"^.*a\.jsonl line 2 has no `label`\.$"),
        ("a.jsonl", '{"text": 5, "label": 1}\n', r"^.*a\.jsonl line 1: `text` must be a string, got 5\.$"),
        (
            "a.jsonl",
            '{"text": "a", "label": {"b": 1}}\n',
            r"^.*line 1: `label` must be a string, a number or a list of strings without \|, got \{\"b\": 1\}\.$",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 2}\n{"text": "a", "label": "two"}\n',
            r"^The labels of .*a\.jsonl must be .*, got a string in line 2 and a number in line 1\.$",
        ),
        (
            "a.jsonl",
            '{"text": "a\\ud800", "label": 1}\n',
            r"^.*line 1: `text` must be Unicode text, got half of a surrogate pair\.$",
        ),
    ],
)
def test_bad_files_give_one_sentence(write, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_examples(write(name, content))


def test_a_column_that_is_not_there(write):
    path = write("a.tsv", "text\tlabel\na\t1\n")
    with pytest.raises(ValueError, match=r"no column `lable`\. Did you mean `label`\? Line 1 has: `text`, `label`\.$"):
        read_examples(path, label="lable")
    with pytest.raises(ValueError, match=r"gone\.tsv is missing\.$"):
        read_examples(path.with_name("gone.tsv"))


def test_labels(write):
    numbers = read_examples(write("a.tsv", "text\tlabel\na\t10\nb\t9\n"))
    assert label_names(numbers) == ["9", "10"]
    words = read_examples(write("b.tsv", "text\tlabel\na\tneg\nb\tpositive\nc\tneg\n"))
    assert label_ids(words, label_names(words)) == [0, 1, 0]
    message = re.escape("b.tsv line 3 has the unknown label `positive`. Did you mean `postive`? Known: neg, postive.")
    with pytest.raises(ValueError, match=message):
        label_ids(words, ["neg", "postive"])
    with pytest.raises(ValueError, match=r"must hold at least two different labels, got only `1`\.$"):
        label_names(read_examples(write("c.tsv", "text\tlabel\na\t1\n")))
