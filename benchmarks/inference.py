"""Classifying at MiniLM size, side by side: ours in its formats, KerasHub, transformers (torch); equal weights.

Beside it `predict` on texts of mixed length, against the same texts padded to all positions.
"""

import tempfile

import numpy as np
import tensorflow as tf

import keras_bert
from benchmarks import THREADS, data, report
from benchmarks.rounds import Contestant, interleaved, medians, prepared
from benchmarks.training import Sizes
from keras_bert.export import export

TITLE, OF_TEXTS = "Inference", "Predicting texts"
SHAPES = {(1, 32): 30, (32, 128): 2}  # (B, T) -> calls in a round
LABELS = ["negative", "positive"]


def new_model(sizes, folder):
    """Writes a classifier with random weights as a Hugging Face folder, for all contestants."""
    config = keras_bert.BertConfig(**sizes.config(), initializer_range=0.08)  # wide, so that a difference shows
    keras_bert.save(keras_bert.create(config, None, "sequence_classifier", LABELS), folder)


def ours(folder):
    model = keras_bert.load(folder).model
    spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in model.input}
    function = tf.function(lambda x: model(x, training=False), [spec], autograph=False)
    return lambda x: function({name: tf.constant(ids) for name, ids in x.items()}).numpy()


def saved_model(folder):
    made = f"{folder}/served"
    export(keras_bert.load(folder), made, format="saved_model")
    signature = tf.saved_model.load(made).signatures["serving_ids"]
    return lambda x: signature(**{name: tf.constant(ids) for name, ids in x.items()})["logits"].numpy()


def onnx(folder):
    import onnxruntime

    made = f"{folder}/onnx"
    export(keras_bert.load(folder), made, format="onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as for torch: OMP_WAIT_POLICY
    session = onnxruntime.InferenceSession(f"{made}/model.onnx", options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(["logits"], {name: ids.astype("int64") for name, ids in x.items()})[0]


def keras_hub(folder):
    """KerasHub loads the encoder from the folder; the head, which it does not, is set by hand."""
    import keras_hub

    backbone = keras_hub.models.BertBackbone.from_preset(folder)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=len(LABELS))
    mine = keras_bert.load(folder).model.get_layer("logits")
    model.get_layer("logits").set_weights(mine.get_weights())
    spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in model.input}
    function = tf.function(lambda x: model(x, training=False), [spec], autograph=False)
    return lambda x: function({name: tf.constant(ids) for name, ids in x.items()}).numpy()


def transformers_torch(folder):
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}

    def run(x):
        with torch.inference_mode():
            return model(**{names[name]: torch.from_numpy(ids).long() for name, ids in x.items()}).logits.numpy()

    return run


CONTESTANTS = (
    Contestant("ours: tf.function", "keras_bert", ours),
    Contestant("ours: SavedModel", "keras_bert", saved_model),
    Contestant("ours: ONNX Runtime", "onnxruntime", onnx),
    Contestant("KerasHub: tf.function", "keras_hub", keras_hub),
    Contestant("transformers: torch", "transformers", transformers_torch),
)


def features(sizes, batch, length):
    """Random ids without padding."""
    ids = np.random.default_rng(0).integers(0, sizes.vocab_size, (batch, length), "int32")
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}


def repeated(run, x, times):
    def runs():
        for _ in range(times):
            run(x)

    return runs


def inference(sizes, rounds, shapes=SHAPES):
    """Rows: largest difference from the first contestant, then for each shape milliseconds a call, by clock and CPU."""
    with tempfile.TemporaryDirectory() as folder:
        new_model(sizes, f"{folder}/model")
        runs = prepared(CONTESTANTS, f"{folder}/model")
    rows = {name: [name] for name in runs}
    x = features(sizes, 3, 32)
    first = next(iter(runs.values()))(x)
    for name, run in runs.items():
        rows[name].append(f"{np.max(np.abs(run(x) - first)):.0e}")
    columns = ["model", "largest difference"]
    for (batch, length), times in shapes.items():
        x = features(sizes, batch, length)
        found = medians(interleaved({name: repeated(run, x, times) for name, run in runs.items()}, rounds))
        columns += [f"ms at ({batch}, {length})", "CPU ms"]
        for name, timing in found.items():
            rows[name] += [f"{1000 * seconds / times:.1f}" for seconds in timing]
    title = (
        f"Classifier, {sizes.num_hidden_layers} layers of {sizes.hidden_size}, equal weights, ids in, float32, "
        f"{THREADS} threads, median of {rounds} rounds"
    )
    return report.Table(title, tuple(columns), [tuple(row) for row in rows.values()])


def mixed_texts(count, seed=0):
    """Texts of 4 to 400 words, as many of each order of magnitude: list of str."""
    words, rng = " ".join(data.lines("en", 1.0)).split(), np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(4), np.log(400), count)).astype(int)
    starts = rng.integers(0, len(words) - 400, count)
    return [" ".join(words[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def predicting(sizes, vocab, texts, rounds):
    """Rows: `predict`, and all texts padded to the model's positions; seconds by the clock and of the cores."""
    config = keras_bert.BertConfig(**sizes.config(), initializer_range=0.08)
    length, batch = config.max_length, sizes.batch_size
    bundle = keras_bert.create(config, keras_bert.Tokenizer.from_vocab(vocab), "sequence_classifier", LABELS)

    def by_length():
        found = keras_bert.predict(bundle, texts, batch_size=batch)
        return np.array([[row["probabilities"][label] for label in LABELS] for row in found])

    def padded():
        parts = []
        for start in range(0, len(texts), batch):
            ids = bundle.tokenizer(texts[start : start + batch], max_length=length)
            missing = length - ids["token_ids"].shape[1]
            ids = {name: np.pad(values, ((0, 0), (0, missing))) for name, values in ids.items()}  # the pad id is 0
            parts.append(bundle.model.predict_on_batch(ids))
        powers = np.exp(np.concatenate(parts))
        return powers / powers.sum(axis=1, keepdims=True)

    difference = np.max(np.abs(by_length() - padded()))
    slow = f"padded to {length}"
    found = medians(interleaved({"predict, by length": by_length, slow: padded}, rounds))
    rows = [
        (name, f"{seconds.wall:.2f}", f"{seconds.cpu:.2f}", f"{found[slow].wall / seconds.wall:.2f}")
        for name, seconds in found.items()
    ]
    tokens = np.sort(bundle.tokenizer(texts, max_length=length)["padding_mask"].sum(axis=1))
    title = (
        f"Classifier, {sizes.num_hidden_layers} layers of {sizes.hidden_size}, {len(texts)} texts of {tokens[0]} to "
        f"{tokens[-1]} tokens, half of them under {tokens[len(tokens) // 2]}, batches of {batch}, {THREADS} threads, "
        f"median of {rounds} rounds; largest difference of probabilities {difference:.0e}"
    )
    return report.Table(title, ("", "seconds", "CPU seconds", "faster by"), rows)


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--texts-only", action="store_true", help="leave out the table beside the peers")
    chosen = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    if not chosen.texts_only:
        report.publish(TITLE, [inference(Sizes(), chosen.rounds)], chosen.out)
    vocab = data.vocabulary("bert-base-uncased")
    if vocab is not None:
        report.publish(OF_TEXTS, [predicting(Sizes(), vocab, mixed_texts(200), chosen.rounds)], chosen.out)


if __name__ == "__main__":
    main()
