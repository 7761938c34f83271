"""Models of the Hugging Face hub, by their id such as `google/bert_uncased_L-2_H-128_A-2` (extra hub)."""

import re
from pathlib import Path

SETTINGS = ["*.json", "*.txt"]
WEIGHTS = (["*.safetensors"], ["pytorch_model*.bin"], ["tf_model.h5"])  # the first that the model has


def located(source):
    """Gives the local copy of a model on the hub, or `source` itself where it is no id.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: the hub has no such model, or cannot be reached.
    """
    if not isinstance(source, str | Path) or Path(source).exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        return source
    if Path(f"{source}.index").is_file():  # a checkpoint's prefix
        return source
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(
            f"{source} is no folder, and for a model of the hub huggingface_hub is missing: "
            'pip install "keras3-bert[hub]".'
        ) from None
    try:
        for weights in WEIGHTS:
            folder = Path(snapshot_download(str(source), allow_patterns=[*SETTINGS, *weights]))
            if any(any(folder.rglob(pattern)) for pattern in weights):
                break
    except Exception as error:  # the hub's client raises anything
        reason = next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
        raise ValueError(f"{source} is neither a folder nor a model that the hub gives: {reason}.") from None
    return folder
