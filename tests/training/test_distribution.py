"""One answer on any number of devices and processes. replicas.py holds what the other processes do."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.training.batches import tokenize_examples, training_batches
from keras_bert.training.distribution import prepare
from keras_bert.training.strategies import check_batch_size, strategy
from tests.models import VOCAB, tiny_bundle
from tests.training import replicas

ROOT = Path(__file__).resolve().parents[2]


def start(check, out, **environment):
    arguments = [sys.executable, "-W", "ignore", "-m", "tests.training.replicas", check, str(out)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", **environment}
    return subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process, out):
    """What the process wrote."""
    try:
        errors = process.communicate(timeout=900)[1].decode()
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3000:]
    return json.loads(Path(out).read_text())


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [opened.getsockname()[1] for opened in sockets]


def start_workers(folder, check="worker", count=2):
    hosts = [f"localhost:{port}" for port in free_ports(count)]
    workers = []
    for index in range(count):
        task = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
        workers.append(start(check, folder / f"worker_{index}.json", TF_CONFIG=json.dumps(task)))
    return workers


@pytest.fixture(scope="module")
def one():
    """The answers of one device: of our model and of a user's own."""
    devices = tf.distribute.get_strategy()
    return {
        "ours": replicas.answers(replicas.compiled(devices)),
        "own": replicas.answers(replicas.compiled(devices, replicas.own_model), replicas.texts, validated=False),
    }


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    out = tmp_path_factory.mktemp("two") / "out.json"
    return finish(start("two_devices", out), out)


def assert_same(found, expected):
    """Gradients of one step on batches of 8, 7 and 5 rows, all logs, and the weights after 20 steps of SGD."""
    for one_gradient, other in zip(found["gradients"], expected["gradients"], strict=True):
        difference = np.abs(np.subtract(one_gradient, other)).max()
        assert difference <= 1e-6 * np.linalg.norm(other)  # measured 2e-7
    for one_log, other in zip(found["logs"], expected["logs"], strict=True):
        assert one_log.keys() <= other.keys()
        for name, value in one_log.items():
            assert value == pytest.approx(other[name], rel=1e-6, abs=1e-7), name
    assert np.abs(np.subtract(found["weights"], expected["weights"])).max() <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ours", "own"])
def test_two_devices_give_what_one_gives(one, two, model):  # P42, P43
    assert_same(two[model], one[model])


def test_the_gradient_is_the_weighted_mean_of_each_task(one):
    """Against `fit` of Keras on one device, and clipping by hand: Keras takes repeated rows of a table for many."""
    model, objectives = replicas.pretraining()
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), **objectives)
    replicas.fit(model, replicas.data([7]))
    expected = np.array(replicas.gradient(model))
    assert np.linalg.norm(expected) > 0.02
    expected *= 0.01 / np.linalg.norm(expected)
    assert np.abs(one["ours"]["gradients"][1] - expected).max() <= 1e-6 * 0.01


def test_steps_are_traced_once_for_all_sizes(one, two):
    assert one["ours"]["traces"] == two["ours"]["traces"] == 2  # training and validation


def test_replicas_drop_other_numbers_and_a_run_repeats(two):
    first, again = (np.array(run) for run in two["masks"]["drawn"])
    np.testing.assert_array_equal(first, again)
    drawn = first.reshape(4, 40)  # two calls on two replicas
    for i in range(4):
        for k in range(i):
            assert 0.2 < (drawn[i] == drawn[k]).mean() < 0.8
    assert two["masks"]["counts"] == [2, 2]


def assert_trains(cell, policy):
    assert np.isfinite(cell["loss"])
    assert cell["moved"] > 1e-4
    assert cell["loss_scale"] == (2**15 if policy == "float16" else 0)


def test_half_precision_on_two_devices(two):  # P44
    assert_trains(two["cells"]["AdamW float16"], "float16")
    assert_trains(two["cells"]["LAMB bfloat16"], "bfloat16")
    assert two["cells"]["AdamW XLA"] == {
        "refused": "`jit_compile` must be False with several CPU devices: XLA compiles for the first one only."
    }


def test_a_metric_from_outside_is_refused(two):
    assert two["metric"] == "Metrics must be made inside `strategy.scope()`, got one from outside."


TABLE = """| strategy | optimizer | precision | clip | accumulate 2 | XLA, accumulate 2 |
|---|---|---|---|---|---|
"""


