"""A model with its tokenizer and labels: the folder on disk, and the answers for texts."""

import dataclasses

import keras
import numpy as np

from keras_bert import layers
from keras_bert.checkpoint import huggingface
from keras_bert.checkpoint.assign import assign_weights
from keras_bert.config import BertConfig, did_you_mean
from keras_bert.encoder import build_encoder
from keras_bert.files import replace_folder
from keras_bert.heads import HEADS
from keras_bert.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of every weight and key when a folder was loaded.

    Args:
        loaded: weight paths set from the file.
        fresh: weight paths that the file does not give; they start anew.
        unused: names in the file that belong to another head.
        ignored: keys of `config.json` that are not known here.
        spare_rows: rows of the token embedding without a token in the vocabulary; 0 without a tokenizer.
    """

    loaded: list[str]
    fresh: list[str]
    unused: list[str]
    ignored: list[str]
    spare_rows: int


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A model and what belongs to it.

    Args:
        model: the `keras.Model` of `head`, or the bare encoder.
        tokenizer: a `Tokenizer`, or None where the folder has no vocabulary.
        head: key in `HEADS`, or None for the bare encoder.
        labels: list of str in the order of the classes, or None.
        report: what `load` did; None for a model made here.
        options: options of the head's function.
    """

    model: keras.Model
    tokenizer: Tokenizer | None
    head: str | None
    labels: list[str] | None
    config: BertConfig
    report: Report | None = None
    options: dict = dataclasses.field(default_factory=dict)


def create(config, tokenizer=None, head=None, labels=None, **options):
    """Makes a bundle with fresh weights.

    Args:
        config: a `BertConfig`.
        head: key in `HEADS`, or None for the bare encoder.
        labels: list of str, for a head that has labels.
        options: options of the head's function.
    """
    _check_head(head, labels, options)
    _check_vocabulary(tokenizer, config)
    model = _build(config, head, labels, options)
    return Bundle(model, tokenizer, head, labels, config, None, options)


def load(folder, head=None, new_head=None, labels=None, **options):
    """Loads a Hugging Face folder, its head included.

    Args:
        folder: holds `config.json`, `model.safetensors` and, for texts, `vocab.txt` or `tokenizer.json`.
        head: key in `HEADS` that the file must hold; by default the one it was written for.
        new_head: key in `HEADS` to start anew on the loaded encoder.
        labels: list of str; with `new_head` they give the number of classes, otherwise they rename the file's.
        options: options of the head's function, such as `pooling="cls"`.

    Returns:
        A `Bundle`; its `report` names what was loaded, fresh, unused and ignored.

    Raises:
        ValueError: something is missing, does not fit, or belongs to nothing known.
    """
    if head is not None and new_head is not None:
        raise ValueError(f"Give `head` (it must be in the file) or `new_head` (fresh), got {head!r} and {new_head!r}.")
    found = huggingface.read_folder(folder)
    name = new_head or head or found.head
    if name == found.head:
        options = {**found.options, **options}
    if name is not None and name in HEADS and HEADS[name].labelled and new_head is None:
        labels = labels or found.labels or _numbered_labels(folder, name)
    _check_head(name, labels, options)
    config = found.config
    if name is not None and HEADS[name].pooler:
        config = dataclasses.replace(config, pooler=True)
    with layers.weights_follow():
        model = _build(config, name, labels, options)
    tokenizer = _tokenizer(folder)
    _check_vocabulary(tokenizer, config)

    paths = [weight.path for weight in model.weights]
    asked = [path for path in paths if new_head is None or not huggingface.is_head(path)]
    arrays, missing, unused = huggingface.read_arrays(folder, asked)
    may_be_fresh = [path for path in missing if new_head is not None and path.startswith("pooler/")]
    if len(missing) > len(may_be_fresh):
        raise ValueError(
            f"{folder} does not hold all of {name or 'the encoder'}: without an array are {missing}. "
            "A head that the file does not hold is asked for by `new_head`."
        )
    fresh = [path for path in paths if path not in arrays]
    start = layers.KernelInitializer(stddev=config.initializer_range)
    for weight in model.weights:
        if weight.path in fresh:
            is_kernel = weight.path.endswith("/kernel")
            arrays[weight.path] = np.asarray(start(weight.shape) if is_kernel else weight.value)
    assign_weights(model, arrays)
    spare = config.vocab_size - tokenizer.vocab_size if tokenizer else 0
    report = Report([path for path in paths if path not in fresh], fresh, unused, found.ignored, spare)
    return Bundle(model, tokenizer, name, labels, config, report, options)


