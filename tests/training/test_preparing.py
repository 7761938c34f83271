import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.preparing import prepare
from keras_bert.training.shards import flat_ranges, read_manifest, read_shards, select_documents

WORDS = "time year people way day man thing woman life child world school state family student group".split()
VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", ".", "语", "言", "模", "型", "。")
CHUNK = 2000


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(VOCAB)


def documents(count=30, seed=0):
    """Documents of one to forty sentences."""
    rng = np.random.default_rng(seed)
    return [
        [" ".join(rng.choice([*WORDS, "days"], 6)).capitalize() + "." for _ in range(rng.integers(1, 40))]
        for _ in range(count)
    ]


def write_corpus(path, texts):
    path.write_text("\n\n".join("\n".join(text) for text in texts) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def prepared(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    corpus = write_corpus(folder / "corpus.txt", documents())
    return corpus, folder / "out", prepare([corpus], folder / "out", tokenizer, chunk=CHUNK)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_shards_hold_what_the_tokenizer_gives(prepared, tokenizer):
    corpus, out, manifest = prepared
    found, names = read_shards(out)
    expected = tokenize_documents(documents(), tokenizer)
    for name in ("token_ids", "sentence_starts", "document_starts", "word_starts"):
        value = getattr(found, name)
        np.testing.assert_array_equal(value, getattr(expected, name))
        assert value.dtype == getattr(expected, name).dtype
    assert names[0] == f"{corpus}:1"
    assert len(set(names)) == len(names) == 30
    assert manifest == read_manifest(out)
    assert (manifest["documents"], manifest["sentences"]) == (30, len(expected.sentence_starts) - 1)
    assert manifest["tokens"] == len(expected.token_ids)
    assert manifest["vocab_sha256"] == hashlib.sha256("\n".join(VOCAB).encode()).hexdigest()
    assert len(manifest["shards"]) > 5
    assert sum(shard["records"] for shard in manifest["shards"]) > 30  # documents that lie in two shards
    for shard in manifest["shards"]:
        assert hashlib.sha256((out / shard["name"]).read_bytes()).hexdigest() == shard["sha256"]
    assert Tokenizer.from_folder(out).get_config() == tokenizer.get_config()


def test_run_again_it_writes_only_what_changed(prepared, tokenizer):
    corpus, out, manifest = prepared
    before, times = contents(out), {path: path.stat().st_mtime_ns for path in out.glob("shard*")}
    (out / "manifest.json").unlink()
    (out / "shard-00002.tfrecord").write_bytes(b"half a sh")
    (out / "shard-00003.json").unlink()
    (out / "shard-00099.tfrecord").write_bytes(b"")  # there is a gap before it: of no run
    (out / ".shard-00004.tfrecord.0123abcd.tmp").write_bytes(b"what a kill left")
    (out / "shard-00099.tfrecord").unlink()
    assert prepare([corpus], out, tokenizer, chunk=CHUNK) == manifest
    assert contents(out) == before
    written = {path.stem for path in out.glob("shard*") if path.stat().st_mtime_ns != times[path]}
    assert written == {"shard-00002", "shard-00003"}


def test_other_text_or_settings_replace_the_shards(tmp_path, tokenizer):
    corpus, out = write_corpus(tmp_path / "corpus.txt", documents()), tmp_path / "out"
    prepare([corpus], out, tokenizer, chunk=CHUNK)
    write_corpus(tmp_path / "corpus.txt", documents(3))
    prepare([corpus], out, tokenizer, segmenter="spaces", chunk=CHUNK)
    prepare([corpus], tmp_path / "new", tokenizer, segmenter="spaces", chunk=CHUNK)
    assert contents(out) == contents(tmp_path / "new")


def test_words_of_a_segmenter_and_long_lines(tmp_path, tokenizer):
    (tmp_path / "zh.txt").write_text("语言 模型。\n" + "time " * 200_000 + "\n", encoding="utf-8")  # a line of 1 MB
    manifest = prepare([tmp_path / "zh.txt"], tmp_path / "out", tokenizer, segmenter="spaces")
    assert (manifest["documents"], manifest["tokens"]) == (1, 200_005)
    found, _ = read_shards(tmp_path / "out")
    assert found.word_starts[:6].tolist() == [True, False, True, False, False, True]


def test_a_mixed_corpus_is_read_as_a_clean_one(tmp_path, tokenizer):
    long = "time " * 210_000  # a line of 1 MB
    clean = [["Time day.", "Way man."], ["World."], [f"{long}."], ["Child.", "Group."]]
    write_corpus(tmp_path / "clean.txt", clean)
    lines = ["\ufeff", "", "Time day.", "Way man.", " ", "", "\t", "World.", "", f"{long}.", "", "", "Child.", "Group."]
    (tmp_path / "mixed.txt").write_bytes("\r\n".join(lines).encode())
    for name in ("clean", "mixed"):
        prepare([tmp_path / f"{name}.txt"], tmp_path / name, tokenizer)
    (one, _), (other, names) = (read_shards(tmp_path / name) for name in ("clean", "mixed"))
    for field in vars(one):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert [name.rsplit(":", 1)[1] for name in names] == ["3", "8", "10", "13"]


def test_bad_lines_are_left_out_only_if_asked(tmp_path, tokenizer):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"Time.\nCaf\xe9.\nDay.\n")
    with pytest.raises(ValueError, match=r"bad\.txt must be UTF-8, line 2 is not: byte 0xe9 at column 4\.$"):
        prepare([path], tmp_path / "out", tokenizer)
    with pytest.raises(
        ValueError, match=r"out has no manifest\.json: it is not a prepared corpus, or not finished\. Run"
    ):
        read_shards(tmp_path / "out")
    manifest = prepare([path], tmp_path / "out", tokenizer, skip_bad=True)
    assert manifest["sentences"] == 2
    assert manifest["skipped"] == [f"{path} must be UTF-8, line 2 is not: byte 0xe9 at column 4."]


def test_a_truncated_shard_is_named_with_its_record(tmp_path, tokenizer):
    corpus, out = write_corpus(tmp_path / "corpus.txt", documents()), tmp_path / "out"
    manifest = prepare([corpus], out, tokenizer, chunk=CHUNK)
    shard = out / "shard-00001.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-7])
    records = manifest["shards"][1]["records"]
    message = (
        rf"shard-00001\.tfrecord must have {records} records, it is damaged or ends after record {records - 1}\. Run"
    )
    with pytest.raises(ValueError, match=message):
        read_shards(out)
    said = []
    found, _ = read_shards(out, said.append)
    assert len(said) == 1
    assert 0.8 * manifest["tokens"] < len(found.token_ids) < manifest["tokens"]
    shard.unlink()
    with pytest.raises(
        ValueError, match=r"shard-00001\.tfrecord must have \d records, it is damaged or ends after record 0"
    ):
        read_shards(out)


def test_refused(tmp_path, tokenizer):
    corpus = write_corpus(tmp_path / "corpus.txt", documents(2))
    with pytest.raises(
        ValueError, match=r"must be a new folder or one that `prepare` wrote, it has corpus\.txt\. Name"
    ):
        prepare([corpus], tmp_path, tokenizer)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(
        ValueError, match=r"^The corpus must hold at least one sentence, got none in \['.*empty\.txt'\]\.$"
    ):
        prepare([tmp_path / "empty.txt"], tmp_path / "out", tokenizer)
    with pytest.raises(ValueError, match=r"^`segmenter` must be one of"):
        prepare([corpus], tmp_path / "out", tokenizer, segmenter="jiba")


def test_select_documents(prepared):
    found, _ = read_shards(prepared[1])
    some = select_documents(found, [4, 1])
    for number, whole in enumerate((4, 1)):
        sentences = (d.sentence_starts[d.document_starts[n] : d.document_starts[n + 1] + 1]
                     for d, n in ((some, number), (found, whole)))  # fmt: skip
        (a, b), (c, d) = ((s[0], s[-1]) for s in sentences)
        np.testing.assert_array_equal(some.token_ids[a:b], found.token_ids[c:d])
        np.testing.assert_array_equal(some.word_starts[a:b], found.word_starts[c:d])
    assert flat_ranges(np.array([0, 3, 3, 5]), [2, 1, 0]).tolist() == [3, 4, 0, 1, 2]


RUN = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.preparing import prepare
if __name__ == "__main__":
    corpus, out, vocab, processes, chunk = sys.argv[1:]
    prepare([corpus], out, Tokenizer.from_vocab(vocab), processes=int(processes), chunk=int(chunk))
"""


def start(tmp_path, corpus, out, processes, chunk=CHUNK):
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    command = [sys.executable, tmp_path / "run.py", corpus, out, tmp_path / "vocab.txt", processes, chunk]
    return subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_two_processes_and_a_killed_run_give_the_same(tmp_path, tokenizer):  # P53
    corpus = write_corpus(tmp_path / "corpus.txt", documents(3000))
    prepare([corpus], tmp_path / "one", tokenizer, chunk=20_000)
    expected = contents(tmp_path / "one")
    process = start(tmp_path, corpus, tmp_path / "two", 2, 20_000)
    deadline = time.monotonic() + 600
    while len(list(Path(tmp_path).glob("two/shard-*.json"))) < 5:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "two" / "manifest.json").exists()
    assert start(tmp_path, corpus, tmp_path / "two", 2, 20_000).wait(timeout=900) == 0
    assert contents(tmp_path / "two") == expected
    assert json.loads(expected["manifest.json"])["documents"] == 3000


def memory_of(process):
    """Bytes in memory of a process and its children; 0 once it is gone."""
    total = 0
    for status in itertools.chain([Path(f"/proc/{process.pid}")], children(process.pid)):
        try:
            pages = int((status / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def children(pid):
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [Path(f"/proc/{child}") for child in listed]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc, which is not here")
def test_memory_does_not_grow_with_the_corpus(tmp_path):  # P53
    # measured with 10 and 40 MB: 2,096 and 2,186 MB for three processes, 583 MB of each after the imports
    code = "import resource, keras_bert.training.preparing; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    imports = 1024 * int(subprocess.check_output([sys.executable, "-c", code], stderr=subprocess.DEVNULL))
    peaks = []
    for size in (20, 100):
        corpus, texts = tmp_path / f"{size}.txt", documents(1000)
        one = "\n\n".join("\n".join(text) for text in texts) + "\n\n"
        corpus.write_text(one * (size * 1_000_000 // len(one)), encoding="utf-8")
        process, peak = start(tmp_path, corpus, tmp_path / str(size), 2, 1 << 22), 0
        while process.poll() is None:
            peak = max(peak, memory_of(process))
            time.sleep(0.05)
        assert process.returncode == 0
        peaks.append(peak)
    assert abs(peaks[1] - peaks[0]) < 0.1 * peaks[0], peaks
    assert max(peaks) - 3 * imports < 600e6, (peaks, imports)
