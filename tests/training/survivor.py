"""Trainings that are killed: a program for test_checkpoints.py, run as `python -m tests.training.survivor OUT KILLS`.

Every training is a process of its own, made from one that has imported everything already. OUT, JSON, gets what the
straight training and the killed one ended with.
"""

import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

STEPS = 200


def train(folder, steps, done, out):
    """Trains with dropout from where the folder's checkpoints are up to `steps`, and writes what it came to.

    Args:
        done: shared int, raised with every step.
        out: file for {"weights": SHA-256, "rates": [learning rate at each step of this process], "from": step}.
    """
    import hashlib

    import keras
    import numpy as np
    import tensorflow as tf

    from keras_bert.training.checkpoints import Checkpoints
    from keras_bert.training.optimization import adamw, warmup_linear
    from tests.training import replicas

    model = replicas.compiled(
        tf.distribute.get_strategy(), lambda: replicas.pretraining(0.2), lambda: adamw(warmup_linear(1e-2, 20, STEPS))
    )
    checkpoints = Checkpoints(folder, every=9, config={"dropout": 0.2})
    first, rates = checkpoints.resume(model), []
    table = keras.tree.map_structure(
        lambda *parts: np.stack(parts), *(replicas.pretraining_batch(6, seed) for seed in range(5))
    )
    batches = tf.data.Dataset.range(first, steps).map(
        lambda step: keras.tree.map_structure(lambda parts: tf.gather(parts, step % 5), table)
    )

    def count(batch, logs):
        rates.append(float(model.optimizer.learning_rate))
        done.value += 1

    watch = keras.callbacks.LambdaCallback(on_train_batch_end=count)
    if first < steps:
        model.fit(batches, verbose=0, shuffle=False, callbacks=[checkpoints, watch])
    digest = hashlib.sha256(np.concatenate([weight.numpy().ravel() for weight in model.weights]).tobytes())
    Path(out).write_text(json.dumps({"weights": digest.hexdigest(), "rates": rates, "from": first}))


def main(out, kills):
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.training.replicas", "keras_bert.training.checkpoints"])
    done, draw = processes.Value("i", 0), random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)

        def start(name, steps):
            done.value = 0
            process = processes.Process(target=train, args=(folder / name, steps, done, folder / f"{name}.json"))
            process.start()
            return process

        def run(name, steps):
            process = start(name, steps)
            process.join()
            assert process.exitcode == 0, process.exitcode
            return json.loads((folder / f"{name}.json").read_text())

        straight = run("straight", STEPS)
        killed_at = []
        while len(killed_at) < kills:
            process = start("killed", STEPS)
            target = draw.randrange(1, max(2, STEPS // (kills + 1) * 2))
            while done.value < target and process.is_alive():
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.01))  # also while a checkpoint is written
            process.kill()
            process.join()
            killed_at.append(done.value)
        last = run("killed", STEPS)
        short = run("short", 6)
        halves = [run("halves", 3), run("halves", 6)]
        results = {"straight": straight, "killed_at": killed_at, "last": last, "short": short, "halves": halves}
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