@pytest.mark.slow
def test_the_table_of_the_docs(tmp_path):  # P44
    processes = start_workers(tmp_path, "worker_table")
    found, other = (finish(process, tmp_path / f"worker_{i}.json") for i, process in enumerate(processes))
    assert found == other
    found = finish(start("table", tmp_path / "out.json"), tmp_path / "out.json") | found
    lines = {}
    for name, cell in found.items():
        devices, optimizer, policy, way = name.split("/")
        refused = devices == "mirrored" and way == "XLA"
        assert ("refused" in cell) == refused, name
        if not refused:
            assert_trains(cell, policy)
        lines.setdefault((devices, optimizer, policy), []).append("refused" if refused else "trains")
    text = TABLE + "".join(f"| {' | '.join((*line, *answers))} |\n" for line, answers in lines.items())
    docs = ROOT / "docs" / "distributed.md"
    if os.environ.get("KERAS_BERT_WRITE_TABLE"):
        before, mark, after = docs.read_text(encoding="utf-8").partition("<!-- table -->\n")
        docs.write_text(before + mark + text + after[after.index("<!-- end of table -->") :], encoding="utf-8")
    assert text in docs.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    processes = start_workers(folder)
    return folder, [finish(process, folder / f"worker_{i}.json") for i, process in enumerate(processes)]


def test_two_workers_give_what_one_process_gives(one, workers):  # P41
    _, (chief, other) = workers
    assert chief["weights"] == other["weights"]
    assert chief["logs"] == other["logs"]
    assert_same(chief, one["ours"])


def test_only_the_chief_writes(workers):  # P41
    folder, _ = workers
    assert (folder / "worker_0.keras").exists()
    assert not (folder / "worker_1.keras").exists()
    assert len(list((folder / "checkpoints").iterdir())) == 3
    assert keras.models.load_model(folder / "worker_0.keras", compile=False).name == "pretraining_model"


@pytest.mark.slow
def test_a_lost_worker_is_noticed_and_the_job_goes_on(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    for folder in (straight, killed):
        folder.mkdir()
    (straight / "go").touch()
    expected = [finish(p, straight / f"worker_{i}.json") for i, p in enumerate(start_workers(straight, "long_worker"))]
    chief, other = start_workers(killed, "long_worker")
    while not (killed / "waiting").exists():
        assert chief.poll() is None
        time.sleep(0.1)
    other.kill()
    other.communicate()
    errors = chief.communicate(timeout=120)[1].decode()
    assert chief.returncode != 0
    assert "A worker was lost" in errors
    again = [finish(p, killed / f"worker_{i}.json") for i, p in enumerate(start_workers(killed, "long_worker"))]
    assert [worker["from"] for worker in again] == [10, 10]
    assert [worker["weights"] for worker in again] == [worker["weights"] for worker in expected]


@pytest.mark.slow
def test_more_devices_accumulation_rematerialization_and_dropout(one, tmp_path):
    four = finish(start("four_devices", tmp_path / "four.json"), tmp_path / "four.json")
    found = finish(start("accumulation", tmp_path / "two.json"), tmp_path / "two.json")
    for answers in (four, found["accumulated"], found["rematerialized"]):
        assert_same(answers, one["ours"])
    for name in ("dropout", "dropout rematerialized"):
        first, again = found[name]
        assert first == again
    (plain, _), (rematerialized, _) = found["dropout"], found["dropout rematerialized"]
    assert np.abs(np.subtract(plain[1], rematerialized[1])).max() <= 1e-6


def test_accumulation_and_rematerialization_on_one_device(one):
    model = replicas.compiled(tf.distribute.get_strategy(), accumulate=3, rematerialize=True)
    replicas.fit(model, replicas.data([7]))
    expected = one["ours"]["gradients"][1]
    assert np.abs(np.subtract(replicas.gradient(model), expected)).max() <= 1e-6 * np.linalg.norm(expected)


def test_fifty_batches_in_four_buckets_are_four_traces_at_most():  # P68
    words = [word for word in VOCAB if word.isalpha()]
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(words, draw.integers(1, 30))) for _ in range(200)]
    rows = tokenize_examples(texts, None, keras_bert.Tokenizer(VOCAB), 32)
    batches = training_batches(rows, np.arange(200) % 3, batch_size=4, seed=0, epochs=1)
    assert len({x["token_ids"].shape[1] for x, _ in batches}) == 4
    model = prepare(tiny_bundle("sequence_classifier").model)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    seen = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    model.fit(batches, verbose=0, shuffle=False, callbacks=[count])
    assert len(seen) == 50
    assert model.traces <= 4


