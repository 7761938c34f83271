"""KerasHub's BERT: presets and live objects, in and out; read without keras-hub, written by it (extra keras-nlp)."""

import json
import math
import re
from pathlib import Path

import h5py
import numpy as np

from keras_bert.checkpoint import google
from keras_bert.checkpoint.containers import written_json
from keras_bert.checkpoint.huggingface import Folder, stored_name
from keras_bert.checkpoint.names import renamed, turned
from keras_bert.config import BertConfig
from keras_bert.files import read_json
from keras_bert.tokenization.tokenizer import Tokenizer

OWN_FILE = "keras_bert.json"  # the labels, for which a preset has no place
BACKBONES = {"BertBackbone"}
# task -> the head that computes the same
TASKS = {
    "BertTextClassifier": "sequence_classifier",
    "BertClassifier": "sequence_classifier",
    "BertTextEmbedder": "sentence_embedder",
}
KEYS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "dropout",
}
# a layer's place in a live model, and in the files -> Hugging Face's name
_BLOCK, _LAYER = r"transformer_layer_(\d+)/", r"encoder.layer.\1."
NAMES = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embeddings_layer_norm": "embeddings.LayerNorm",
    f"{_BLOCK}self_attention_layer/(query|key|value)": rf"{_LAYER}attention.self.\2",
    f"{_BLOCK}self_attention_layer/attention_output": f"{_LAYER}attention.output.dense",
    f"{_BLOCK}self_attention_layer_norm": f"{_LAYER}attention.output.LayerNorm",
    f"{_BLOCK}feedforward_intermediate_dense": f"{_LAYER}intermediate.dense",
    f"{_BLOCK}feedforward_output_dense": f"{_LAYER}output.dense",
    f"{_BLOCK}feedforward_layer_norm": f"{_LAYER}output.LayerNorm",
    "pooled_dense": "pooler.dense",
    "logits": "classifier",
}
# what a layer is called in a weights file: by its class, the second by its number, and by its place in the layer above
_FILE_NAMES = {
    "reversible_embedding": "token_embedding",
    "position_embedding": "position_embedding",
    "embedding": "segment_embedding",
    "layer_normalization": "embeddings_layer_norm",
    "transformer_encoder": "transformer_layer_0",
    "dense": "pooled_dense",
}
_TASK_NAMES = {"dense": "logits"}


def recognizes(source):
    """A preset's folder, whose config.json names a class; or a live backbone or task."""
    if not isinstance(source, str | Path):
        return _class_of(source) is not None
    file = Path(source) / "config.json"
    return file.is_file() and "class_name" in read_json(file)


def read(source):
    """Reads the config and the names of the weights.

    Raises:
        ValueError: a file is missing or broken, or the architecture or the task is another one than are read.
    """
    if not isinstance(source, str | Path):
        return _read_object(source)
    path = Path(source)
    described = read_json(path / "config.json")
    if described["class_name"] not in BACKBONES:
        raise ValueError(
            f"{path / 'config.json'} describes a {described['class_name']} of KerasHub; "
            f"supported: {', '.join(sorted(BACKBONES))}."
        )
    config = _config(described.get("config") or {}, path / "config.json")
    arrays = _weights(path / "model.weights.h5", _FILE_NAMES)
    ignored, task = [], read_json(path / "task.json") if (path / "task.json").is_file() else {}
    head, options = None, {}
    if task.get("class_name") in TASKS:
        head, options = _head(task["class_name"], task.get("config") or {}, path / "task.json")
        if head == "sequence_classifier":
            arrays |= _weights(path / "task.weights.h5", _TASK_NAMES)
    elif task:
        # its masked-LM head has exact gelu and an epsilon of 1e-5, whatever the backbone has
        ignored.append(f"the head of {task.get('class_name')}, which no head here computes")
    own = read_json(path / OWN_FILE) if (path / OWN_FILE).is_file() else {}
    stored = renamed(path / "model.weights.h5", arrays)
    return Folder(
        path,
        config,
        head,
        options,
        own.get("labels"),
        ignored,
        stored,
        tokenizer=lambda: _tokenizer(path),
    )


