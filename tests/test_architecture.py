"""The import directions of the design, and that the model itself is free of TensorFlow."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "keras_bert": "keras_bert",
    "training": "keras_bert.training",
    "export": "keras_bert.export",
    "cli": "keras_bert_cli",
}
FORBIDDEN = {
    "keras_bert": ("keras_bert.training", "keras_bert.export", "keras_bert_cli"),
    "training": ("keras_bert.export", "keras_bert_cli"),
    "export": ("keras_bert.training", "keras_bert_cli"),
    "cli": (),
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_import_directions(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    for path in files:
        for name in imports(path):
            assert not name.startswith(FORBIDDEN[folder]), f"{path.relative_to(ROOT)} imports {name}"
            assert name.split(".")[0] not in ("training", "export", "cli"), f"{path.relative_to(ROOT)} imports {name}"


def test_tensorflow_only_in_files_that_say_so():
    for path in sorted((ROOT / "keras_bert").rglob("*.py")):
        uses = any(name.split(".")[0] == "tensorflow" for name in imports(path))
        says = "TensorFlow" in path.read_text(encoding="utf-8").split("\n", 1)[0]
        assert not uses or says, f"{path.relative_to(ROOT)} uses TensorFlow and its first line does not say so"


def test_every_package_is_in_the_wheel():
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = []
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("__init__.py"):
            parts = path.parent.relative_to(ROOT / folder).parts
            found.append(".".join((package, *parts)))
    assert sorted(listed) == sorted(found)


def test_text_to_logits_reads_in_six_files():
    path = ["tokenization/tokenizer", "tokenization/strings", "tokenization/packing", "layers", "encoder", "heads"]
    files = [ROOT / "keras_bert" / f"{name}.py" for name in path]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 1000
