"""`pretrain` and `distill` by the command line, in two processes that train one model."""

import json
import os
import subprocess
import sys

import pytest

import keras_bert
from keras_bert.training.recipes.distill import Distill
from keras_bert.training.recipes.distill import run as run_distill
from keras_bert.training.recipes.pretrain import Pretrain
from keras_bert.training.recipes.pretrain import run as run_pretrain
from tests.training.test_distill import TEXT, teacher
from tests.training.test_distribution import ROOT, finish, free_ports
from tests.training.test_pretrain import TINY, interrupted_run, write_corpus


def run_workers(folder, *words, own_folders=True):
    """Runs a command in two processes, each in a folder of its own or both in one: the digests of their weights."""
    hosts, workers = [f"localhost:{port}" for port in free_ports(2)], []
    for index in range(2):
        place = folder / (f"place_{index}" if own_folders else "place")
        place.mkdir(exist_ok=True)
        task = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": json.dumps(task)}
        command = [sys.executable, "-W", "ignore", "-m", "tests.training.command_line_worker"]
        command += [str(folder / f"{index}.json"), *words, "--strategy", "multi_worker", "--out", "out"]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        workers.append(subprocess.Popen(command, cwd=place, env=environment, **pipes))
    return [finish(worker, folder / f"{index}.json") for index, worker in enumerate(workers)]


def in_words(settings):
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.slow
def test_two_workers_pretrain_one_model_and_the_chief_writes_it(tmp_path):
    settings = {"corpus": write_corpus(tmp_path / "corpus.txt"), "steps": 4, "learning_rate": 1e-2, **TINY}
    settings |= {"long_length": 40, "long_share": 0.5}
    one, other = run_workers(tmp_path, "pretrain", *in_words(settings))
    assert one == other
    chief, worker = (sorted(path.name for path in (tmp_path / f"place_{i}").iterdir()) for i in range(2))
    assert (chief, worker) == (["out"], [])
    metrics = json.loads((tmp_path / "place_0" / "out" / "metrics.json").read_text())
    assert metrics["after"]["mlm_loss"] < metrics["before"]["mlm_loss"]
    alone = run_pretrain(Pretrain(out=str(tmp_path / "alone"), **settings))
    for name, value in alone["after"].items():
        assert metrics["after"][name] == pytest.approx(value, abs=2e-2), name  # dropout is another one


@pytest.mark.slow
def test_two_workers_go_on_with_a_run_of_one(tmp_path, monkeypatch):
    settings = {"corpus": write_corpus(tmp_path / "corpus.txt"), "steps": 3, "checkpoint_every": 1, **TINY}
    (tmp_path / "place").mkdir()
    interrupted_run(Pretrain(out=str(tmp_path / "place" / "out"), **settings), 2, monkeypatch)
    one, other = run_workers(tmp_path, "pretrain", "--resume", *in_words(settings), own_folders=False)
    assert one == other
    metrics = json.loads((tmp_path / "place" / "out" / "metrics.json").read_text())
    assert [point["step"] for point in metrics["curve"]] == [1, 2, 3]
    assert not (tmp_path / "place" / "out.checkpoints").exists()


def distilling(tmp_path):
    """Settings of a small distillation from text."""
    (tmp_path / "text.txt").write_text(TEXT)
    folder = teacher(tmp_path / "teacher", "masked_language_model")
    return {"teacher": folder, "train": str(tmp_path / "text.txt"), "steps": 6, "batch_size": 2, "max_length": 12}


@pytest.mark.slow
def test_two_workers_distill_one_student(tmp_path):
    one, other = run_workers(tmp_path, "distill", *in_words(distilling(tmp_path)))
    assert one == other
    chief, worker = (sorted(path.name for path in (tmp_path / f"place_{i}").iterdir()) for i in range(2))
    assert (chief, worker) == (["out"], [])
    assert keras_bert.load(tmp_path / "place_0" / "out").config.num_hidden_layers == 2


@pytest.mark.slow
def test_an_interrupted_distillation_goes_on_to_the_same_student(tmp_path, monkeypatch):
    straight = Distill(out=str(tmp_path / "straight"), checkpoint_every=2, **distilling(tmp_path))
    metrics = run_distill(straight)
    config = Distill(out=str(tmp_path / "out"), checkpoint_every=2, **distilling(tmp_path))
    interrupted_run(config, 4, monkeypatch, run_distill)
    with pytest.raises(ValueError, match=r"have another config: `temperature` was 2\.0 and is 3\.0\. Set it back or"):
        run_distill(Distill(out=config.out, resume=True, temperature=3.0, **distilling(tmp_path)))
    again = run_distill(Distill(out=config.out, resume=True, **distilling(tmp_path)))
    assert (again["before"], again["after"]) == (metrics["before"], metrics["after"])
    one, other = (tmp_path / name / "model.safetensors" for name in ("straight", "out"))
    assert one.read_bytes() == other.read_bytes()