def _read_object(model):
    kind = _class_of(model)
    backbone = model if kind in BACKBONES else model.backbone
    head, options = _head(kind, model.get_config(), kind) if kind in TASKS else (None, {})
    arrays = {}
    for weight in model.weights:
        layer, _, part = weight.path.removeprefix(f"{backbone.name}/").rpartition("/")
        array = weight.value
        name = _canonical(layer, 0 if part in ("embeddings", "kernel", "gamma") else 1) or weight.path
        arrays[name] = _flat(name, weight.shape, lambda array=array: np.array(array))
    config = _config(backbone.get_config(), f"the {kind}")
    preprocessor = getattr(model, "preprocessor", None)
    tokenizer = getattr(preprocessor, "tokenizer", None)
    vocab = tokenizer and tuple(tokenizer.get_vocabulary())
    return Folder(
        f"The {kind}",
        config,
        head,
        options,
        None,
        [],
        renamed(f"the {kind}", arrays),
        tokenizer=lambda: vocab and Tokenizer(vocab, **_settings(tokenizer.get_config())),
    )


def _class_of(source):
    """The name of the KerasHub class that an object is of, or None."""
    for kind in type(source).__mro__:
        if kind.__name__ in BACKBONES | TASKS.keys() and kind.__module__.startswith(("keras_hub", "keras_nlp")):
            return kind.__name__
    return None


def _config(values, source):
    missing = [key for key in KEYS.values() if key not in values]
    if missing:
        raise ValueError(f"{source} must say {', '.join(sorted(set(missing)))}.")
    fields = {field: values[key] for field, key in KEYS.items()}
    return BertConfig(**fields, hidden_act="gelu_new", layer_norm_eps=google.EPS)


def _head(task, values, source):
    """The head of a task, and its options."""
    if TASKS[task] == "sentence_embedder":
        return TASKS[task], {"pooling": values.get("pooling_mode", "mean"), "normalize": values.get("normalize", True)}
    activation = values.get("activation", "linear")
    activation = activation.get("config", activation) if isinstance(activation, dict) else activation
    if activation not in ("linear", None):
        raise ValueError(f"`activation` must be linear in {source}, got {json.dumps(activation)}: logits are read.")
    return TASKS[task], {}


def _weights(file, names):
    """The arrays of a weights file: Hugging Face's name -> (shape, function that reads the array)."""
    if not file.is_file():
        raise ValueError(f"{file} is missing.")
    places = []
    try:
        with h5py.File(file) as opened:
            opened.visititems(
                lambda place, item: places.append((place, item.shape)) if isinstance(item, h5py.Dataset) else None
            )
    except OSError as error:
        raise ValueError(f"{file} is not a whole HDF5 file: {error}.") from None
    arrays = {}
    for place, shape in places:
        if place.startswith("optimizer/"):
            continue
        name = _canonical(*_layer_and_number(place, names)) or place
        arrays[name] = _flat(name, shape, lambda place=place: _dataset(file, place))
    return arrays


def _dataset(file, place):
    with h5py.File(file) as opened:
        return opened[place][()]


def _layer_and_number(place, names):
    """A layer's place, and 0, of `layers/transformer_encoder_1/_feedforward_layer_norm/vars/0`."""
    match = re.fullmatch(r"(?:layers/)?(.*)/vars/(\d+)", place)
    if match is None:
        return "", 0
    layer, *inner = (part.lstrip("_") for part in match[1].split("/"))
    layer = re.sub(r"^transformer_encoder_(\d+)$", r"transformer_layer_\1", layer)
    inner = [re.sub("^(query|key|value)_dense$", r"\1", part) for part in inner]
    inner = ["attention_output" if part == "output_dense" else part for part in inner]
    return "/".join([names.get(layer, layer), *inner]), int(match[2])


def _canonical(layer, number):
    """Hugging Face's name of a layer's weight by its number, or None."""
    for pattern, name in NAMES.items():
        if (match := re.fullmatch(pattern, layer)) and number < 2:
            return f"{match.expand(name)}.{('weight', 'bias')[number]}"
    return None


def _flat(name, shape, read):
    """Query, key and value have (D, N, K) and (N, K), their output (N, K, D); here all are matrices and vectors."""
    shape = tuple(shape)
    if name.endswith("attention.output.dense.weight"):
        flat = (math.prod(shape[:-1]), shape[-1])
    elif ".attention.self." in name:
        flat = (shape[0], math.prod(shape[1:])) if name.endswith(".weight") else (math.prod(shape),)
    else:
        flat = shape
    if len(flat) == 2 and "_embeddings." not in name:
        return turned(flat, lambda: read().reshape(flat))
    return flat, lambda: read().reshape(flat)


