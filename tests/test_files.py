"""Folders and files are replaced whole or not at all, and nothing that somebody else wrote is lost."""

import os

import pytest

from keras_bert import files


def write(path, text="new"):
    with files.replace_folder(path) as folder:
        (folder / "model").write_text(text)
        (folder / "part").mkdir()
        (folder / "part" / "file").write_text(text)


def contents(path):
    return {file.relative_to(path).as_posix(): file.read_text() for file in path.rglob("*") if file.is_file()}


def test_what_was_written_here_is_replaced(tmp_path):
    out = tmp_path / "deep" / "out"
    write(out, "old")
    write(out, "new")
    assert contents(out) == {"model": "new", "part/file": "new", files.MARK: '["model", "part"]'}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert (tmp_path / "out" / "model").read_text() == "new"


@pytest.mark.parametrize("marked", [False, True])
def test_a_folder_with_anything_else_is_refused(marked, tmp_path):
    out = tmp_path / "out"
    if marked:
        write(out, "old")
    out.mkdir(exist_ok=True)
    (out / "thesis.txt").write_text("mine")
    before = contents(out)
    with pytest.raises(ValueError) as error:
        write(out)
    assert str(error.value) == (
        f"{out} holds thesis.txt, which was not written here; the folder would be replaced whole. Name another place."
    )
    assert contents(out) == before


def test_what_came_meanwhile_is_kept(tmp_path):
    out = tmp_path / "out"
    write(out, "old")
    with pytest.raises(ValueError, match=r"holds thesis\.txt"), files.replace_folder(out) as folder:
        (folder / "model").write_text("new")
        (out / "thesis.txt").write_text("mine")
    assert (out / "thesis.txt").read_text() == "mine"
    assert (out / "model").read_text() == "old"


@pytest.mark.parametrize("place", [".", ".."])
def test_the_current_folder_is_refused(place, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with pytest.raises(ValueError, match="is the current folder or holds it"):
        write(place)


def test_a_link_keeps_pointing(tmp_path):
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_stopped_between_the_renames_the_old_folder_stays(nth, stop, tmp_path, monkeypatch):
    out, calls, replace = tmp_path / "out", [], os.replace
    write(out, "old")

    def stopping(source, target):
        calls.append(source)
        if len(calls) == nth:
            raise stop
        replace(source, target)

    monkeypatch.setattr(os, "replace", stopping)
    with pytest.raises(stop):
        write(out, "new")
    assert contents(out)["model"] == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failed_file_leaves_the_old_one(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), files.replace_file(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"file": "old"}
