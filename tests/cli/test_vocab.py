"""`keras-bert vocab`: files in, a folder out that opens everywhere."""

import pytest
import tokenizers
from typer.testing import CliRunner

from keras_bert.tokenization import Tokenizer
from keras_bert.training.vocabulary import train_vocab
from keras_bert_cli.main import app

LINES = ["The lowest price is the newest price.", "Élan and lower prices, [unused1]!", "我们在北京，北京。"] * 20


def run(*arguments):
    return CliRunner().invoke(app, ["vocab", *map(str, arguments)])


def test_a_vocabulary_that_opens_everywhere(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "a.txt").write_text("\n".join(LINES), "utf-8")
    (tmp_path / "more" / "b.txt").write_text("\r\n".join(LINES), "utf-8")
    result = run(tmp_path / "a.txt", tmp_path / "more", "--size", 220, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    tokenizer = Tokenizer.from_folder(tmp_path / "out")
    assert tokenizer.vocab[:2] == ("[PAD]", "[unused0]")
    assert tokenizer.special_ids == (0, 100, 101, 102, 103)  # as in bert-base-uncased
    assert tokenizer.vocab_size <= 220
    assert not [token for token in tokenizer.vocab if len(token.removeprefix("##")) > 1 and "北" in token]
    assert tokenizer.encode("the price in 北京, élan").tokens.count("[UNK]") == 0
    twin = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for line in LINES[:3]:
        assert twin.encode(line).ids == tokenizer.encode(line).ids


def test_unused_rows_beyond_99_follow_mask():
    vocab = train_vocab(LINES, 400, unused=150)
    assert vocab.index("[MASK]") == 103
    assert vocab[104:155] == tuple(f"[unused{i}]" for i in range(99, 150))
    assert len(vocab) == len(set(vocab))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt"], "CORPUS must be text files or folders of .txt files, got nowhere.txt."),
        (["--size", "104"], "`size` must be over 104, the number of special and unused tokens, got 104."),
        (["--unused", "-1"], "`unused` must be at least 0, got -1."),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, arguments, message):
    (tmp_path / "a.txt").write_text("the\n", "utf-8")
    given = arguments if arguments[0].startswith("nowhere") else [tmp_path / "a.txt", *arguments]
    result = run(*given, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.output.strip() == message
