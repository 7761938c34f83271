"""A model with its tokenizer and labels: made anew, loaded from a folder, saved to one."""

import dataclasses
import functools

import keras

from keras_bert.checkpoint import huggingface, sources
from keras_bert.checkpoint.assign import weights_from
from keras_bert.checkpoint.positions import resized
from keras_bert.checkpoint.sentence_transformers import write_modules
from keras_bert.config import BertConfig, did_you_mean
from keras_bert.encoder import build_encoder
from keras_bert.files import replace_folder
from keras_bert.heads import HEADS, reads_pooler
from keras_bert.projections import without_adapters
from keras_bert.tokenization.folder import OtherTokenizer
from keras_bert.tokenization.host import HostTokenizer
from keras_bert.tokenization.loading import FILES, load_tokenizer
from keras_bert.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of every weight and key when a folder was loaded.

    Args:
        loaded: weight paths set from the file.
        fresh: weight paths that the file does not give; they start anew.
        unused: names in the file that belong to another head.
        ignored: keys of `config.json`, and things in the files, that were left out.
        spare_rows: rows of the token embedding without a token in the vocabulary; 0 without a tokenizer.
        no_tokenizer: why the bundle has no tokenizer, or None.
        new_positions: rows of the position table that were made from the file's, where a longer one was asked for.
    """

    loaded: list[str]
    fresh: list[str]
    unused: list[str]
    ignored: list[str]
    spare_rows: int
    no_tokenizer: str | None
    new_positions: int = 0


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A model and what belongs to it.

    Args:
        model: the `keras.Model` of `head`, or the bare encoder.
        tokenizer: a `Tokenizer`, a `HostTokenizer` for RoBERTa and ALBERT, or None where the folder has no vocabulary.
        head: key in `HEADS`, or None for the bare encoder.
        labels: list of str in the order of the classes, or None.
        report: what `load` did; None for a model made here.
        options: options of the head's function.
        max_length: tokens that texts are cut to where nothing else is asked for; None for all that the model has
            positions for.
    """

    model: keras.Model
    tokenizer: Tokenizer | HostTokenizer | None
    head: str | None
    labels: list[str] | None
    config: BertConfig
    report: Report | None = None
    options: dict = dataclasses.field(default_factory=dict)
    max_length: int | None = None


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


def load(folder, head=None, new_head=None, labels=None, max_position_embeddings=None, **options):
    """Loads a checkpoint of one of the kinds in `sources.SOURCES`, its head included.

    Args:
        folder: a Hugging Face or sentence-transformers folder with `config.json`, the weights and, for texts,
            `vocab.txt` or `tokenizer.json`; a folder or prefix of Google's or Model Garden's checkpoints; a SavedModel
            of TF Hub; a KerasHub preset; or a live `BertBackbone` or `BertTextClassifier`.
        head: key in `HEADS` that the file must hold, or "encoder" for the encoder alone; by default what it was written
            for, which is the sentence embedder where there is a modules.json.
        new_head: key in `HEADS` to start anew on the loaded encoder.
        labels: list of str; with `new_head` they give the number of classes, otherwise they rename the file's.
        max_position_embeddings: rows of the position table, if not those of the file: fewer, or more, which are made
            from the file's and counted in the report.
        options: options of the head's function, such as `pooling="cls"`.

    Returns:
        A `Bundle`; its `report` names what was loaded, fresh, unused and ignored.

    Raises:
        ValueError: something is missing, does not fit, or belongs to nothing known.
    """
    if head is not None and new_head is not None:
        raise ValueError(f"Give `head` (it must be in the file) or `new_head` (fresh), got {head!r} and {new_head!r}.")
    found = sources.read(folder)
    name = None if head == "encoder" else new_head or head or found.head
    as_stored = new_head is None and name == found.head
    if as_stored:
        options = {**found.options, **options}
    if name is not None and name in HEADS and HEADS[name].labelled and new_head is None:
        labels = labels or found.labels or _numbered_labels(found, name)
    _check_head(name, labels, options)
    config = found.config
    if name is not None and reads_pooler(name, config):
        config = dataclasses.replace(config, pooler=True)
    stored_rows = config.max_position_embeddings
    if max_position_embeddings is not None:
        config = dataclasses.replace(config, max_position_embeddings=max_position_embeddings)
    tokenizer, no_tokenizer = _tokenizer(found)
    _check_vocabulary(tokenizer, config)
    with weights_from() as start:
        model = _build(config, name, labels, options)
        paths = [weight.path for weight in model.weights]
        asked = [path for path in paths if new_head is None or not huggingface.is_head(config, path)]
        arrays, missing, unused = huggingface.find_arrays(found, name, config, asked)
        may_be_fresh = [path for path in missing if new_head is not None and path.startswith("pooler/")]
        if len(missing) > len(may_be_fresh):
            raise ValueError(
                f"{found.path} does not hold all of {name or 'the encoder'}: without an array are {missing}. "
                "A head that the file does not hold is asked for by `new_head`."
            )
        start(model, _with_positions(arrays, stored_rows, config))
    fresh = [path for path in paths if path not in arrays]
    spare = config.vocab_size - tokenizer.vocab_size if tokenizer else 0
    loaded = [path for path in paths if path not in fresh]
    new_positions = max(0, config.max_position_embeddings - stored_rows)
    report = Report(loaded, fresh, unused, found.ignored, spare, no_tokenizer, new_positions)
    length = found.modules.max_length if found.modules and as_stored else None
    max_length = min(length, config.max_length) if length else None
    return Bundle(model, tokenizer, name, labels, config, report, options, max_length)


