"""A C program, compiled against the headers and libraries inside the tensorflow wheel, answers as Keras does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.export import saved_model, signatures, strings
from keras_bert.heads import HEADS
from tests.conftest import lacks

TEXTS = ["", "你好，世界", b"\xff\xfe bad \x80 film", "hello worlds, a good film!", "the [MASK] 😀 film " * 30]
CHOICES = [[text, "a film"] for text in TEXTS[::-1]]
DEFAULT = ("token_classifier", "span_extractor")
ANSWERING = [name for name, head in HEADS.items() if head.answer is not None]
TYPES = {1: np.float32, 3: np.int32, 7: object}  # TF_FLOAT, TF_INT32, TF_STRING


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The compiled program."""
    if sys.platform != "linux":
        lacks("Linux, whose tensorflow wheel has its libraries under these names")
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        lacks("a C compiler, cc, gcc or clang")
    made = tmp_path_factory.mktemp("c") / "answer"
    home = Path(tf.__file__).parent
    libraries = [f"-L{home}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{home}"]
    source = Path(__file__).with_name("answer.c")
    warnings = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    # the libraries have a gigabyte of symbols, for which the usual linker takes 15 s and gold 3
    quick = [f"-fuse-ld={name}" for name in ("mold", "lld", "gold") if shutil.which(f"ld.{name}")]
    command = [compiler, *warnings, *quick[:1], f"-isystem{home}/include", str(source), "-o", str(made), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return made


def bytes_of(text):
    return text.encode() if isinstance(text, str) else text


def strings_in(values):
    """Lines for standard input: axes, sizes, each string in hexadecimal."""
    array = np.array([[bytes_of(text) for text in row] if isinstance(row, list) else bytes_of(row) for row in values])
    flat = [bytes_of(text) for row in values for text in (row if isinstance(row, list) else [row])]
    return "\n".join([" ".join(map(str, (array.ndim, *array.shape))), *(text.hex() for text in flat)]) + "\n"


def answers_of(program, folder, signature, inputs):
    """What the program writes, as arrays by name."""
    model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    definition = model.meta_graphs[0].signature_def[signature]
    assert set(definition.inputs) == set(inputs)
    places = [f"{name}={definition.inputs[name].name}" for name in inputs]
    wanted = [f"{name}={info.name}" for name, info in definition.outputs.items()]
    done = subprocess.run(
        [str(program), str(folder), *places, "--", *wanted],
        input="".join(map(strings_in, inputs.values())),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    found = {}
    for line in lines:
        name, type_, _, *sizes = line.split()
        shape, kind = tuple(map(int, sizes)), TYPES[int(type_)]
        values = [next(lines) for _ in range(int(np.prod(shape)))]
        array = np.empty(len(values), kind)
        array[:] = [bytes.fromhex(value) if kind is object else kind(value) for value in values]
        found[name] = array.reshape(shape)
    return found


def check(program, written_head, head):
    bundle, folder = written_head(head)
    settings = signatures.text_settings(bundle, None, {})
    takes = signatures.takes(bundle)
    names = signatures.TEXT_INPUTS[takes]
    second = {"choices": CHOICES, "pairs": TEXTS[::-1], "contexts": TEXTS[::-1]}.get(takes)
    asked = [(("serving_default", names), TEXTS, second)]
    if signatures.may_take_pairs(bundle):
        asked.append((("serving_pair", ("text", "text_pair")), TEXTS, TEXTS[::-1]))
    for (signature, names), texts, pairs in asked:
        inputs = dict(zip(names, (texts, pairs), strict=False))
        found = answers_of(program, folder / "1", signature, inputs)
        expected = strings.expected(bundle, signatures.Keras(bundle).asked(texts, pairs, settings), settings)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].shape == value.shape, name
            if value.dtype.kind == "f":
                np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=saved_model.ALLOWED, err_msg=name)
            else:
                assert found[name].tolist() == value.tolist(), name


@pytest.mark.parametrize(
    "head", [pytest.param(name, marks=[] if name in DEFAULT else pytest.mark.slow) for name in ANSWERING]
)
def test_the_c_program_answers_strings_as_keras_does(program, written_head, head):
    check(program, written_head, head)


def test_what_fails_is_one_line(program, written_head):
    _, folder = written_head(DEFAULT[0])
    done = subprocess.run([str(program), str(folder)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "the SavedModel does not load: " in done.stderr
    done = subprocess.run(
        [str(program), str(folder / "1"), "x=nowhere:0", "--"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "is not in the graph: nowhere" in done.stderr
