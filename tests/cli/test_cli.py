import json
import resource
import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert_cli import doctor
from keras_bert_cli.main import app
from tests.models import tiny_bundle

COMMANDS = {
    "quickstart": "keras-bert quickstart",
    "train classify": "keras-bert train classify",
    "train answer": "keras-bert train answer",
    "evaluate tag": "keras-bert evaluate tag",
    "predict": "keras-bert predict",
    "index": "keras-bert index",
    "search": "keras-bert search",
    "export": "keras-bert export",
    "verify": "keras-bert verify",
    "serve": "keras-bert serve",
    "serve-config": "keras-bert serve-config",
    "vocab": "keras-bert vocab",
    "prepare": "keras-bert prepare",
    "show-data": "keras-bert show-data",
    "data-service": "keras-bert data-service",
    "pretrain": "keras-bert pretrain",
    "distill": "keras-bert distill",
    "tokenize": "keras-bert tokenize",
    "inspect": "keras-bert inspect",
    "convert": "keras-bert convert",
    "doctor": "keras-bert doctor",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "classifier"
    keras_bert.save(tiny_bundle("sequence_classifier"), path)
    return path


def test_help_is_quick_and_imports_nothing_heavy():
    code = "import sys; from keras_bert_cli.main import app; "
    code += "print(sorted({'tensorflow', 'keras', 'numpy', 'keras_bert'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
    code = "from keras_bert_cli.main import app; app()"
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.check_output([sys.executable, "-c", code, "--help"], text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert "quickstart" in said
    # processor seconds; the least of three, because a busy core takes up to twice as many; measured 0.3
    assert min(taken) < 0.5


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_an_example_in_its_help(run, command):
    assert COMMANDS[command] in run(*command.split(), "--help").split("Usage")[1].split("\n", 1)[1]


def test_every_command_is_tested():
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert names == {command.split()[0] for command in COMMANDS}


def test_train_predict_and_export(run, tmp_path):
    encoder = tmp_path / "encoder"
    keras_bert.save(tiny_bundle(None), encoder)
    rows = ["text\tlabel", "good film\tpos", "bad film\tneg", "good world\tpos", "bad world\tneg"]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "run.json").write_text('{"epochs": 9, "batch_size": 2}')
    out = tmp_path / "out"
    said = run(
        *("train", "classify", "--model", encoder, "--train", tmp_path / "train.tsv", "--dev", tmp_path / "train.tsv"),
        *("--out", out, "--config", tmp_path / "run.json", "--set", "epochs=2", "--set", "learning_rate=0.01"),
    )
    assert "95% interval of accuracy" in said
    assert "keras-bert predict" in said
    assert json.loads((out / "metrics.json").read_text())["config"]["epochs"] == 2

    answers = [json.loads(line) for line in run("predict", out, "good film", "bad").splitlines()]
    expected = keras_bert.predict(keras_bert.load(out), ["good film", "bad"])
    assert [answer["label"] for answer in answers] == [answer["label"] for answer in expected]
    run("predict", out, "--file", tmp_path / "train.tsv", "--out", tmp_path / "answers.jsonl")
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["good film", "bad film", "good world", "bad world"]

    said = run("export", out, "--format", "saved_model", "--out", tmp_path / "served" / "1", "--max-length", 16)
    assert "agreement 100%" in said
    assert (tmp_path / "served" / "1" / "saved_model.pb").is_file()


def test_texts_that_mediapipe_splits_otherwise_are_told(capsys):
    from keras_bert_cli.export_model import warn_of_other_tokens

    example = {"text": "CAFÉ", "ours": ["cafe"], "mediapipe": ["[UNK]"]}
    for found in (None, {"texts": 4, "differ": 0, "examples": []}):
        warn_of_other_tokens(found)
    assert capsys.readouterr().err == ""
    warn_of_other_tokens({"texts": 4, "differ": 2, "examples": [example, example]})
    assert "other tokens of 2 of 4 texts: of 'CAFÉ' [UNK] instead of cafe." in capsys.readouterr().err


def test_quantized_export_is_asked_about_a_file(run, folder, tmp_path):
    (tmp_path / "dev.tsv").write_text("text\tlabel\ngood film\tpositive\nbad world\tnegative\n")
    options = ("--format", "onnx", "--quantize", "float16", "--eval", tmp_path / "dev.tsv", "--out", tmp_path / "onnx")
    assert "agreement 1.0000 on 2 texts" in run("export", folder, *options)
    report = json.loads((tmp_path / "onnx" / "report.json").read_text())
    assert report["options"] == {"quantize": "float16"}
    assert report["evaluation"] == {"probes": 2, "agreement": 1.0}
    assert "agreement 1.0000 on 50 texts" in run("verify", tmp_path / "onnx")


def test_predict_embeddings_words_and_pairs(run, tmp_path, folder):
    keras_bert.save(tiny_bundle("sentence_embedder"), tmp_path / "embedder")
    (line,) = run("predict", tmp_path / "embedder", "hello").splitlines()
    assert len(json.loads(line)["embedding"]) == 12
    keras_bert.save(tiny_bundle("masked_language_model"), tmp_path / "words")
    (line,) = run("predict", tmp_path / "words", "a [MASK] film").splitlines()
    assert set(json.loads(line)["masks"][0][0]) == {"word", "probability"}
    (line,) = run("predict", folder, "a", "--pair", "b").splitlines()
    assert json.loads(line)["pair"] == "b"
    (tmp_path / "a.txt").write_text("hello\n\nworld\n")
    assert len(run("predict", folder, "--file", tmp_path / "a.txt").splitlines()) == 3


@pytest.mark.slow
def test_pretrain(run, tmp_path):
    topics = ("rain", "snow", "wind", "sand", "salt", "iron")
    for number, topic in enumerate(topics):
        sentences = [f"The {topic} falls on town {i} and the people of town {i} like {topic}." for i in range(9)]
        (tmp_path / f"{number}.txt").write_text("\n".join(sentences) + "\n")
    files = sorted(tmp_path.glob("*.txt"))
    small = ("hidden_size=12", "num_attention_heads=2", "num_hidden_layers=1", "vocab_size=200", "max_length=24")
    settings = [part for setting in small for part in ("--set", setting)]
    said = run("pretrain", *files, "--steps", 2, "--out", tmp_path / "out", *settings)
    assert "nsp accuracy" in said
    assert keras_bert.load(tmp_path / "out").head == "pretraining_model"


def test_tokenize_and_inspect(run, folder):
    said = run("tokenize", folder, "hellos 你", "--pair", "[MASK]")
    assert [word for word in ("hello", "##s", "你", "[UNK]") if word not in said] == []
    assert "[MASK]" in run("tokenize", folder, "[MASK]", "--allow-special")
    said = run("inspect", folder)
    parameters = f"{tiny_bundle('sequence_classifier').model.count_params():,}"
    for part in ("sequence_classifier", "negative, neutral, positive", parameters, "WordPiece, 32 tokens, lower-cased"):
        assert part in said


def test_doctor(run, monkeypatch):
    said = run("doctor")
    assert metadata.version("tensorflow") in said
    versions = {"keras-bert": "0.89.0", "onnxruntime": None}
    genuine = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: versions.get(name, genuine(name)))
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert 'pip install "keras3-bert[onnx]"' in result.stdout
    assert result.stderr.startswith("keras-bert 0.89.0 is another project with the same import name. Do: pip uninstall")


