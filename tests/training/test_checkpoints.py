"""Checkpoints that survive. survivor.py trains in processes that are killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert.training.checkpoints import MANIFEST, STATE, Checkpoints, newest_checkpoint
from keras_bert.training.distribution import prepare

ROOT = Path(__file__).resolve().parents[2]


def small_model(units=3):
    x = keras.Input((2,))
    model = prepare(keras.Model(x, keras.layers.Dense(units)(keras.layers.Dropout(0.5)(x))))
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    return model


def fit(model, steps, *callbacks, x=1.0):
    model.fit(np.full((steps, 2), x), np.ones((steps, 3)), batch_size=1, shuffle=False, verbose=0, callbacks=callbacks)


def state(model):
    return [*model.variables, *model.optimizer.variables]


def steps_in(folder):
    return [int(path.name.removeprefix("step_")) for path in sorted(Path(folder).glob("step_*"))]


def trained(folder, steps=10, **options):
    """A model trained for some steps with a checkpoint every third one."""
    model = small_model()
    checkpoints = Checkpoints(folder, every=3, **options)
    assert checkpoints.resume(model) == 0
    fit(model, steps, checkpoints)
    return model


@pytest.fixture(scope="module")
def ten_steps(tmp_path_factory):
    """A model trained for ten steps, and the folder of its checkpoints; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("ten") / "checkpoints"
    return trained(folder, config={"learning_rate": 0.1, "seed": 1}, place=lambda step: {"shard": step * 10}), folder


@pytest.fixture
def checkpoints_of_ten_steps(ten_steps, tmp_path):
    return Path(shutil.copytree(ten_steps[1], tmp_path / "checkpoints"))


def survive(tmp_path, kills):
    out = tmp_path / "out.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.training.survivor", str(out), str(kills)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(out.read_text())


def check_survival(found, kills):
    assert len(found["killed_at"]) == kills
    assert found["last"]["weights"] == found["straight"]["weights"]
    assert found["last"]["from"] > 0
    assert found["short"]["weights"] != found["straight"]["weights"]
    first, second = found["halves"]
    assert (first["from"], second["from"]) == (0, 3)
    assert second["weights"] == found["short"]["weights"]
    assert first["rates"] + second["rates"] == found["short"]["rates"]
    assert len(set(found["short"]["rates"])) == 6


def test_killed_three_times_and_halved(tmp_path):  # P46
    check_survival(survive(tmp_path, 3), 3)


@pytest.mark.slow
def test_killed_twenty_times(tmp_path):
    check_survival(survive(tmp_path, 20), 20)


def test_the_newest_are_kept_and_restored(ten_steps):
    model, folder = ten_steps
    assert steps_in(folder) == [6, 9, 10]
    other = small_model()
    checkpoints = Checkpoints(folder, every=3, config={"learning_rate": 0.1, "seed": 1})
    assert checkpoints.resume(other) == 10
    assert checkpoints.restored == {"shard": 100}
    assert any("seed_generator" in variable.path for variable in model.variables)
    for one, two in zip(state(model), state(other), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("file", [STATE, MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_a_damaged_one_is_skipped_and_said(checkpoints_of_ten_steps, file, damage):
    path = checkpoints_of_ten_steps / "step_00000010" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    {
        "cut": lambda: path.write_bytes(path.read_bytes()[:-9]),
        "flipped": lambda: path.write_bytes(content),
        "missing": path.unlink,
    }[damage]()
    with pytest.warns(UserWarning, match=r"step_00000010 is not whole, the one before it is used: "):
        manifest, _ = newest_checkpoint(checkpoints_of_ten_steps)
    assert manifest["step"] == 9


def test_no_whole_one_is_an_error(checkpoints_of_ten_steps):
    for path in checkpoints_of_ten_steps.glob("step_*"):
        (path / STATE).unlink()
    with (
        pytest.warns(UserWarning, match="is not whole"),
        pytest.raises(ValueError, match=r"^No checkpoint in .* is whole, of 3\. Name another folder to start anew\.$"),
    ):
        newest_checkpoint(checkpoints_of_ten_steps)


def test_another_config_or_model(ten_steps):
    message = r"have another config: `batch` was None and is 8, `seed` was 1 and is 2\. Set it back or start anew\.$"
    with pytest.raises(ValueError, match=message):
        Checkpoints(ten_steps[1], every=3, config={"learning_rate": 0.1, "seed": 2, "batch": 8}).resume(small_model())
    with pytest.raises(ValueError, match=r"are of another model or optimizer: .* is not alike\.$"):
        Checkpoints(ten_steps[1], every=3, config={"learning_rate": 0.1, "seed": 1}).resume(small_model(units=4))


def test_a_loss_that_is_no_number_stops_and_is_not_saved(tmp_path):
    model, checkpoints = small_model(), Checkpoints(tmp_path, every=3)
    checkpoints.resume(model)
    fit(model, 4, checkpoints)
    with pytest.raises(ValueError, match=r"^The loss is nan after step 6: .* last good checkpoint is of step 4\."):
        fit(model, 5, checkpoints, x=np.nan)
    assert steps_in(tmp_path) == [3, 4]


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    model = small_model()
    checkpoints = Checkpoints(tmp_path, every=3)
    checkpoints.resume(model)
    fit(model, 2, checkpoints)
    model.weights[0].assign(np.full((2, 3), np.inf))
    checkpoints.step += 1
    with pytest.raises(ValueError, match=r"^The weights are no numbers after step 3: .* Nothing was saved\.$"):
        checkpoints.save()
    assert steps_in(tmp_path) == [2]


FULL_DISK = """
import resource, sys, signal
from tests.training.test_checkpoints import trained, fit, small_model, Checkpoints
folder = sys.argv[1]
model = trained(folder)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
checkpoints = Checkpoints(folder, every=3)
checkpoints.resume(model)
try:
    fit(model, 2, checkpoints)
except OSError as error:
    print(error)
"""

TERMINATED = """
import os, signal, sys, keras
from tests.training.test_checkpoints import fit, small_model, Checkpoints
model = small_model()
checkpoints = Checkpoints(sys.argv[1], every=100)
checkpoints.resume(model)
ask = lambda batch, logs: batch == 4 and os.kill(os.getpid(), signal.SIGTERM)
fit(model, 50, checkpoints, keras.callbacks.LambdaCallback(on_train_batch_end=ask))
print("not reached")
"""


def in_a_process(code, folder):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_full_disk_leaves_the_older_ones(tmp_path):
    ended = in_a_process(FULL_DISK, tmp_path)
    assert ended.stdout.startswith(f"The checkpoint of step 12 cannot be written to {tmp_path}: "), ended.stderr[-2000:]
    assert ended.stdout.endswith("Older ones stay.\n")
    assert steps_in(tmp_path) == [6, 9, 10]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert newest_checkpoint(tmp_path)[0]["step"] == 10


def test_asked_to_end_it_saves_and_leaves(tmp_path):
    ended = in_a_process(TERMINATED, tmp_path)
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr[-2000:]
    assert ended.stderr.endswith("Asked to end. Saved at step 5; started again, it goes on there.\n")
    assert "not reached" not in ended.stdout
    assert steps_in(tmp_path) == [5]


@pytest.mark.parametrize("name", ["every", "keep"])
def test_bad_settings(tmp_path, name):
    with pytest.raises(ValueError, match=rf"^`{name}` must be an integer of at least 1, got 0\.$"):
        Checkpoints(tmp_path, **{"every": 1, name: 0})
