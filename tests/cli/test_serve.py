import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from keras_bert.export.server.models import Models
from keras_bert_cli.serve_models import named_folders
from tests.export.server.small import ask, write_version


def test_names_of_folders(tmp_path):
    named = named_folders([str(tmp_path / "reviews"), f"second={tmp_path}/served"])
    assert named == {"reviews": tmp_path / "reviews", "second": tmp_path / "served"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "b/a"], "Two folders are called a. Name them: first=a second=b/a"),
        (["=a"], "A model's name must not have / or :, got ''. Name it: reviews=a"),
        (["a:b=c"], "A model's name must not have / or :, got 'a:b'. Name it: reviews=c"),
        (
            ["a", "--label", "stable=1"],
            "`--label` must be NAME/LABEL=VERSION, such as reviews/stable=1, got 'stable=1'",
        ),
        (
            ["nowhere", "--port", 0],
            "nowhere must hold a SavedModel, or version folders such as nowhere/1 with one each.",
        ),
        (["nowhere", "--max-batch-size", 0], "`max_batch_size` must be at least 1, got 0."),
    ],
)
def test_what_is_wrong_is_said_before_serving(run, arguments, sentence):
    assert sentence in run("serve", *arguments, code=1)


def test_a_missing_extra_is_named(run, tmp_path, monkeypatch):
    from keras_bert.export import server

    monkeypatch.setattr(server, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert 'The server needs uvicorn: pip install "keras3-bert[serving]"' in run("serve", tmp_path, code=1)


def test_the_command_gives_its_settings_to_the_server(run, tmp_path, monkeypatch):
    from keras_bert.export.server import app

    write_version(tmp_path / "served" / "3", 3)
    given = []
    monkeypatch.setattr(app, "application", lambda *arguments: given.append(arguments))
    monkeypatch.setattr(app, "run", lambda _, listening: listening.close())
    options = ["--max-delay-ms", 5, "--poll-s", 7, "--label", "reviews/stable=3", "--port", 0]
    said = run("serve", f"reviews={tmp_path}/served", *options)
    assert re.fullmatch(r"reviews, version 3: http://127\.0\.0\.1:\d+/v1/models/reviews:predict\n", said)
    (models, limits, poll_s) = given[0]
    assert isinstance(models, Models)
    assert models.find("reviews", label="stable").number == 3
    assert (limits.max_delay_ms, limits.max_batch_size, poll_s) == (5, 32, 7)


@contextlib.contextmanager
def command(folder, port=0):
    """Runs `keras-bert serve` in a process of its own; gives it and its port."""
    code = "from keras_bert_cli.main import app; app()"
    arguments = [sys.executable, "-c", code, "serve", f"tiny={folder}", "--port", str(port)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        yield process, int(re.search(r":(\d+)/", said)[1])
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_killed_and_started_again_it_serves_again(tmp_path):
    write_version(tmp_path / "1", 1)
    expected = {"predictions": [{"label": "A", "score": 0.33333334, "version": 1}]}
    with command(tmp_path) as (process, port):
        assert ask(port, "/v1/models/tiny:predict", {"instances": ["a"]}) == (200, expected)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        with command(tmp_path, port) as (again, same):
            assert same == port
            assert ask(port, "/v1/models/tiny:predict", {"instances": ["a"]}) == (200, expected)
            again.terminate()  # answers what is there, then ends by itself
            assert again.wait(30) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    write_version(tmp_path / "1", 1)
    with command(tmp_path) as (_, port):
        code = "from keras_bert_cli.main import app; app()"
        arguments = [sys.executable, "-c", code, "serve", str(tmp_path), "--port", str(port)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 1
        assert "Address already in use" in done.stderr
        assert "Traceback" not in done.stderr
