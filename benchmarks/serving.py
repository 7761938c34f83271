"""`keras-bert serve` under load: a classifier at MiniLM size, 32 connections, micro-batching against one by one.

Everything stays on the loopback, for a bounded time and number of requests. Servers and clients share the cores.
"""

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import urllib.request
from pathlib import Path

import keras_bert
from benchmarks import data, report
from benchmarks.inference import LABELS
from benchmarks.training import Sizes
from keras_bert.export import saved_model

TITLE = "Serving"
LENGTHS = {"up to 16": (3, 16), "17 to 64": (17, 64), "65 to 128": (65, 128)}  # tokens
WAYS = {"one by one": ["--max-batch-size", "1"], "micro-batching": []}
MOST = 200_000  # requests of one round


class Load(typing.NamedTuple):
    """What clients saw: requests answered, those that were not, seconds for each, and seconds of it all.

    `cpu` are seconds of all cores that the server took, which other programs disturb less.
    """

    answered: int
    errors: int
    times: list[float]
    seconds: float
    cpu: float


def write_model(sizes, vocab, model, folder):
    """Writes a classifier as SavedModel: with the encoder of a folder, or random weights; gives its tokenizer."""
    if model is None:
        tokenizer = keras_bert.Tokenizer.from_vocab(vocab, lowercase=True)
        bundle = keras_bert.create(keras_bert.BertConfig(**sizes.config()), tokenizer, "sequence_classifier", LABELS)
    else:
        bundle = keras_bert.load(model, new_head="sequence_classifier", labels=LABELS)
    saved_model.write(bundle, folder, max_length=min(128, bundle.config.max_length))
    return bundle.tokenizer


def texts_by_length(tokenizer, texts, lengths, most=500):
    """Gives texts by the numbers of tokens that they have, [CLS] and [SEP] included."""
    counts = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
    found = {}
    for name, (least, largest) in lengths.items():
        chosen = [text for text, count in zip(texts, counts, strict=True) if least <= count <= largest]
        found[name] = chosen[:: max(1, len(chosen) // most)]
    return found


@contextlib.contextmanager
def server(folder, options):
    """Runs `keras-bert serve` in a process of its own; gives its port."""
    code = "from keras_bert_cli.main import app; app()"
    command = [sys.executable, "-c", code, "serve", f"model={folder}", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        yield int(re.search(r":(\d+)/", said)[1])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def load(port, texts, connections, seconds):
    """Asks on so many connections at a time, each one text after the other; gives `Load`."""
    bodies = [json.dumps({"instances": [text]}).encode() for text in texts]
    head = "POST /v1/models/model:predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n"
    requests = [head.format(len(body)).encode() + body for body in bodies]
    before = cpu_seconds(port)
    found = asyncio.run(_load(port, requests, connections, seconds))
    return found._replace(cpu=cpu_seconds(port) - before)


def cpu_seconds(port):
    """Seconds of all cores that a server has taken so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return float(re.search(r"^process_cpu_seconds_total (\S+)", text, re.MULTILINE)[1])


async def _load(port, requests, connections, seconds):
    times, errors, begun = [], 0, time.perf_counter()

    async def client(number):
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - begun < seconds and len(times) < MOST:
            number += connections
            asked = time.perf_counter()
            writer.write(requests[number % len(requests)])
            headers = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", headers)[1]))
            times.append(time.perf_counter() - asked)
            errors += b" 200 " not in headers[:15]
        writer.close()

    clients = await asyncio.gather(*(client(i) for i in range(connections)), return_exceptions=True)
    lost = sum(isinstance(client, Exception) for client in clients)
    return Load(len(times) - errors, errors + lost, times, time.perf_counter() - begun, 0.0)


def serving(sizes, vocab, texts, connections, seconds, rounds, lengths=LENGTHS, model=None):
    """Rows: for each length and way requests a second, times, what failed, and the ratio to one by one."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        tokenizer = write_model(sizes, vocab, model, Path(folder) / "1")
        ports = {way: running.enter_context(server(folder, options)) for way, options in WAYS.items()}
        for length, chosen in texts_by_length(tokenizer, texts, lengths).items():
            for port in ports.values():
                load(port, chosen, connections, 1)
            found = {way: [] for way in WAYS}
            for number in range(rounds):
                for way in list(WAYS)[:: 1 if number % 2 else -1]:
                    found[way].append(load(ports[way], chosen, connections, seconds / rounds))
            speeds = {
                way: sum(x.answered for x in loads) / sum(x.seconds for x in loads) for way, loads in found.items()
            }
            for way, loads in found.items():
                answered = sum(x.answered for x in loads)
                times = sorted(t for x in loads for t in x.times)
                cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
                rows.append(
                    (
                        f"{length} tokens, {way}",
                        f"{speeds[way]:.0f}",
                        f"{speeds[way] / speeds['one by one']:.2f}",
                        f"{1000 * cuts[49]:.0f}",
                        f"{1000 * cuts[98]:.0f}",
                        f"{1000 * sum(x.cpu for x in loads) / answered:.1f}",
                        str(answered),
                        str(sum(x.errors for x in loads)),
                    )
                )
    weights = f"weights of {Path(model).name}" if model else "random weights"
    title = (
        f"`keras-bert serve`, classifier, {sizes.num_hidden_layers} layers of {sizes.hidden_size}, {weights}, "
        f"{connections} connections, {seconds:.0f} s each in {rounds} turns"
    )
    columns = (
        "texts",
        "requests/s",
        "to one by one",
        "ms, median",
        "ms, 99%",
        "CPU ms a request",
        "answered",
        "failed",
    )
    return report.Table(title, columns, rows)


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load for each length and way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="folder of an encoder of MiniLM's size; by default random weights")
    chosen = parser.parse_args()
    vocab, lines = data.vocabulary("bert-base-uncased"), data.lines("en", 1)
    table = serving(Sizes(), vocab, lines, chosen.connections, chosen.seconds, chosen.rounds, model=chosen.model)
    report.publish(TITLE, [table], chosen.out)


if __name__ == "__main__":
    main()
