"""Writing that is whole or not at all: to a temporary name first, then renamed."""

import contextlib
import os
import shutil
import uuid
from pathlib import Path


@contextlib.contextmanager
def replace_file(path):
    """Gives a temporary path in the same folder; it takes the place of `path` when the block ends without an error."""
    path = Path(path)
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
        ValueError: `path` is a file.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a folder is written here. Name another place.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _temporary(path), _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _to_disk(file)
        if path.exists():
            os.replace(path, old)
        try:
            os.replace(temporary, path)
        except OSError:
            if old.exists():
                os.replace(old, path)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _temporary(path):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def _to_disk(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
