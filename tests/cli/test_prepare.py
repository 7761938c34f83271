import gzip
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert.tokenization import Tokenizer
from keras_bert_cli.main import app

WORDS = "time year people way day man thing woman life child".split()


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stderr if code else result.stdout


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with a tokenizer, and one with a corpus in two files."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "tokenizer").mkdir()
    Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "."]).save(folder / "tokenizer")
    rng = np.random.default_rng(0)
    for part in range(2):
        texts = ["\n".join(" ".join(rng.choice(WORDS, 5)) + "." for _ in range(12)) for _ in range(8)]
        (folder / f"{part}.txt.gz").write_bytes(gzip.compress("\n\n".join(texts).encode()))
    return folder


@pytest.fixture(scope="module")
def prepared(folders):
    said = run("prepare", folders / "*.txt.gz", "--tokenizer", folders / "tokenizer", "--out", folders / "prepared",
               "--processes", 1)  # fmt: skip
    assert said.startswith("16 documents, 192 sentences, 1,152 tokens in 1 shards. Look at them: keras-bert show-data")
    return folders / "prepared"


@pytest.mark.parametrize("pairing", ["next_sentence", "full_sentences"])
def test_show_data(prepared, monkeypatch, pairing):
    monkeypatch.setenv("COLUMNS", "300")
    said = run("show-data", prepared, "--examples", 4, "--max-length", 40, "--masking", "words", "--pairing", pairing)
    assert said.count("[CLS]") == said.count("example ") == 4
    assert re.search(rf"\[(MASK|=|\w+):?({'|'.join(WORDS)}|\.)\]", said)
    assert "tokens of a row (of 40)" in said
    examples, padding, chosen = re.search(r"examples (\d+), padding ([\d.]+)%, chosen ([\d.]+)% of", said).groups()
    assert 25 < int(examples) < 40
    assert 0 < float(padding) < 40
    assert 10 < float(chosen) < 17
    assert ("B follows A" in said) == (pairing == "next_sentence")
    other = run("show-data", prepared, "--max-length", 40, "--masking", "words", "--pairing", pairing, "--epoch", 1)
    assert other != said


def test_show_packed_rows(prepared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "999")  # so that no line is broken
    options = ("--examples", 2, "--max-length", 60, "--pairing", "sentence_order", "--row-sequences", 3)
    said = run("show-data", prepared, *options)
    first, second = re.findall(r"row \d  (\d) examples, (\d+) padding\n", said)
    lines = re.findall(r"^  (\d+)-(\d+)  example (\d+)  B (?:follows|does not follow) A\n(.*)$", said, re.MULTILINE)
    assert len(lines) == int(first[0]) + int(second[0])
    assert len({number for _, _, number, _ in lines}) == len(lines)
    ends = 0
    for start, end, _, tokens in lines:
        tokens = tokens.split()
        assert len(tokens) == int(end) - int(start) + 1
        assert (tokens[0], tokens[-1], tokens.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
        assert int(start) in (0, ends)
        ends = int(end) + 1
    assert ends + int(second[1]) == 60
    assert "[MASK:" in said
    rows, mean, packed, apart = re.search(
        r"packed into (\d+) rows of ([\d.]+) examples: padding ([\d.]+)%, in rows of their own ([\d.]+)%", said
    ).groups()
    assert float(packed) <= float(apart)
    assert f"padding {apart}%, chosen" in said
    assert 1 <= float(mean) <= 3
    assert int(rows) <= 40
    assert "sequences" in run("show-data", prepared, "--row-sequences", 0, code=2)


def test_pretrain_reads_a_prepared_corpus(prepared, tmp_path):
    tiny = ("hidden_size=16", "num_hidden_layers=1", "max_length=24", "batch_size=4", "masking=words")
    tiny = [part for setting in tiny for part in ("--set", setting)]
    said = run("pretrain", "--corpus", prepared, "--out", tmp_path / "out", "--steps", 2, *tiny)
    assert "Saved to" in said
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["documents"] + len(metrics["held_out_documents"]) == 16
    assert all(".txt.gz:" in name for name in metrics["held_out_documents"])
    assert keras_bert.load(tmp_path / "out").tokenizer.vocab == Tokenizer.from_folder(prepared).vocab
    said = run("pretrain", "--corpus", prepared, "--out", tmp_path / "x", "--set", "segmenter=spaces", code=1)
    assert said == "`segmenter` must not be set for a prepared corpus: its words are in it.\n"


def test_faults_are_one_line(folders, tmp_path):
    options = ("--tokenizer", folders / "tokenizer", "--out", tmp_path / "out", "--processes", 1)
    (tmp_path / "bad.txt").write_bytes(b"Time.\nCaf\xe9.\n")
    said = run("prepare", tmp_path / "bad.txt", *options, code=1)
    assert said.splitlines()[-1].endswith("bad.txt must be UTF-8, line 2 is not: byte 0xe9 at column 4.")
    result = CliRunner().invoke(app, [str(a) for a in ("prepare", tmp_path / "bad.txt", *options, "--skip-bad")])
    assert "left out: " in result.stderr
    assert run("show-data", tmp_path, code=1).startswith(f"{tmp_path} has no manifest.json: it is not a prep")
