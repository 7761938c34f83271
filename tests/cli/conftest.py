"""The command line as a function of its arguments."""

import pytest
from typer.testing import CliRunner

from keras_bert_cli.main import app


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.stderr if code else result.stdout

    return run
