import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.export import FORMATS, signatures, snippets
from keras_bert.export.comparison import Probe
from keras_bert.export.server.batching import Limits
from keras_bert.export.server.models import Models
from tests.conftest import lacks
from tests.export.server.small import serving
from tests.models import tiny_bundle


def snippets_of(folder):
    """The snippets of a folder, by language."""
    text = (folder / snippets.FILE).read_text(encoding="utf-8")
    return dict(re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def written(bundle, folder, format, **options):
    """Writes HOWTO.md for the artifact in `folder`; gives its first answers."""
    module = importlib.import_module(FORMATS[format].module)
    probe = module.probes(signatures.Keras(bundle), **options)[0]
    outputs = module.load(folder)(probe.signature, probe.inputs)
    snippets.write(folder, format, folder, probe, outputs, bundle.labels)
    return outputs


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(outputs):
    """How NumPy prints the answers."""
    return "".join(f"{name} {np.asarray(value)}\n" for name, value in sorted(outputs.items()))


def test_python_asks_a_saved_model(written_head):
    bundle, folder = written_head("token_classifier")
    outputs = written(bundle, folder / "1", "saved_model")
    found = run([sys.executable, "-W", "error", "-c", snippets_of(folder / "1")["python"]], folder / "1")
    assert sorted(line.split()[0] for line in found.splitlines() if line[0].isalpha()) == sorted(outputs)
    assert str(outputs["entity_label"]).split("\n")[0] in found


def test_javascript_asks_a_server(written_head, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node, which is not installed")
    bundle, folder = written_head("span_extractor")
    outputs = written(bundle, folder / "1", "saved_model")
    script = snippets_of(folder / "1")["js"]
    models = Models({folder.name: folder})
    models.load()
    with serving(models, Limits()) as port:
        assert "http://localhost:8501/" in script
        (tmp_path / "ask.mjs").write_text(script.replace("localhost:8501", f"127.0.0.1:{port}"), encoding="utf-8")
        found = run([node, "ask.mjs"], tmp_path)
    assert f'"answer":["{outputs["answer"][0].decode()}"]' in found
    assert f'"start":[{outputs["start"][0]}]' in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "options"),
    [("tflite", {}), ("tflite", {"inputs": "ids"}), ("onnx", {}), ("onnx", {"inputs": "text"})],
)
def test_python_asks_the_files(tmp_path, format, options):
    bundle = tiny_bundle("sequence_classifier")
    importlib.import_module(FORMATS[format].module).write(bundle, tmp_path, **options)
    outputs = written(bundle, tmp_path, format, **options)
    found = run([sys.executable, "-W", "error", "-c", snippets_of(tmp_path)["python"]], tmp_path)
    assert sorted(found.splitlines()) == sorted(said(outputs).splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("head", ["span_extractor", "multiple_choice"])
def test_cpp_asks_a_saved_model(head, tmp_path, written_head):
    if sys.platform != "linux" or shutil.which("g++") is None:
        lacks("Linux, whose tensorflow wheel has its libraries under these names, and g++")
    bundle, folder = written_head(head)
    outputs = written(bundle, folder / "1", "saved_model")
    lines = snippets_of(folder / "1")["cpp"].splitlines(keepends=True)
    included = "".join(line for line in lines if line.startswith("#include"))
    body = "".join(line for line in lines if not line.startswith("#include"))
    shown = 'for (const auto& answer : answers) printf("%s\\n", answer.SummarizeValue(99).c_str());'
    (tmp_path / "ask.cc").write_text(f"{included}int main() {{\n{body}{shown}\n}}\n", encoding="utf-8")
    home = Path(tf.__file__).parent
    names = ("-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{home}")
    libraries = [f"-L{home}", "-Wl,--no-as-needed", *names]
    quick = [f"-fuse-ld={name}" for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")]
    run(
        ["g++", "-std=c++17", "-O0", *quick[:1], f"-isystem{home}/include", "ask.cc", "-o", "ask", *libraries], tmp_path
    )
    found = run([str(tmp_path / "ask")], folder / "1").splitlines()
    assert len(found) == len(outputs)
    for line, (name, array) in zip(found, outputs.items(), strict=True):
        if array.dtype == object:
            assert line == " ".join(text.decode() for text in array.ravel()), name
        else:
            values = np.array(line.replace("[", " ").replace("]", " ").split(), float)
            np.testing.assert_allclose(values, array.ravel(), rtol=1e-4, atol=1e-6, err_msg=name)  # printed: 6 digits


EXAMPLES = {
    "code points": {"code_points": np.array([[97, 0x1F600, 0, 0]], "int32")},
    "ids": {"token_ids": np.array([[2, 5, 0, 0]], "int64"), "padding_mask": np.array([[1, 1, 0, 0]], "int64")},
}


@pytest.mark.parametrize("asked", EXAMPLES)
@pytest.mark.parametrize("format", snippets.SNIPPETS)
def test_every_language_has_the_names_and_balanced_brackets(format, asked, tmp_path, written_head):
    inputs, signature = EXAMPLES[asked], "serving_default"
    if format == "saved_model":
        _, folder = written_head("span_extractor")
        shutil.copy(folder / "1" / "saved_model.pb", tmp_path)
        inputs = {"question": np.array([b"a"], object), "context": np.array([b"b"], object)}
    outputs = {"start": np.array([[3, 4]], "int32"), "score": np.ones((1,), "float32")}
    snippets.write(tmp_path, format, tmp_path / "served" / "7", Probe(signature, inputs, None), outputs, ["a", "b"])
    found = snippets_of(tmp_path)
    assert list(found) == list(snippets.NAMES)
    for language, code in found.items():
        for name in inputs:
            assert name in code, language
        bare = re.sub(r'"(\\.|[^"\\])*"', "", code)
        for opening, closing in ("()", "[]", "{}"):
            assert bare.count(opening) == bare.count(closing), (language, code)
    if format == "saved_model":
        assert "/v1/models/served:predict" in found["js"]
    elif asked == "code points":
        assert "[2, 5" not in found["python"]
        assert '"a😀"' in found["kotlin"]
    compile(found["python"], "snippet", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("format", snippets.SNIPPETS)
def test_java_parses(format, tmp_path, written_head):
    """Without the libraries, which Maven would have to fetch: the compiler may miss their names, and nothing else."""
    if shutil.which("javac") is None:
        pytest.skip("needs javac, which is not installed")
    if format == "saved_model":
        bundle, folder = written_head("span_extractor")
        written(bundle, folder / "1", format)
    else:
        folder, outputs = tmp_path, {"start": np.array([[3, 4]], "int32"), "score": np.ones((1,), "float32")}
        (folder / "1").mkdir()
        snippets.write(
            folder / "1", format, folder / "1", Probe("serving_default", EXAMPLES["ids"], None), outputs, None
        )
    code = snippets_of(folder / "1")["java"]
    imports = "import java.io.*; import java.util.*; import java.util.stream.*;"
    program = f"{imports}\nclass Ask {{ void ask() throws Exception {{\n{code}}} }}\n"
    (tmp_path / "Ask.java").write_text(program, encoding="utf-8")
    command = ["javac", "-XDrawDiagnostics", "-encoding", "UTF-8", "-d", str(tmp_path), str(tmp_path / "Ask.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    errors = re.findall(r"compiler\.err\.\S+", done.stderr)
    assert errors
    missing = {"compiler.err.cant.resolve.location", "compiler.err.doesnt.exist"}  # a name, a name with types in it
    assert {error.rstrip(":") for error in errors} <= missing, done.stderr