def save(bundle, folder):
    """Writes the bundle as a Hugging Face folder, which `transformers` opens; an old folder is replaced whole."""
    weights = {weight.path: weight for weight in bundle.model.weights}
    with replace_folder(folder) as temporary:
        huggingface.write_folder(temporary, bundle.config, bundle.head, bundle.options, bundle.labels, weights)
        if bundle.tokenizer is not None:
            bundle.tokenizer.save(temporary)


def predict(bundle, texts, pairs=None, batch_size=32, max_length=None):
    """Answers texts: sorted by length, batched, padded to the longest of a batch, given back in their order.

    Args:
        texts: list of str; or a dict of id arrays (n, T) with the model's inputs.
        pairs: list of str, the second texts, or None.
        max_length: tokens; longer texts are truncated. By default all that the model has positions for.

    Returns:
        sequence_classifier: a list of {"label", "probabilities"}; sentence_embedder: an array (n, D) float32;
        masked_language_model: a list with, per [MASK] of the text, the likeliest {"word", "probability"}.

    Raises:
        ValueError: the head has no answer for a text, or the texts are not a list of str.
    """
    head = HEADS.get(bundle.head)
    if head is None or head.answer is None:
        raise ValueError(f"`predict` needs a head with an answer, got {bundle.head}.")
    if isinstance(texts, dict):
        texts = check_features(texts, bundle.config)
        n = len(texts["token_ids"])
        order = np.arange(n)
    else:
        check_texts(texts, pairs)
        if bundle.tokenizer is None:
            raise ValueError(
                "`predict` needs a tokenizer for texts, but the folder had no vocab.txt or tokenizer.json."
            )
        max_length = checked_length(max_length, bundle.config)
        n = len(texts)
        order = np.argsort([len(text) + (len(pairs[i]) if pairs else 0) for i, text in enumerate(texts)], kind="stable")
    rows = {}
    for start in range(0, n, batch_size):
        chosen = order[start : start + batch_size]
        if isinstance(texts, dict):
            features = {key: value[chosen] for key, value in texts.items()}
        else:
            seconds = [pairs[i] for i in chosen] if pairs else None
            features = _features(bundle, [texts[i] for i in chosen], seconds, max_length)
        for i, row in zip(chosen, _answers(bundle, features), strict=True):
            rows[int(i)] = row
    if not rows:
        return []
    answers = {name: [rows[i][name] for i in range(n)] for name in rows[0]}
    return head.rows(answers, bundle.labels if head.labelled else bundle.tokenizer and bundle.tokenizer.vocab)


def check_texts(texts, pairs=None):
    """Refuses anything but a list of str, and pairs of another number."""
    for name, values in (("texts", texts), ("pairs", pairs)):
        if values is None and name == "pairs":
            continue
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise ValueError(f"`{name}` must be a list of strings, got {type(values).__name__}.")
        wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
        if wrong is not None:
            raise ValueError(f"`{name}[{wrong}]` must be a string, got {type(values[wrong]).__name__}.")
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"`texts` and `pairs` must be equally many, got {len(texts)} and {len(pairs)}.")


