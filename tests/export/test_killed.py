import multiprocessing
import random
import signal
import time

import pytest

from keras_bert.export import REPORT, export, verify
from tests.models import tiny_bundle

MOMENTS = 20


def make(path, seed):
    export(tiny_bundle("sequence_classifier", seed), path, "onnx")


@pytest.mark.slow
def test_killed_exports_leave_the_old_artifact_or_a_whole_new_one(tmp_path):
    context, path = multiprocessing.get_context("forkserver"), tmp_path / "out"
    context.set_forkserver_preload([__name__, "keras_bert.export.onnx"])  # each child begins after the imports
    for _ in range(2):  # the first one waits for the imports
        started = time.monotonic()
        child = context.Process(target=make, args=(path, 0))
        child.start()
        child.join()
        assert child.exitcode == 0
    seconds, killed, moments, seen = time.monotonic() - started, 0, random.Random(0), None
    for seed in range(1, MOMENTS + 1):
        child = context.Process(target=make, args=(path, seed))
        child.start()
        child.join(moments.uniform(0.0, 1.0) * seconds)
        child.kill()
        child.join()
        killed += child.exitcode == -signal.SIGKILL
        if not path.exists():  # killed between the old one's last and the new one's first moment
            continue
        report = (path / REPORT).read_text()
        if report != seen:  # its answers are those that stand beside it
            verify(path)
            seen = report
    assert killed >= MOMENTS / 4
