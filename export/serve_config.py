"""The files that TensorFlow Serving takes: which models, how to batch, what to count, and a compose file for it all."""

import json
from importlib.util import find_spec
from pathlib import Path

from keras_bert.files import replace_folder

IMAGE = "tensorflow/serving:latest"
MODELS, BATCHING, MONITORING, COMPOSE = "models.config", "batching.config", "monitoring.config", "compose.yaml"
METRICS = "/monitoring/prometheus/metrics"
LARGEST_REQUEST = 1024  # rows; larger ones than a batch are split


def write(folders, out, labels=None, max_batch_size=32, max_delay_ms=2.0, threads=2, image=IMAGE, ports=(8500, 8501)):
    """Writes models.config, batching.config, monitoring.config and compose.yaml to the folder `out`.

    Args:
        folders: dict from models' names to their folders of versions (`served`, with `served/1` in it).
        labels: dict from (name, label) to version numbers, which are served beside the newest. The versions of such a
            model are then those of this file: a new one needs the file again.
        max_batch_size, max_delay_ms: rows that go through a model together, and what they wait for others.
        threads: batches at the same time.
        image: of TensorFlow Serving, in the compose file.
        ports: for gRPC and REST, on this machine's loopback.

    Raises:
        ValueError: a folder holds no version, or lacks one with a label; or what was written is not what TensorFlow
            Serving's protocol has (checked where tensorflow-serving-api is installed).
    """
    labels = labels or {}
    _check(folders, labels, max_batch_size, max_delay_ms, threads)
    models = models_config(folders, labels)
    if find_spec("tensorflow_serving") is not None:
        _check_models(models, folders)
    files = {
        MODELS: models,
        BATCHING: batching_config(max_batch_size, max_delay_ms, threads),
        MONITORING: f'prometheus_config {{\n  enable: true\n  path: "{METRICS}"\n}}\n',
        COMPOSE: compose(folders, image, ports, bool(labels)),
    }
    with replace_folder(out) as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")


def models_config(folders, labels):
    """A `ModelServerConfig` as text: each model, its place in the container and the versions that have labels."""
    parts = []
    for name in folders:
        lines = [f"name: {_quoted(name)}", f"base_path: {_quoted(f'/models/{name}')}", 'model_platform: "tensorflow"']
        own = {label: number for (model, label), number in labels.items() if model == name}
        if own:
            newest = max(versions(folders[name]))
            chosen = " ".join(f"versions: {number}" for number in sorted({newest, *own.values()}))
            lines.append(f"model_version_policy {{ specific {{ {chosen} }} }}")
            lines += [f"version_labels {{ key: {_quoted(label)} value: {number} }}" for label, number in own.items()]
        parts.append("  config {\n" + "".join(f"    {line}\n" for line in lines) + "  }\n")
    return "model_config_list {\n" + "".join(parts) + "}\n"


def batching_config(max_batch_size, max_delay_ms, threads):
    """`BatchingParameters` as text.

    Without padding TensorFlow Serving refuses ids of several lengths, and several numbers of choices, that meet in a
    batch. With it answers would be wrong: it pads with a tensor's first element (its issue 1279), a 1 in the mask.
    """
    values = {
        "max_batch_size": max(LARGEST_REQUEST, max_batch_size),
        "max_execution_batch_size": max_batch_size,
        "batch_timeout_micros": round(1000 * max_delay_ms),
        "max_enqueued_batches": 100,
        "num_batch_threads": threads,
    }
    lines = [f"{name} {{ value: {value} }}\n" for name, value in values.items()]
    return "".join(lines) + "enable_large_batch_splitting { value: true }\npad_variable_length_inputs: false\n"


def compose(folders, image, ports, labelled):
    """A compose file; JSON strings are YAML's too."""
    options = [
        "--port=8500",
        "--rest_api_port=8501",
        f"--model_config_file=/config/{MODELS}",
        "--model_config_file_poll_wait_seconds=30",
        "--enable_batching=true",
        f"--batching_parameters_file=/config/{BATCHING}",
        f"--monitoring_config_file=/config/{MONITORING}",
    ]
    options += ["--allow_version_labels_for_unavailable_models=true"] if labelled else []
    mounts = [(".", "/config"), *((str(Path(folder).resolve()), f"/models/{name}") for name, folder in folders.items())]
    lines = [
        "services:",
        "  serving:",
        f"    image: {json.dumps(image)}",
        "    restart: unless-stopped",
        "    ports:",
        *(
            f"      - {json.dumps(f'127.0.0.1:{port}:{inside}')}"
            for port, inside in zip(ports, (8500, 8501), strict=True)
        ),
        "    volumes:",
    ]
    for source, target in mounts:
        lines += ["      - type: bind", f"        source: {json.dumps(source, ensure_ascii=False)}"]
        lines += [f"        target: {json.dumps(target, ensure_ascii=False)}", "        read_only: true"]
    return "\n".join([*lines, "    command:", *(f"      - {json.dumps(option)}" for option in options)]) + "\n"


def versions(folder):
    """The numbers of the version folders in `folder` that hold a SavedModel."""
    paths = Path(folder).glob("*/saved_model.pb")
    return [int(path.parent.name) for path in paths if path.parent.name.isascii() and path.parent.name.isdigit()]


def _check(folders, labels, max_batch_size, max_delay_ms, threads):
    for name, folder in folders.items():
        there = versions(folder)
        if not there:
            raise ValueError(f"{folder} must hold version folders, such as {folder}/1, with a SavedModel each.")
        missing = [number for (model, _), number in labels.items() if model == name and number not in there]
        if missing:
            raise ValueError(f"{folder} must hold the versions that have labels, but {missing[0]} is not there.")
    unknown = [name for name, _ in labels if name not in folders]
    if unknown:
        raise ValueError(f"A label must be one of {', '.join(folders)}, got one of `{unknown[0]}`.")
    for name, value, least in (
        ("max_batch_size", max_batch_size, 1),
        ("max_delay_ms", max_delay_ms, 0),
        ("threads", threads, 1),
    ):
        if not value >= least:
            raise ValueError(f"`{name}` must be at least {least}, got {value}.")


def _check_models(text, folders):
    """Reads the model config by TensorFlow Serving's own protocol."""
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    read = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    names = [config.name for config in read.model_config_list.config]
    if names != list(folders):
        raise ValueError(f"{MODELS} must name {list(folders)}, got {names}.")


def _quoted(text):
    """A string of protocol buffers' text form."""
    return json.dumps(text)