def test_faults_are_one_line_without_a_traceback(run, folder, tmp_path):
    (tmp_path / "run.json").write_text('{"epoch": 1}')
    (tmp_path / "bad.tsv").write_bytes(b"text\tlabel\n\xff\t1\n")
    training = ("train", "classify", "--model", folder, "--train", tmp_path / "bad.tsv", "--out", tmp_path / "out")
    for arguments, message in (
        (("predict", tmp_path / "gone", "x"), "gone is not a folder. Give the folder that holds config.json"),
        (("predict", folder), "`predict` needs texts or --file, one of them."),
        (("predict", folder, "--file", tmp_path / "gone.txt"), "gone.txt is missing."),
        (training, "bad.tsv must be UTF-8, line 2 is not: byte 0xff at column 1."),
        ((*training, "--config", tmp_path / "run.json"), "run.json. Did you mean `epochs`?"),
        ((*training, "--set", "epochs=many"), "`epochs` must be an integer, got 'many' in --set."),
        (training[:2], "`model` is missing. Set it by --set model=..."),
        (("export", folder, "--out", tmp_path / "o", "--format", "tflight"), "Unknown format `tflight`. Did you mean"),
        (("export", folder, "--out", tmp_path / "o", "--inputs", "ids"), "`saved_model` takes no option `inputs`."),
    ):
        said = run(*arguments, code=1)
        assert message in said
        assert said.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch):
    def broken():
        raise ValueError("in user code:\n  something of TensorFlow")

    monkeypatch.setattr(doctor, "version", lambda name: broken())
    with pytest.raises(ValueError, match="in user code"):
        CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
