"""vocab.txt, where the traps are."""

import pytest

from keras_bert.tokenization import Tokenizer, read_vocab, write_vocab

ROWS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "", "hello", "\u2028", "\u0085", "hello ", "hello", "world"]


@pytest.mark.parametrize("form", ["lf", "crlf", "bom", "no end"])
def test_a_token_s_id_is_its_line(tmp_path, form):
    text = "\n".join(ROWS) + "\n"
    data = {"lf": text, "crlf": text.replace("\n", "\r\n"), "bom": "\ufeff" + text, "no end": text[:-1]}[form]
    path = tmp_path / "vocab.txt"
    path.write_bytes(data.encode("utf-8"))
    assert read_vocab(path) == tuple(ROWS)
    tokenizer = Tokenizer.from_vocab(path)
    assert tokenizer.vocab_size == len(ROWS)
    assert tokenizer.encode("Hello world").ids[1:-1] == [9, 10]


def test_writes_what_was_read(tmp_path):
    data = ("\n".join([*ROWS, "", ""]) + "\n").encode("utf-8")
    (tmp_path / "a.txt").write_bytes(data)
    write_vocab(read_vocab(tmp_path / "a.txt"), tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "one token a line, got an empty file"), (b"a\nb\xff\n", "must be UTF-8, got byte 0xff in line 2")],
)
def test_bad_files_are_named(tmp_path, data, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_vocab(path)


def test_a_token_with_a_line_end_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must not hold a line end, got 'a\\nb' in row 1"):
        write_vocab(["x", "a\nb"], tmp_path / "vocab.txt")
    assert list(tmp_path.iterdir()) == []
