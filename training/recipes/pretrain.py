"""Recipe: text in, a BERT pretrained with masked words out; from scratch, or from a model that goes on learning."""

import contextlib
import dataclasses
import json
import math
import shutil
import sys
import time
from pathlib import Path

import keras

import keras_bert
from keras_bert.files import check_replaceable
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.distribution import prepare
from keras_bert.training.journal import EVENTS, LOG, Journal, Reports, log_interval, read_log
from keras_bert.training.masking import BERT_SHARES, ELECTRA_SHARES
from keras_bert.training.metrics import wilson_interval
from keras_bert.training.optimization import adamw, print_decay, warmup_linear
from keras_bert.training.pairs import TASKS
from keras_bert.training.phases import EVENLY, Phase, phases_of, report_steps
from keras_bert.training.precision import PRECISIONS, precision
from keras_bert.training.pretraining_batches import MASKINGS, PAIRINGS, check_choice, pretraining_pipeline
from keras_bert.training.pretraining_corpus import PYTHON_DOCS, read_pretraining_corpus
from keras_bert.training.pretraining_models import GENERATOR, WATCHED, bundles, masked_words, replaced_tokens_of
from keras_bert.training.progress import ProgressBar
from keras_bert.training.report import draw_curves, has_plots
from keras_bert.training.run_folder import earlier_run, folder_beside, resumed, write_run
from keras_bert.training.similar_words import similar_words
from keras_bert.training.strategies import STRATEGIES, check_batch_size, is_chief, strategy
from keras_bert.training.timing import step_seconds
from keras_bert.training.vocabulary import train_vocab

OBJECTIVES = ("masked_words", "replaced_tokens")
TIMED_STEPS = 12
TRAINING_SHARE = 0.9  # of the time left; the rest is for the held-out documents and for saving
EVALUATED = 200  # batches, the most of an evaluation
HELD_OUT_SEED = 0  # of pairs and masks that are evaluated on, whatever the run's seed: so runs can be compared
RATES = {"fresh": 1.5e-3, "loaded": 5e-5}
SETTINGS, CURVES = "run.json", "curves.png"


