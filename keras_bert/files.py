"""Files: writing that is whole or not at all, to a temporary name first, then renamed; and reading JSON."""

import contextlib
import json
import os
import shutil
import uuid
from pathlib import Path

# In each folder written here: the names of what it held then. A folder with anything else is never replaced.
MARK = ".keras3-bert.json"


def read_json(path):
    """Reads a JSON object, with one sentence for what may be wrong with the file."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not JSON in UTF-8: {error}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(values).__name__}.")
    return values


@contextlib.contextmanager
def replace_file(path):
    """Gives a temporary path in the same folder; it takes the place of `path` when the block ends without an error."""
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        yield temporary
        _to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replace_folder(path):
    """Gives a temporary folder beside `path`; it takes the place of `path` when the block ends without an error.

    An old folder is moved aside only once the new one is complete, and removed after the new one has its name.

    Raises:
        ValueError: `path` may not be replaced, as `check_replaceable` has it.
    """
    check_replaceable(path)
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _temporary(path), _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        names = sorted(entry.name for entry in temporary.iterdir() if entry.name != MARK)
        (temporary / MARK).write_text(json.dumps(names), encoding="utf-8")
        for file in temporary.rglob("*"):
            if file.is_file():
                _to_disk(file)
        check_replaceable(path)
        try:
            if path.exists():
                os.replace(path, old)
            os.replace(temporary, path)
        except BaseException:  # also Ctrl-C: the old folder is never lost
            if old.exists() and not path.exists():
                os.replace(old, path)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_replaceable(path):
    """Refuses a place to write a folder to where something would be lost.

    Raises:
        ValueError: `path` is a file, the current folder or one that it lies in, or holds anything that was not written
            by `replace_folder`.
    """
    given, path = path, Path(path).resolve()
    if path in (Path.cwd(), *Path.cwd().parents):
        raise ValueError(f"{given} is the current folder or holds it; a folder is replaced whole. Name another place.")
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"{given} is a file; a folder is written here. Name another place.")
    try:
        known = {MARK, *json.loads((path / MARK).read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        known = {MARK}
    foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in known)
    if foreign:
        raise ValueError(
            f"{given} holds {foreign[0]}, which was not written here; the folder would be replaced whole. "
            "Name another place."
        )


def _temporary(path):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def _to_disk(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
