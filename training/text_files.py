"""Lines of a corpus: plain, compressed and JSONL files; what cannot be read is named with file and line."""

import bz2
import glob
import gzip
import json
import lzma
import zlib
from pathlib import Path

OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
DAMAGE = (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error)


def find_files(patterns):
    """The files of names and globs, in the order given, a glob's sorted; each once.

    Raises:
        ValueError: a name or glob is no file's.
    """
    files = []
    for pattern in map(str, patterns):
        found = [pattern] if Path(pattern).is_file() else sorted(filter(_is_file, glob.glob(pattern, recursive=True)))
        if not found:
            raise ValueError(f"{pattern} must name a file or files, got none.")
        files += found
    return list(dict.fromkeys(files))


def _is_file(path):
    return Path(path).is_file()


def corpus_lines(files, report=None):
    """Yields (document, place, line) of every line with text, `document` a number that goes on over all files.

    A blank line or a file's end ends a document. In a file `.jsonl`, each line is a document: an object whose "text" is
    a string, in which line ends part paragraphs, or a list of strings.

    Args:
        files: paths; `.gz`, `.bz2` and `.xz` are decompressed as they are read.
        report: called with one sentence for each line or rest of a file that cannot be read, to go on without it; with
            None it is an error.
    """
    document = -1
    for path in map(Path, files):
        is_json = ".jsonl" in path.suffixes[-2:]
        begins = True
        for number, line in numbered_lines(path, report):
            place = f"{path}:{number}"
            if is_json:
                document += 1
                for paragraph in _json_text(line, place, report):
                    yield document, place, paragraph
            elif line.strip():
                document += begins
                begins = False
                yield document, place, line
            else:
                begins = True


def numbered_lines(path, report=None):
    """Yields (number, line) of a UTF-8 file, without line ends; `report` is that of `corpus_lines`."""
    path, number = Path(path), 0
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        while True:
            try:
                line = file.readline()
            except DAMAGE as error:
                _refuse(f"{path} is damaged after line {number}: {error}.", report)
                return
            if not line:
                return
            number += 1
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                wrong, column = line[error.start], error.start + 1
                place = f"{path} must be UTF-8, line {number} is not"
                _refuse(f"{place}: byte 0x{wrong:02x} at column {column}.", report)


def _json_text(line, place, report):
    """The paragraphs of a line of JSONL."""
    if not line.strip():
        return []
    try:
        text = json.loads(line)["text"]
        paragraphs = text.splitlines() if isinstance(text, str) else text
        if not all(isinstance(paragraph, str) for paragraph in paragraphs):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        _refuse(f'{place} must be an object with "text", a string or a list of strings.', report)
        return []
    return [paragraph for paragraph in paragraphs if paragraph.strip()]


def _refuse(message, report):
    if report is None:
        raise ValueError(message)
    report(message)