@dataclasses.dataclass(frozen=True)
class Pretrain:
    """What to pretrain on and how.

    Args:
        out: folder to write: the model, and beside its files `metrics.json`, `run.json` (these settings), `log.jsonl`,
            `tensorboard` and, with matplotlib, `curves.png`; of replaced tokens the detector, and `generator` in it.
        corpus: "python-docs", the documentation inside Python, or text files: one path or a tuple of them; or a folder
            that `prepare` wrote, whose tokenizer and words are then used in place of `vocab_size`, `lowercase` and
            `segmenter`.
        held_out: such a source to evaluate on; "" holds a tenth of `corpus` out.
        model: folder or hub id of a model to go on from, with its vocabulary, sizes, dropout and heads; "" for a new
            one. A position table that is too short grows.
        new_words: file with words, one a line, to add to the vocabulary of `model`.
        vocab_size: the most tokens to train; a small corpus may give fewer.
        max_length: T, tokens of a row.
        long_length: T of a second phase, 0 for none; BERT has 128 and then 512.
        long_share: share of the steps that the second phase takes.
        steps: batches to train on; 0 takes as many as fit into `minutes` on this machine.
        learning_rate: its peak, after a tenth of the steps; 0 takes 1.5e-3, and 5e-5 with `model`.
        dropout: of hidden states and attention.
        objective: "masked_words"; or "replaced_tokens", as ELECTRA learns.
        generator_share: width of ELECTRA's generator as a share of the detector's.
        pairing: "next_sentence"; "sentence_order" as in ALBERT; or rows without pairs, "full_sentences" as in RoBERTa
            or "single_documents".
        row_sequences: the most examples to pack into a row; 1 for no packing.
        masking: "tokens"; "words", whole ones, of which Chinese text has only characters without a `segmenter`; or
            "spans" of one to four words.
        rate: share of the tokens to mask.
        similar: file with similar words, to stand in place of masked ones as in MacBERT: a word, a tab, the others.
        short_probability: share of the pairs that fill a random part of the row only.
        segmenter: what finds words in Chinese text for masking: "jieba", or "spaces" where they part the words.
        seed: decides the start, the pairs, the masks and their order.
        strategy: "none"; "mirrored", all GPUs of this machine; "multi_worker", as `TF_CONFIG` says; "tpu", untested.
            `batch_size` is that of all devices together.
        precision: "float32", "bfloat16" or "float16".
        accumulate: how many parts each device makes of its share of a batch, one after the other, to need less memory.
        rematerialize: whether encoder blocks are computed again in the backward pass, to need less memory.
        xla: whether the step is compiled by XLA; False leaves it to Keras, which does so on a single GPU.
        checkpoint_every: steps between checkpoints, in a folder beside `out` that is removed at the end; 0 for none.
        resume: whether to go on from these checkpoints, where there are some.
    """

    out: str
    corpus: str | tuple[str, ...] = PYTHON_DOCS
    held_out: str | tuple[str, ...] = ""
    model: str = ""
    new_words: str = ""
    vocab_size: int = 4096
    lowercase: bool = True
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    max_length: int = 64
    long_length: int = 0
    long_share: float = 0.1
    batch_size: int = 32
    minutes: float = 2.0
    steps: int = 0
    learning_rate: float = 0.0
    dropout: float = 0.1
    objective: str = OBJECTIVES[0]
    generator_share: float = 0.25
    pairing: str = "next_sentence"
    row_sequences: int = 1
    masking: str = "tokens"
    rate: float = 0.15
    similar: str = ""
    short_probability: float = 0.1
    segmenter: str | None = None
    seed: int = 0
    strategy: str = "none"
    precision: str = "float32"
    accumulate: int = 1
    rematerialize: bool = False
    xla: bool = False
    checkpoint_every: int = 1000
    resume: bool = False

    def __post_init__(self):
        for name in ("vocab_size", "max_length", "batch_size", "minutes", "accumulate", "row_sequences"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")
        choices = {"objective": OBJECTIVES, "pairing": PAIRINGS, "masking": MASKINGS}
        for name, known in (choices | {"strategy": STRATEGIES, "precision": PRECISIONS}).items():
            check_choice(name, getattr(self, name), known)
        for name in ("rate", "long_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be between 0 and 1, got {getattr(self, name)}.")
        if not 0 < self.generator_share <= 1:
            raise ValueError(f"`generator_share` must be above 0 and at most 1, got {self.generator_share}.")
        for name in ("steps", "learning_rate", "checkpoint_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must be at least 0, got {getattr(self, name)}.")
        if self.long_length and self.long_length <= self.max_length:
            raise ValueError(f"`long_length` must be over `max_length`, {self.max_length}, got {self.long_length}.")
        if self.similar and self.masking == "tokens":
            raise ValueError("`similar` needs `masking` to be words or spans, got tokens.")
        if self.new_words and not self.model:
            raise ValueError("`new_words` needs `model`, whose vocabulary grows; a new one is trained on the corpus.")
        if self.replaces and (self.pairs or self.row_sequences > 1 or self.similar):
            raise ValueError(
                "`objective` replaced_tokens needs `pairing` full_sentences or single_documents, `row_sequences` 1 and "
                f"no `similar`, got {self.pairing}, {self.row_sequences} and {self.similar!r}."
            )
        if self.replaces and self.new_words:
            raise ValueError("`new_words` goes with `objective` masked_words, got replaced_tokens.")
        if self.strategy == "multi_worker" and not self.steps:
            raise ValueError("`steps` must be given with `multi_worker`: each worker would count its own.")
        if self.resume and not self.checkpoint_every:
            raise ValueError("`resume` needs `checkpoint_every`, got 0.")

    @property
    def replaces(self):
        return self.objective == "replaced_tokens"

    @property
    def pairs(self):
        return self.pairing in TASKS

    @property
    def lengths(self):
        """T of each phase."""
        return (self.max_length, self.long_length) if self.long_length else (self.max_length,)


def run(config):
    """Trains, evaluates on held-out documents along the way, and writes the model with its metrics.

    Returns:
        dict, as in `metrics.json`: "steps", "seconds", "vocab_size", "documents", "held_out_documents"; "before" and
        "after", the results on the held-out documents, NSP accuracy with its 95% interval; "curve", the same results
        and the training losses along the way; "traces", how often the steps were traced.
    """
    started = time.monotonic()
    if config.model and Path(config.out).resolve() == Path(config.model).resolve():
        raise ValueError(f"`out` must be another folder than `model`, got {config.out} for both.")
    devices = strategy(config.strategy)
    check_batch_size(config.batch_size, devices, config.accumulate)
    check_replaceable(config.out)
    so_far = earlier_run(config)
    texts = read_pretraining_corpus(
        config.corpus,
        config.held_out,
        tokenizer=bundles(config, None)[0].tokenizer if config.model else None,
        segmenter=config.segmenter,
        make_tokenizer=lambda sentences: Tokenizer(
            train_vocab(sentences, config.vocab_size, config.lowercase), lowercase=config.lowercase
        ),
    )
    similar = similar_words(config.similar, texts.tokenizer) if config.similar else None
    learned = pipelines(config, texts.train, texts.tokenizer, similar, config.seed)
    seconds = 60 * config.minutes - (time.monotonic() - started)
    steps = config.steps or so_far.get("steps") or steps_in(seconds, config, devices, texts.tokenizer, learned)
    phases = phases_of(steps, config.lengths, config.long_share)
    trained, model = compiled(config, devices, texts.tokenizer, steps)
    chief = is_chief(devices)
    if chief:
        print_decay(model)
        if not has_plots():
            print(f'{CURVES} will be missing, it needs matplotlib: pip install "keras3-bert[plot]".', file=sys.stderr)
    checkpoints, first = resumed(config, model, so_far)
    unseen = pipelines(config, texts.held, texts.tokenizer, similar, HELD_OUT_SEED)
    held = {length: held_batches(unseen[length], trained) for length in config.lengths}

    def evaluate(length):
        return named(model.evaluate(held[length], verbose=0, return_dict=True), trained.tasks)

    if not so_far:
        so_far |= {"steps": steps, "before": evaluate(config.max_length), "curve": []}
    curve = so_far["curve"]
    fit(config, trained, model, learned, phases, first, evaluate, curve, checkpoints, chief)
    metrics = {
        "config": dataclasses.asdict(config),
        "steps": steps,
        "vocab_size": texts.tokenizer.vocab_size,
        "documents": len(texts.train.document_starts) - 1,
        "held_out_documents": sorted(texts.held_names),
        **results(so_far["before"], curve, held[config.lengths[-1]]),
        "curve": curve,
        "traces": model.traces,
        "seconds": round(time.monotonic() - started, 1),
    }
    if chief:
        write_run(trained.bundle, metrics, config.out, lambda folder: add_records(config, trained, curve, folder))
        shutil.rmtree(folder_beside(config.out), ignore_errors=True)
    return metrics


def compiled(config, devices, tokenizer, steps):
    """What is trained, and its model prepared for `devices`, with its optimizer; it starts alike each time."""
    keras.utils.set_random_seed(config.seed)
    with devices.scope(), precision(config.precision):
        bundle, generator = bundles(config, tokenizer)
        if generator is None:
            trained = masked_words(bundle, config.pairs, config.row_sequences > 1)
        else:
            trained = replaced_tokens_of(bundle, generator, config.seed)
        model = prepare(trained.model, config.accumulate, config.rematerialize, WATCHED)
        rate = config.learning_rate or RATES["loaded" if config.model else "fresh"]
        optimizer = adamw(warmup_linear(rate, steps // 10, steps))
        model.compile(optimizer, jit_compile=config.xla or "auto", **trained.objectives)
    return trained, model


def pipelines(config, documents, tokenizer, similar, seed):
    """The `Pipeline` of each length of rows, by length. A corpus is read through to make one."""
    return {
        length: pretraining_pipeline(
            documents,
            tokenizer,
            max_length=length,
            batch_size=config.batch_size,
            max_predictions=math.ceil(config.rate * length),
            seed=seed,
            pairing=config.pairing,
            masking=config.masking,
            rate=config.rate,
            shares=ELECTRA_SHARES if config.replaces else BERT_SHARES,
            similar=similar,
            short_probability=config.short_probability,
            row_sequences=config.row_sequences,
        )
        for length in config.lengths
    }


def batches(learned, trained, phase, start):
    """The batches of a phase from step `start` on."""
    found = learned[phase.max_length].batches(phase.end - phase.first, start - phase.first)
    return found.map(trained.targets)


def held_batches(pipeline, trained):
    """What is evaluated on: one epoch, the same pairs and masks each time and in every run.

    They are made again each time: TensorFlow's cache can be cut short by an iterator that is left, see `Prepared`.
    """
    return pipeline.batches().take(EVALUATED).map(trained.targets)


def steps_in(seconds, config, devices, tokenizer, learned):
    """How many steps fit into the time, a multiple of the reports: tried with a model that is then thrown away.

    The number of steps is fixed before training, so that the learning rate reaches its end, and the run can be made
    again by giving `steps`.
    """
    started = time.monotonic()
    trained, model = compiled(config, devices, tokenizer, TIMED_STEPS)
    shares = (1 - config.long_share, config.long_share) if config.long_length else (1.0,)
    step = start_up = 0.0
    for length, share in zip(config.lengths, shares, strict=True):
        data = batches(learned, trained, Phase(length, 0, TIMED_STEPS), 0)
        before, one = step_seconds(model, data, TIMED_STEPS)
        step += share * one
        start_up += 1.5 * before  # to come: the real model is built and traced, for evaluation too
    left = seconds - (time.monotonic() - started) - start_up
    return max(1, int(left * TRAINING_SHARE / step / EVENLY)) * EVENLY


def fit(config, trained, model, learned, phases, first, evaluate, curve, checkpoints, chief):
    """Trains from step `first` on through all phases, and adds to the curve and to the log beside the checkpoints."""
    steps = phases[-1].end
    titles = {f"{task}_logits_cross_entropy": f"{task} loss" for task in trained.tasks}
    titles |= {"cross_entropy": "mlm loss"}  # what Keras calls it where there is but one output
    at, every = report_steps(steps, phases), log_interval(steps)
    journal = Journal(folder_beside(config.out) if chief else None, first)
    with contextlib.closing(journal), ProgressBar(steps, "pretrain", titles, done=first, shown=chief) as bar:
        for phase in phases:
            start = max(first, phase.first)
            if start >= phase.end:
                continue
            reports = Reports(
                journal,
                lambda length=phase.max_length: evaluate(length),
                lambda logs: named(logs, trained.tasks),
                at=at,
                every=every,
                first=start,
                curve=curve,
            )
            model.fit(
                batches(learned, trained, phase, start),
                steps_per_epoch=phase.end - start,
                callbacks=[bar, reports, *checkpoints],
                shuffle=False,
                verbose=0,
            )


def named(logs, tasks):
    """Keras's logs of losses and accuracies under short names."""
    found = {}
    for task in tasks:
        for name, log in (("loss", "cross_entropy"), ("accuracy", "accuracy")):
            key = f"{task}_logits_{log}"
            found[f"{task}_{name}"] = round(float(logs[key if key in logs else log]), 4)
    return found


def results(before, curve, held):
    """What the held-out documents showed at first and at last; of pairs their number, and an interval."""
    after = curve[-1]["held_out"]
    found = {"before": before, "after": dict(after)}
    if "nsp_accuracy" in after:
        pairs = int(sum(weights["nsp_logits"].numpy().sum() for _, _, weights in held))
        found["held_out_pairs"] = pairs
        found["after"]["nsp_interval"] = wilson_interval(after["nsp_accuracy"], pairs)
    return found


def add_records(config, trained, curve, folder):
    """Writes into the model's folder what the run has left beside its checkpoints, its settings and its curves."""
    kept = folder_beside(config.out)
    shutil.copy(kept / LOG, folder / LOG)
    shutil.copytree(kept / EVENTS, folder / EVENTS)
    text = json.dumps(dataclasses.asdict(config), indent=2, ensure_ascii=False) + "\n"
    (folder / SETTINGS).write_text(text, encoding="utf-8")
    if has_plots():
        draw_curves(read_log(folder / LOG), curve, folder / CURVES)
    if trained.generator is not None:
        keras_bert.save(trained.generator, folder / GENERATOR)
