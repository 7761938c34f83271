"""Recipe: a pretrained model and texts that belong together in, an embedder of texts out."""

import dataclasses
import time

import numpy as np

import keras_bert
from keras_bert.training.batches import predict_rows, steps_per_epoch, tokenize_examples, training_batches
from keras_bert.training.contrastive import CosineError, InBatchNegatives, siamese
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, prepared, read_splits, row_length
from keras_bert.training.metrics import pearson, ranking_metrics, spearman
from keras_bert.training.report import Evaluation
from keras_bert.training.text_groups import TextGroups, read_groups

USUAL_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Embed:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: pairs, triplets or scored pairs, as `read_groups` reads them. Scores are divided by the
            highest of `train`. Scored pairs learn their cosine; others to find their own text among those of the batch.
        positives: of scored pairs, such as those labelled 0 and 1, take those with the highest score as unscored pairs.
        pooling: what becomes of the token vectors, one of `head_layers.POOLINGS`; "" for the model's own, or mean.
        dimensions: leading dimensions that shall do as vectors by themselves, such as "64,128" (Matryoshka).
        anchor_column, positive_column, score_column: names or numbers of columns; "" for the usual names.
        batch_size: groups of a step; with unscored pairs, larger ones make the task harder and the vectors better.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    pooling: str = ""
    dimensions: str = ""
    positives: bool = False
    anchor_column: str = ""
    positive_column: str = ""
    score_column: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 1
    learning_rate: float = 3e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)
        widths_of(self)


def widths_of(config):
    """The `dimensions` as a tuple of int."""
    parts = [part.strip() for part in config.dimensions.split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"`dimensions` must be numbers parted by commas, got {config.dimensions!r}.")
    return tuple(int(part) for part in parts)


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "before", "dev" and "test", the scores of `scores_of`, "before" those of dev before
        training; "epochs", the logs of each; "kept_epoch", counted from 1; "truncated", how many training texts were
        cut; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, lambda path: read(config, path))
    scored = files["train"].scores is not None
    for name, groups in files.items():
        if (groups.scores is not None) != scored:
            raise ValueError(f"{groups.path} must have scores where {files['train'].path} has, and only there: {name}.")
    bundle, length = load_embedder(config)
    width, widths = bundle.model.output.shape[-1], widths_of(config)
    if any(part >= width for part in widths):
        raise ValueError(f"`dimensions` must be below the vectors' {width}, got {config.dimensions}.")
    rows = {name: group_rows(groups, bundle.tokenizer, length) for name, groups in files.items()}
    if scored:
        highest = max(map(abs, files["train"].scores)) or 1.0
        targets, loss = np.array(files["train"].scores, "float32") / highest, CosineError(widths)
    else:
        targets, loss = text_numbers(files["train"]), InBatchNegatives(dimensions=widths)
    data = training_batches(
        rows["train"], targets, batch_size=config.batch_size, seed=config.seed, epochs=config.epochs
    )

    models = {count: siamese(bundle.model, count) for count in {part.choices for part in rows.values()}}

    def score(name):
        return scores_of(files[name], np.stack(predict_rows(models[rows[name].choices], rows[name], 16)))

    before = {"before": score("dev")} if "dev" in files else {}
    epochs, kept = fit(
        config,
        models[rows["train"].choices],
        data,
        steps_per_epoch(rows["train"], config.batch_size),
        title="embed",
        loss=loss,
        score=(lambda: score("dev")) if "dev" in files else None,
        best="spearman" if scored else "mrr@10",
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "truncated": rows["train"].truncated}
    return finish(config, bundle, started, {**before, **found, **more})


def load_embedder(config):
    """Loads an embedder as it is, or makes one of any other model: the bundle, and the most tokens of a text."""
    bundle = keras_bert.load(config.model)
    if bundle.head != "sentence_embedder" or config.pooling:
        return load_for(config, "sentence_embedder", USUAL_LENGTH, pooling=config.pooling or "mean")
    return prepared(config, bundle, USUAL_LENGTH)


def read(config, path):
    """The groups of a file."""
    found = read_groups(path, config.anchor_column, config.positive_column, config.score_column)
    if not config.positives or found.scores is None:
        return found
    highest = max(found.scores)
    chosen = [group for group, score in zip(found.groups, found.scores, strict=True) if score == highest]
    return TextGroups(found.path, chosen, None)


def group_rows(groups, tokenizer, max_length):
    """`Rows` of N to a group."""
    return tokenize_examples(
        [text for group in groups.groups for text in group], None, tokenizer, max_length, len(groups.groups[0])
    )


def text_numbers(groups):
    """A number for each different text beside the anchors: (n, N - 1) int32."""
    numbers = {}
    rows = [[numbers.setdefault(text, len(numbers)) for text in group[1:]] for group in groups.groups]
    return np.array(rows, "int32")


def scores_of(groups, vectors):
    """Scores vectors (n, N, D): "spearman" and "pearson" of cosines, or how well anchors find their own text.

    Without scores, the ranking is over all different texts of the file that are no anchors.
    """
    if groups.scores is not None:
        cosines = np.sum(unit(vectors[:, 0]) * unit(vectors[:, 1]), axis=-1)
        found = {"spearman": spearman(groups.scores, cosines), "pearson": pearson(groups.scores, cosines)}
        return {"examples": len(groups)} | {name: round(value, 4) for name, value in found.items()}
    numbers, cosines = nearness(groups, vectors)
    rankings = np.argsort(-cosines, axis=1, kind="stable")
    return ranking_metrics(rankings, [{number: 1.0} for number in numbers[:, 0].tolist()])


def nearness(groups, vectors):
    """`text_numbers`, and the cosines (n, M) of the anchors with the texts of these numbers, in their order."""
    numbers = text_numbers(groups)
    _, first = np.unique(numbers, return_index=True)
    return numbers, unit(vectors[:, 0]) @ unit(vectors[:, 1:].reshape(-1, vectors.shape[-1])[first]).T


def unit(vectors):
    """Divides by the L2 norm."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def evaluate(config, bundle, path):
    """Scores a model on a file of groups: an `Evaluation`, whose errors are anchors that another text is nearer to."""
    groups = read(config, path)
    length = row_length(config, bundle, USUAL_LENGTH)
    rows = group_rows(groups, bundle.tokenizer, length)
    vectors = np.stack(predict_rows(siamese(bundle.model, rows.choices), rows, 16))
    errors = []
    if groups.scores is None:
        numbers, cosines = nearness(groups, vectors)
        texts = list(dict.fromkeys(text for group in groups.groups for text in group[1:]))  # in order of their numbers
        for group, own, row in zip(groups.groups, numbers[:, 0], cosines, strict=True):
            nearest = int(row.argmax())
            if nearest != own:
                shown = {"anchor": group[0], "right": group[1], "nearest": texts[nearest]}
                errors.append(shown | {"score": row[nearest] - row[own]})
        errors.sort(key=lambda row: -row["score"])
    return Evaluation(scores_of(groups, vectors), errors)
