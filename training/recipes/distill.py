"""Recipe: a model and texts in, a smaller one out that has learnt from it."""

import dataclasses
import math
import shutil
import time
from pathlib import Path

import keras
import numpy as np

import keras_bert
from keras_bert.files import check_replaceable
from keras_bert.training.batches import predict_rows, steps_per_epoch, tokenize_examples, training_batches
from keras_bert.training.distillation import (
    METHODS,
    distillation_objectives,
    distillation_targets,
    distiller,
    layer_map,
    student_of,
)
from keras_bert.training.distribution import prepare
from keras_bert.training.examples import label_ids, read_examples
from keras_bert.training.fine_tuning import finish, fit, read_splits, row_length
from keras_bert.training.losses import masked_metrics
from keras_bert.training.optimization import adamw, print_decay, warmup_linear
from keras_bert.training.precision import PRECISIONS, precision
from keras_bert.training.pretraining_batches import check_choice, pretraining_batches
from keras_bert.training.pretraining_corpus import read_pretraining_corpus
from keras_bert.training.progress import ProgressBar
from keras_bert.training.recipes.classify import USUAL_LENGTH, scores_of
from keras_bert.training.run_folder import earlier_run, folder_beside, resumed
from keras_bert.training.strategies import STRATEGIES, check_batch_size, is_chief, strategy

CLASSIFIER, MASKED = "sequence_classifier", "masked_language_model"
USUAL = {CLASSIFIER: "task", MASKED: "distilbert"}  # methods by the teacher's head; of others "minilm"
RATE = 0.15  # share of the tokens to mask


