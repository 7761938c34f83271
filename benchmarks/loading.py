"""From a folder to a model and to its first output, side by side with transformers (torch): seconds and peak memory.

Beside the clock stand the seconds of all cores, which other programs disturb less. `transformers` maps the file and
reads a weight when it is first used, so its loading ends before reading; the first output is of one text of 16 tokens.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.rounds import Contestant

TITLE = "Loading"
IDS = np.ones((1, 16), "int64")


def ours(folder):
    import keras_bert

    features = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": IDS}
    return before(), lambda: keras_bert.load(folder, head="encoder").model, lambda model: model(features)


def theirs(folder):
    import torch
    from transformers import AutoModel, BertModel, logging  # noqa: F401 - its module is otherwise imported by loading

    logging.disable_progress_bar()

    def answer(model):
        with torch.no_grad():
            model(torch.tensor(IDS))

    return before(), lambda: AutoModel.from_pretrained(folder), answer


CONTESTANTS = (
    Contestant("keras3-bert", "keras_bert", ours),
    Contestant("transformers (torch)", "transformers", theirs),
)


def before():
    """MB in memory now; the peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1000


def measured(contestant, folder):
    """Loads in this process: seconds by the clock and of all cores to the model, both to the first output, and MB.

    The MB are those at the peak of loading, above the level after the import.
    """
    start, load, answer = contestant.prepare(folder)
    clocks = time.perf_counter, time.process_time
    started = [clock() for clock in clocks]
    model = load()
    loaded = [clock() - begun for clock, begun in zip(clocks, started, strict=True)]
    peak = memory("VmHWM") - start
    answer(model)
    return *loaded, *(clock() - begun for clock, begun in zip(clocks, started, strict=True)), peak


def in_turns(folder, rounds):
    """Measures every contestant once a round, each time in a new process; one round goes before, uncounted."""
    found = {c.name: [] for c in CONTESTANTS if importlib.util.find_spec(c.module)}
    for number in range(rounds + 1):
        for name in found:
            command = [sys.executable, "-m", "benchmarks.loading", "--one", name, "--folder", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=report.ROOT)
            if number:
                found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {name: np.median(rows, axis=0) for name, rows in found.items()}


def table(name, folder, rounds):
    size = (Path(folder) / "model.safetensors").stat().st_size / 1e6
    rows = [
        (name, *(f"{seconds:.2f}" for seconds in measures[:4]), f"{measures[4]:.0f}", f"{measures[4] / size:.2f}")
        for name, measures in in_turns(folder, rounds).items()
    ]
    columns = ("", "s to the model", "all cores", "s to the first output", "all cores", "MB at the peak", "/ file")
    return report.Table(f"{name}, {size:.0f} MB, median of {rounds} processes", columns, rows)


def tables(rounds):
    import keras_bert

    with tempfile.TemporaryDirectory() as temporary:
        for preset, name in (("minilm", "MiniLM's size"), ("bert_base", "bert-base")):
            folder = Path(temporary) / preset
            keras_bert.save(keras_bert.create(keras_bert.BertConfig.preset(preset)), folder)
            yield table(f"{name}, random weights", folder, rounds)


def main():
    parser = report.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=[c.name for c in CONTESTANTS], help="measure it in this process")
    parser.add_argument("--folder", help="for --one")
    chosen = parser.parse_args()
    if chosen.one:
        contestant = next(c for c in CONTESTANTS if c.name == chosen.one)
        print(json.dumps(measured(contestant, chosen.folder)))
        return
    report.publish(TITLE, list(tables(chosen.rounds)), chosen.out)


if __name__ == "__main__":
    main()