def check_features(features, config):
    """Refuses ids that are outside the vocabulary, and texts that are longer than the model has positions for.

    Args:
        features: dict with `token_ids` and the model's other inputs, arrays (B, T) of integers.

    Returns:
        `features` as arrays; where they are left out, with segments of zeros and the mask that the pad id gives.
    """
    if features.get("token_ids") is None:
        raise ValueError(f"`token_ids` is missing, got {', '.join(features) or 'nothing'}.")
    ids = np.asarray(features["token_ids"])
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"`token_ids` must be integers, got {ids.dtype}.")
    if ids.ndim != 2:
        raise ValueError(f"`token_ids` must have the shape (B, T), got {ids.shape}.")
    if ids.shape[1] > config.max_position_embeddings:
        raise ValueError(
            f"`token_ids` has {ids.shape[1]} tokens a text, the model has {config.max_position_embeddings} positions. "
            "Truncate the texts."
        )
    limits = {"token_ids": config.vocab_size, "segment_ids": config.type_vocab_size, "padding_mask": 2}
    for name, limit in limits.items():
        if features.get(name) is None:
            continue
        values = np.asarray(features[name])
        if values.shape != ids.shape:
            raise ValueError(f"`{name}` must have the shape of `token_ids`, {ids.shape}, got {values.shape}.")
        if values.size and not (0 <= values.min() and values.max() < limit):
            worst = values.max() if values.max() >= limit else values.min()
            raise ValueError(f"`{name}` must be from 0 to {limit - 1}, got {worst}.")
    given = {name: np.asarray(value) for name, value in features.items() if value is not None}
    return {"segment_ids": np.zeros_like(ids), "padding_mask": (ids != config.pad_token_id).astype("int32"), **given}


def _answers(bundle, features):
    """Gives one dict of arrays per text of a batch; per [MASK] for a masked language model."""
    mask_counts = None
    if "masked_positions" in bundle.model.input and "masked_positions" not in features:
        features, mask_counts = _with_masked_positions(features, bundle.tokenizer.mask_id)
    outputs = HEADS[bundle.head].answer(bundle.model.predict_on_batch(features))
    outputs = {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}
    for i in range(len(features["token_ids"])):
        row = {name: value[i] for name, value in outputs.items()}
        yield row if mask_counts is None else {name: value[: mask_counts[i]] for name, value in row.items()}


def _with_masked_positions(features, mask_id):
    is_mask = features["token_ids"] == mask_id
    counts = is_mask.sum(axis=1)
    positions = np.zeros((len(counts), max(1, counts.max(initial=0))), "int32")
    for row, where in zip(positions, is_mask, strict=True):
        found = np.flatnonzero(where)
        row[: len(found)] = found
    return {**features, "masked_positions": positions}, counts


def _features(bundle, texts, pairs, max_length):
    allowed = ("[MASK]",) if bundle.head == "masked_language_model" else ()
    return bundle.tokenizer(texts, pairs, max_length=max_length, allowed_special=allowed)


def checked_length(max_length, config):
    """Gives `max_length`, or for None all positions of the model; refuses anything else."""
    longest = config.max_position_embeddings
    if max_length is None:
        return longest
    if type(max_length) is not int or not 3 <= max_length <= longest:
        raise ValueError(f"`max_length` must be from 3 to the model's {longest} positions, got {max_length!r}.")
    return max_length


def _build(config, head, labels, options):
    encoder = build_encoder(config)
    if head is None:
        return encoder
    options = {**options, "num_classes": len(labels)} if HEADS[head].labelled else options
    return HEADS[head].build(encoder, **options)


def _tokenizer(folder):
    folder = huggingface.Path(folder)
    if (folder / "vocab.txt").is_file() or (folder / "tokenizer.json").is_file():
        return Tokenizer.from_folder(folder)
    return None


def _numbered_labels(folder, head):
    count = huggingface.stored_classes(folder)
    if count is None:
        raise ValueError(f"{folder} does not hold a {head}. A head that starts anew is asked for by `new_head`.")
    return [f"LABEL_{i}" for i in range(count)]


def _check_head(head, labels, options):
    if head is None:
        if options:
            raise ValueError(f"The bare encoder takes no options, got {', '.join(options)}.")
        return
    if head not in HEADS:
        raise ValueError(f"Unknown head `{head}`.{did_you_mean(head, HEADS)} Known: {', '.join(HEADS)}.")
    for name in options:
        if name not in HEADS[head].options:
            raise ValueError(f"`{head}` takes no option `{name}`.{did_you_mean(name, HEADS[head].options)}")
    if HEADS[head].labelled:
        if not labels or len(set(labels)) < max(2, len(labels)) or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"`{head}` needs at least two different labels as strings, got {labels!r}.")
    elif labels is not None:
        raise ValueError(f"`{head}` has no labels, got {labels!r}.")


def _check_vocabulary(tokenizer, config):
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"vocab.txt has {tokenizer.vocab_size} tokens, the embedding has {config.vocab_size} rows. "
            "Use the vocab.txt that came with these weights."
        )