def _settings(values):
    return {
        "lowercase": values.get("lowercase", False),
        "strip_accents": values.get("strip_accents", False),  # KerasHub lower-cases without it
    }


def _tokenizer(path):
    file = path / "assets" / "tokenizer" / "vocabulary.txt"
    if not file.is_file():
        return None
    values = read_json(path / "tokenizer.json").get("config") or {}
    return Tokenizer.from_vocab(file, **_settings(values))


def build(bundle, allow_activation_change=False, others=None):
    """Makes KerasHub's objects of a bundle: a `BertBackbone`, its tokenizer or None, and its task or None.

    An embedder does not read the pooler that a `BertBackbone` must have: it is that of `others`, or zeros.

    Raises:
        ImportError: keras-hub is not installed.
        ValueError: KerasHub has no such model.
    """
    try:
        import keras_hub
    except ImportError:
        raise ImportError('keras_hub is missing: pip install "keras3-bert[keras-nlp]".') from None
    config = bundle.config
    google.check_fixed(config, "KerasHub", allow_activation_change)
    if bundle.head not in (None, *TASKS.values()):
        raise ValueError(
            f"KerasHub has no {bundle.head} that computes this one; it has a backbone, "
            f"{' and '.join(dict.fromkeys(TASKS.values()))}."
        )
    if not config.pooler and bundle.head != "sentence_embedder":
        raise ValueError("KerasHub's BertBackbone has a pooler, and this model has none.")
    backbone = keras_hub.models.BertBackbone(**{key: getattr(config, field) for field, key in reversed(KEYS.items())})
    tokenizer = model = None
    if bundle.tokenizer is not None:
        ours = bundle.tokenizer
        strip = ours.lowercase if ours.strip_accents is None else ours.strip_accents
        tokenizer = keras_hub.models.BertTokenizer(list(ours.vocab), lowercase=ours.lowercase, strip_accents=strip)
    if bundle.head == "sentence_embedder":
        if bundle.options.get("pooling", "mean") not in ("mean", "cls", "max") or "dense" in bundle.options:
            raise ValueError(f"KerasHub's embedder pools by mean, cls or max and no more, got {bundle.options}.")
        preprocessor = tokenizer and keras_hub.models.BertTextEmbedderPreprocessor(
            tokenizer, sequence_length=config.max_position_embeddings
        )
        model = keras_hub.models.BertTextEmbedder(
            backbone,
            preprocessor=preprocessor,
            pooling_mode=bundle.options.get("pooling", "mean"),
            normalize=bundle.options.get("normalize", True),
        )
    elif bundle.head is not None:
        preprocessor = tokenizer and keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer, sequence_length=config.max_position_embeddings
        )
        model = keras_hub.models.BertTextClassifier(
            backbone, num_classes=len(bundle.labels), preprocessor=preprocessor, dropout=config.hidden_dropout_prob
        )
    _assign(bundle, backbone, model, others or {})
    return backbone, tokenizer, model


def _assign(bundle, backbone, task, others):
    size = bundle.config.hidden_size
    arrays = {"pooler.dense.weight": np.zeros((size, size)), "pooler.dense.bias": np.zeros(size)}
    for name in arrays.keys() & others.keys():
        arrays[name] = others[name].T
    for weight in bundle.model.weights:
        name = stored_name(bundle.config, bundle.head, weight.path)
        arrays[name] = np.asarray(weight.value)
    for weight in (task or backbone).weights:
        layer, _, part = weight.path.removeprefix(f"{backbone.name}/").rpartition("/")
        name = _canonical(layer, 0 if part in ("embeddings", "kernel", "gamma") else 1)
        weight.assign(arrays[name].reshape(weight.shape))


def write(bundle, folder, allow_activation_change=False, others=None):
    """Writes the bundle as a KerasHub preset into an existing folder.

    Args:
        others: further weights, under Hugging Face's names; of these the pooler is kept.
        allow_activation_change: whether a model with exact gelu may become one with tanh gelu.

    Raises:
        ImportError: keras-hub is not installed.
        ValueError: KerasHub has no such model.
    """
    backbone, tokenizer, task = build(bundle, allow_activation_change, others)
    (task or backbone).save_to_preset(str(folder))
    if task is None and tokenizer is not None:
        tokenizer.save_to_preset(str(folder))
    with written_json(Path(folder) / OWN_FILE) as values:
        values["labels"] = bundle.labels
