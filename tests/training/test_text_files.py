import bz2
import gzip
import json
import lzma

import pytest

from keras_bert.training.text_files import corpus_lines, find_files


def read(*files, report=None):
    """(document, line of the file, text)."""
    return [(document, int(place.rsplit(":", 1)[1]), text) for document, place, text in corpus_lines(files, report)]


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_blank_lines_and_files_end_documents(tmp_path):
    one = write(tmp_path, "one.txt", b"\xef\xbb\xbf\r\nFirst.\r\nSecond.\r\n \r\n\r\nThird.")
    two = write(tmp_path, "two.txt", "Fourth.\n\n\n")
    empty = write(tmp_path, "empty.txt", "")
    assert read(one, empty, two) == [(0, 2, "First."), (0, 3, "Second."), (1, 6, "Third."), (2, 1, "Fourth.")]


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_compressed_files(tmp_path, suffix, module):
    data = module.compress("你好。\n\n再见。\n".encode())
    assert read(write(tmp_path, f"text.txt.{suffix}", data)) == [(0, 1, "你好。"), (1, 3, "再见。")]
    data = module.compress(json.dumps({"text": "One.\nTwo."}).encode())
    assert read(write(tmp_path, f"text.jsonl.{suffix}", data)) == [(0, 1, "One."), (0, 1, "Two.")]


def test_jsonl(tmp_path):
    lines = ['{"text": "One. Two.\\n\\nThree."}', "", '{"text": ["Four.", " "], "id": 3}']
    path = write(tmp_path, "text.jsonl", "\n".join(lines))
    assert read(path) == [(0, 1, "One. Two."), (0, 1, "Three."), (2, 3, "Four.")]


@pytest.mark.parametrize("line", ["{", '{"body": "x"}', '{"text": 3}', '{"text": [1]}', "[]"])
def test_bad_jsonl_is_named_and_left_out_only_if_asked(tmp_path, line):
    path = write(tmp_path, "bad.jsonl", '{"text": "One."}\n' + line + '\n{"text": "Two."}')
    message = rf'^{path}:2 must be an object with "text", a string or a list of strings\.$'
    with pytest.raises(ValueError, match=message):
        read(path)
    said = []
    assert [text for _, _, text in read(path, report=said.append)] == ["One.", "Two."]
    assert len(said) == 1


def test_not_utf8_is_named_and_left_out_only_if_asked(tmp_path):
    path = write(tmp_path, "latin.txt", b"Fine.\nCaf\xe9.\nGood.\n")
    with pytest.raises(ValueError, match=r"latin\.txt must be UTF-8, line 2 is not: byte 0xe9 at column 4\.$"):
        read(path)
    said = []
    assert read(path, report=said.append) == [(0, 1, "Fine."), (0, 3, "Good.")]
    assert said == [f"{path} must be UTF-8, line 2 is not: byte 0xe9 at column 4."]


@pytest.mark.parametrize(("suffix", "module"), [("gz", gzip), ("xz", lzma)])
def test_a_cut_file_is_named_with_its_line(tmp_path, suffix, module):
    data = module.compress("".join(f"Line {i} {i * 7919}.\n" for i in range(20_000)).encode())
    path = write(tmp_path, f"cut.txt.{suffix}", data[: len(data) // 2])
    with pytest.raises(ValueError, match=rf"cut\.txt\.{suffix} is damaged after line \d+: .+\.$"):
        read(path)
    said = []
    assert len(read(path, report=said.append)) > 1000
    assert len(said) == 1


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    data = bytearray(gzip.compress("".join(f"Line {i} {i * 7919}.\n" for i in range(20_000)).encode()))
    data[len(data) // 2 :: 50] = b"\xff" * len(data[len(data) // 2 :: 50])
    with pytest.raises(ValueError, match=r"bad\.txt\.gz is damaged after line \d+: .+\.$"):
        read(write(tmp_path, "bad.txt.gz", bytes(data)))


def test_find_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        write(tmp_path, name, "x")
    found = find_files([tmp_path / "c.md", tmp_path / "*.txt", tmp_path / "a.txt"])
    assert found == [str(tmp_path / name) for name in ("c.md", "a.txt", "b.txt")]
    with pytest.raises(ValueError, match=r"^.*none\*\.txt must name a file or files, got none\.$"):
        find_files([tmp_path / "none*.txt"])