def test_only_the_first_use_after_compile_draws_a_batch_more(monkeypatch):
    drawn = []
    build = keras.Model._symbolic_build

    def counted(model, data_batch):
        drawn.append(data_batch)
        build(model, data_batch=data_batch)

    monkeypatch.setattr(keras.Model, "_symbolic_build", counted)
    data = tf.data.Dataset.from_tensors((np.ones((2, 2), "float32"), np.ones((2, 1), "float32")))
    model = prepare(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    for compiled in (1, 2):
        model.compile("sgd", "mse")
        for _ in range(2):
            model.evaluate(data, verbose=0)
            model.fit(data, shuffle=False, verbose=0)
            assert len(drawn) == compiled


def test_names_and_devices():
    assert strategy("none") is tf.distribute.get_strategy()
    with pytest.raises(ValueError, match=r"^Unknown strategy `miror`\. .*Known: none, mirrored, multi_worker, tpu\.$"):
        strategy("miror")
    for count, needed in ((0, "a GPU or several logical CPUs"), (3, "3 devices")):
        with pytest.raises(ValueError, match=rf"^`mirrored` needs {needed}, but this machine has 1 CPU\.$"):
            strategy("mirrored", devices=count)


def test_hosts(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match=r"^`multi_worker` needs `hosts`, or the environment variable TF_CONFIG"):
        strategy("multi_worker")
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(ValueError, match=r"^TF_CONFIG must be JSON with `cluster` and `task`, got '\{\}'\.$"):
        strategy("multi_worker")
    with pytest.raises(ValueError, match=r"^A host must be given as name:port, got 'localhost'\.$"):
        strategy("multi_worker", hosts=("localhost", "localhost:1"))
    with pytest.raises(ValueError, match=r"^`worker` must be from 0 to 1, the numbers of the hosts, got 2\.$"):
        strategy("multi_worker", hosts=("a:1", "b:1"), worker=2)


def test_a_port_in_use_and_a_host_that_does_not_answer():
    mine, other = free_ports(2)
    hosts = (f"localhost:{mine}", f"localhost:{other}")
    with pytest.raises(OSError, match=rf"^Host localhost:{other} did not answer within 0\.5 s: .*Start the"):
        strategy("multi_worker", hosts=hosts, timeout_s=0.5)
    with (
        socket.create_server(("", mine)),
        pytest.raises(OSError, match=rf"^Port {mine} of this worker cannot be used: .* Name another one\.$"),
    ):
        strategy("multi_worker", hosts=hosts, timeout_s=0.5)


def test_a_batch_that_does_not_divide():
    check_batch_size(8, tf.distribute.get_strategy(), 4)
    with pytest.raises(ValueError, match=r"^`batch_size` must be a multiple of 4, for 1 x 4 equal parts .*, got 7\.$"):
        check_batch_size(7, tf.distribute.get_strategy(), 4)


def test_models_that_are_refused():
    class Own(keras.Model):
        def call(self, x):
            return x

    class WithStep(keras.Model):
        def train_step(self, data):
            return {}

    x = keras.Input((2,))
    with pytest.raises(ValueError, match=r"^`model` must be a functional or a built sequential model, got a Own\.$"):
        prepare(Own())
    with pytest.raises(ValueError, match=r"^`model` must not have its own `train_step`"):
        prepare(WithStep(x, keras.layers.Dense(1)(x)))
    with pytest.raises(ValueError, match=r"^`accumulate` must be an integer of at least 1, got 0\.$"):
        prepare(tiny_bundle(None).model, accumulate=0)
    with pytest.raises(ValueError, match=r"^`rematerialize` needs encoder blocks of keras_bert in the model"):
        prepare(keras.Model(x, keras.layers.Dense(1)(x)), rematerialize=True)


def test_settings_that_are_refused():
    x = keras.Input((2,))
    outside = keras.Model(x, keras.layers.Dense(1)(x))
    model = prepare(outside)
    with pytest.raises(ValueError, match=r"^`loss` must be given"):
        model.compile("sgd")
    with pytest.raises(ValueError, match=r"^`gradient_accumulation_steps` must be left to `prepare\(model"):
        model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "mse")
    with pytest.raises(ValueError, match=r"^`steps_per_execution` must be 1 in a prepared model, got 2\.$"):
        model.compile("sgd", "mse", steps_per_execution=2)
    with pytest.raises(ValueError, match=r"^The loss mean_squared_error must have a reduction"):
        model.compile("sgd", keras.losses.MeanSquaredError(reduction=None))
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    with one.scope(), pytest.raises(ValueError, match=r"^`model` must be made inside `strategy\.scope\(\)`"):
        prepare(outside)
    with one.scope():
        inside = prepare(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match=r"^The optimizer must be made inside `strategy\.scope\(\)`"):
        inside.compile(keras.optimizers.SGD(0.1), "mse")


def test_what_is_saved_is_the_plain_model(tmp_path):
    bundle = tiny_bundle("sequence_classifier")
    model = prepare(bundle.model)
    model.save(tmp_path / "model.keras")
    assert type(keras.models.load_model(tmp_path / "model.keras")) is type(bundle.model)
    assert [weight.path for weight in model.weights] == [weight.path for weight in bundle.model.weights]
    assert all(one is two for one, two in zip(model.weights, bundle.model.weights, strict=True))