@dataclasses.dataclass(frozen=True)
class Distill:
    """What to distil and how.

    Args:
        teacher: folder of the model to learn from. A classifier teaches on labelled files, any other model on text.
        train: labelled .tsv, .csv or .jsonl, whose labels are the teacher's; or a corpus: "python-docs", a text file,
            or a folder that `prepare` wrote with the teacher's vocabulary.
        out: folder to write: the student, and `metrics.json` beside its files.
        dev, test: labelled files, as in `Classify`; of a corpus a part is held out instead.
        student: folder of a smaller pretrained model with the teacher's vocabulary; without one the student begins with
            blocks of the teacher.
        layers: how many blocks, evenly spread, where there is no `student`; 0 for half of them.
        method: one of `METHODS`; "" for "task" with a classifier, "distilbert" with a model of masked words, else
            "minilm".
        temperature: of soft targets.
        relation_heads: as in `distiller`; 0 for the teacher's number.
        max_length: T; 0 takes 128, or all that the model has positions for.
        epochs: over a labelled file.
        steps: batches of a corpus.
        learning_rate: its peak, after a tenth of the steps.
        strategy, precision, checkpoint_every, resume: as in `Pretrain`; with a labelled file, `precision` alone.
        seed: decides the batches, masks and dropout.
    """

    teacher: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    student: str = ""
    layers: int = 0
    method: str = ""
    temperature: float = 2.0
    relation_heads: int = 0
    text_column: str = ""
    pair_column: str = ""
    label_column: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 3
    steps: int = 1000
    learning_rate: float = 5e-5
    strategy: str = "none"
    precision: str = "float32"
    checkpoint_every: int = 1000
    resume: bool = False
    seed: int = 0

    def __post_init__(self):
        for name in ("teacher", "train", "out"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must be given, got ''.")
        for name in ("layers", "relation_heads", "max_length", "checkpoint_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must be at least 0, got {getattr(self, name)}.")
        for name in ("batch_size", "epochs", "steps", "learning_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")
        check_choice("method", self.method, ("", *METHODS))
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("precision", self.precision, PRECISIONS)
        if self.resume and not self.checkpoint_every:
            raise ValueError("`resume` needs `checkpoint_every`, got 0.")

    @property
    def model(self):
        """The folder that must not be written to."""
        return self.teacher

    @property
    def patience(self):
        """All epochs are run."""
        return 0


def run(config):
    """Trains the student and writes it, with its metrics.

    Returns:
        dict, as in `metrics.json`: "method", "layers" (the teacher's block for each of the student's), "parameters" of
        teacher and student, "seconds"; from labelled files also "teacher", its scores, and what `Classify` gives of the
        student; from a corpus "before" and "after", losses on the held-out documents, with the accuracy on masked words
        where the method has "labels".
    """
    started = time.monotonic()
    if Path(config.out).resolve() == Path(config.teacher).resolve():
        raise ValueError(f"`out` must be another folder than `teacher`, got {config.out} for both.")
    check_replaceable(config.out)
    keras.utils.set_random_seed(config.seed)
    devices = strategy(config.strategy)
    with devices.scope(), precision(config.precision):
        teacher, student, layers = models(config)
        method = config.method or USUAL.get(teacher.head, "minilm")
        check_method(config, method, teacher)
        model = distiller(
            student.model,
            teacher.model,
            METHODS[method],
            layers,
            config.temperature,
            config.relation_heads or None,
        )
    length = row_length(config, student, USUAL_LENGTH)
    learn = learn_from_labels if teacher.head == CLASSIFIER else learn_from_corpus
    found = learn(config, devices, teacher, student, model, METHODS[method], length)
    count = {"teacher": teacher.model.count_params(), "student": student.model.count_params()}
    metrics = {"method": method, "layers": list(layers), "parameters": count, **found}
    if not is_chief(devices):
        return metrics
    metrics = finish(config, student, started, metrics)
    shutil.rmtree(folder_beside(config.out), ignore_errors=True)
    return metrics


def models(config):
    """The teacher, the student, and the teacher's block for each of the student's."""
    teacher = keras_bert.load(config.teacher)
    if teacher.head == "pretraining_model":
        teacher = keras_bert.load(config.teacher, head=MASKED)
    if teacher.tokenizer is None:
        raise ValueError(f"{config.teacher} must hold vocab.txt or tokenizer.json, got neither.")
    depth = teacher.config.num_hidden_layers
    if config.student:
        if teacher.head == CLASSIFIER:
            student = keras_bert.load(config.student, new_head=CLASSIFIER, labels=teacher.labels)
        else:
            student = keras_bert.load(config.student, head=teacher.head or "encoder")
        if student.tokenizer is None or student.tokenizer.get_config() != teacher.tokenizer.get_config():
            raise ValueError(f"{config.student} must have the tokenizer of {config.teacher}, but has another.")
        return teacher, student, layer_map(student.config.num_hidden_layers, depth)
    count = config.layers or max(1, depth // 2)
    if count > depth:
        raise ValueError(f"`layers` must be at most the teacher's {depth}, got {count}.")
    layers = layer_map(count, depth)
    return teacher, student_of(teacher, layers), layers


def check_method(config, method, teacher):
    """Refuses a method that the teacher's head has no answers for, and settings that its data does not go with."""
    if "soft" in METHODS[method] and USUAL.get(teacher.head) is None:
        raise ValueError(
            f"`method` {method} needs a teacher of {CLASSIFIER} or {MASKED}, got {teacher.head}. "
            "Use minilm or tinybert."
        )
    if teacher.head == CLASSIFIER:
        if teacher.options.get("multi_label"):
            raise ValueError("The teacher must give one label a text; this one gives several.")
        if config.strategy != "none" or config.resume:
            raise ValueError("`strategy` and `resume` go with a corpus; a labelled file is learnt from on one device.")
    elif config.dev or config.test:
        raise ValueError(f"`dev` and `test` go with a classifier as teacher, got {teacher.head}.")


def learn_from_labels(config, _, teacher, student, model, weights, length):
    """Trains on a labelled file, and scores both on the others."""
    columns = (config.text_column, config.pair_column, config.label_column)
    files = read_splits(config, lambda path: read_examples(path, *columns))
    targets = {name: np.array(label_ids(e, teacher.labels), "int32") for name, e in files.items()}
    rows = {name: tokenize_examples(e.texts, e.pairs, student.tokenizer, length) for name, e in files.items()}
    data = training_batches(
        rows["train"], targets["train"], batch_size=config.batch_size, seed=config.seed, epochs=config.epochs
    )

    def score(bundle, name):
        return scores_of("single", targets[name], np.stack(predict_rows(bundle.model, rows[name])), bundle.labels)

    epochs, kept = fit(
        config,
        model,
        data.map(distillation_targets(weights)),
        steps_per_epoch(rows["train"], config.batch_size),
        title="distill",
        score=(lambda: score(student, "dev")) if config.dev else None,
        best="accuracy",
        **distillation_objectives(weights),
    )
    scored = [name for name in files if name != "train"]
    return {
        "labels": student.labels,
        "teacher": {name: score(teacher, name) for name in scored},
        **{name: score(student, name) for name in scored},
        "epochs": epochs,
        "kept_epoch": kept,
        "truncated": rows["train"].truncated,
    }


def learn_from_corpus(config, devices, _, student, model, weights, length):
    """Trains on masked text, and evaluates on held-out documents."""
    check_batch_size(config.batch_size, devices)
    so_far = earlier_run(config)
    texts = read_pretraining_corpus(config.train, tokenizer=student.tokenizer)
    with devices.scope(), precision(config.precision):
        model = prepare(model)
        model.compile(
            adamw(warmup_linear(config.learning_rate, config.steps // 10, config.steps)),
            weighted_metrics={"labels": masked_metrics()} if "labels" in weights else None,
            **distillation_objectives(weights),
        )
    if is_chief(devices):
        print_decay(model)
    targets = distillation_targets(weights)

    def batches(documents, **steps):
        data = pretraining_batches(
            documents,
            student.tokenizer,
            max_length=length,
            batch_size=config.batch_size,
            max_predictions=math.ceil(RATE * length),
            seed=config.seed,
            pairing="full_sentences",
            rate=RATE,
            **steps,
        )
        return data.map(lambda x, y, w: targets({name: x[name] for name in student.model.input}, y, w))

    held = batches(texts.held)
    checkpoints, first = resumed(config, model, so_far)
    if not so_far:
        so_far["before"] = rounded(model.evaluate(held, verbose=0, return_dict=True))
    with ProgressBar(config.steps, "distill", {"loss": "loss"}, done=first, shown=is_chief(devices)) as bar:
        if first < config.steps:
            model.fit(
                batches(texts.train, steps=config.steps, start=first),
                steps_per_epoch=config.steps - first,
                callbacks=[bar, *checkpoints],
                shuffle=False,
                verbose=0,
            )
    return {"before": so_far["before"], "after": rounded(model.evaluate(held, verbose=0, return_dict=True))}


def rounded(logs):
    return {name: round(float(value), 4) for name, value in logs.items()}