def save(bundle, folder):
    """Writes the bundle as a Hugging Face folder, which `transformers` opens; an old folder is replaced whole.

    A sentence embedder's is also one of sentence-transformers. Adapters are merged into what is written;
    `lora.save_adapter` writes them by themselves.
    """
    weights = without_adapters({weight.path: weight for weight in bundle.model.weights}, bundle.config.lora)
    with replace_folder(folder) as temporary:
        if bundle.head == "sentence_embedder":
            weights = write_modules(temporary, bundle.config, bundle.options, bundle.max_length, weights)
        huggingface.write_folder(temporary, bundle.config, bundle.head, bundle.options, bundle.labels, weights)
        if bundle.tokenizer is not None:
            bundle.tokenizer.save(temporary)


def _with_positions(arrays, stored_rows, config):
    """Lets the position table have the config's rows where the file has its own."""
    path, rows = "embeddings/position_embeddings", config.max_position_embeddings
    shape, read = arrays[path]
    if shape[:1] != (stored_rows,) or rows == stored_rows:
        return arrays
    return {**arrays, path: ((rows, *shape[1:]), lambda: resized(read(), rows, config.position_offset))}


def _build(config, head, labels, options):
    encoder = build_encoder(config)
    if head is None:
        return encoder
    options = {**options, "num_classes": len(labels)} if HEADS[head].labelled else options
    return HEADS[head].build(encoder, **options)


def _tokenizer(found):
    """Gives the folder's tokenizer and None, or None and the reason: a model without one still takes ids."""
    folder = found.path
    make = found.tokenizer
    if make is None:
        if not any((folder / name).is_file() for name in FILES):
            return None, f"the folder has none of {', '.join(FILES)}."
        make = functools.partial(load_tokenizer, folder)
    try:
        tokenizer = make()
    except OtherTokenizer as error:
        return None, f"its tokenizer is not BERT's: {error}"
    if tokenizer is None:
        return None, f"{folder} has no vocabulary."
    if found.modules and found.modules.lowercase and not getattr(tokenizer, "lowercase", True):
        file = folder / "sentence_bert_config.json"
        raise ValueError(f"`do_lower_case` is true in {file}, but the tokenizer keeps case.")
    return tokenizer, None


def _numbered_labels(found, head):
    count = huggingface.stored_classes(found, head)
    if count is None:
        raise ValueError(f"{found.path} does not hold a {head}. A head that starts anew is asked for by `new_head`.")
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
        odd = next((label for label in labels if len(label.splitlines()) != 1 or not _is_text(label)), None)
        if odd is not None:  # labels.txt has one a line
            raise ValueError(f"A label must be one line of text, got {odd!r}.")
    elif labels is not None:
        raise ValueError(f"`{head}` has no labels, got {labels!r}.")


def _is_text(label):
    return not any("\ud800" <= char <= "\udfff" for char in label)


def _check_vocabulary(tokenizer, config):
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"vocab.txt has {tokenizer.vocab_size} tokens, the embedding has {config.vocab_size} rows. "
            "Use the vocab.txt that came with these weights."
        )
