"""What the peers can do with BERT, tried on what is installed, not remembered: each cell is an outcome."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import tensorflow_text
import torch
import transformers

import keras_bert
from benchmarks import data, report
from keras_bert.export import export

TITLE = "Features"
COLUMNS = ("tried", "ours", "KerasHub", "transformers", "tensorflow_text")
TASKS = {  # what is tried -> our head, and words in the peers' class names
    "masked language model": ("masked_language_model", "MaskedLM"),
    "pretraining, MLM + NSP": ("pretraining_model", "ForPreTraining"),
    "classification": ("sequence_classifier", "TextClassifier ForSequenceClassification"),
    "token classification": ("token_classifier", "TokenClassifier ForTokenClassification"),
    "extractive question answering": ("span_extractor", "QuestionAnswer Span ForQuestionAnswering"),
    "sentence embedding": ("sentence_embedder", "TextEmbedder Embed"),
}
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
TEXT = "a wonderful film"
ASK = """
import sys, tensorflow as tf
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
(name,) = answer.structured_input_signature[1]
answer(**{name: tf.constant([sys.argv[2]])})
print("answers")
"""


def outcome(function, *arguments):
    """What `function` gives, or the first words of its error."""
    try:
        return str(function(*arguments))
    except Exception as error:  # whatever a peer raises is the result
        return f"{type(error).__name__}: {str(error).split('. ')[0].splitlines()[0]}"


def tasks():
    """Rows: is there a model for each task?"""
    peers = [dir(keras_hub.models), dir(transformers)]

    def has(names, words):
        found = [n for n in names if n.startswith("Bert") and any(w in n for w in words.split()) and "Prep" not in n]
        return found[0] if found else "no"

    return [
        (f"model: {task}", head if head in keras_bert.HEADS else "no", *(has(names, words) for names in peers), "")
        for task, (head, words) in TASKS.items()
    ]


def foreign_folder(folder, vocab):
    """A classifier that transformers makes and writes in its older form, with vocab.txt, and in today's."""
    labels = {0: "bad", 1: "fair", 2: "good"}
    config = transformers.BertConfig(**SIZES, initializer_range=0.3, id2label=labels)
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(folder / "older")
    shutil.copy(vocab, folder / "older" / "vocab.txt")
    settings = '{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}'
    (folder / "older" / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    model.save_pretrained(folder / "today")
    transformers.AutoTokenizer.from_pretrained(folder / "older").save_pretrained(folder / "today")
    return model


def random_ids():
    ids = np.random.default_rng(0).integers(0, 30522, (3, 17), "int32")
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}


def logits_of_transformers(model, x):
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    with torch.inference_mode():
        return model(**{names[name]: torch.from_numpy(ids).long() for name, ids in x.items()}).logits.numpy()


def checkpoints(folder, model):
    """Rows: a Hugging Face folder in, and out again."""
    x = random_ids()
    wanted = logits_of_transformers(model, x)

    def mine(name):
        return difference(keras_bert.load(folder / name).model, x, wanted)

    def hub(name):
        return difference(keras_hub.models.BertTextClassifier.from_preset(str(folder / name), num_classes=3), x, wanted)

    def written():
        keras_bert.save(keras_bert.load(folder / "older"), folder / "ours")
        back = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "ours").eval()
        return f"{np.max(np.abs(logits_of_transformers(back, x) - wanted)):.0e}"

    def written_by_hub():
        backbone = keras_hub.models.BertBackbone.from_preset(str(folder / "older"))
        return backbone.export_to_transformers(str(folder / "hub"))

    return [
        (
            "classifier of transformers, with vocab.txt: largest difference of logits",
            outcome(mine, "older"),
            outcome(hub, "older"),
            "0",
            "",
        ),
        (
            "the same as transformers 5 writes it: largest difference of logits",
            outcome(mine, "today"),
            outcome(hub, "today"),
            "0",
            "",
        ),
        ("written for transformers: largest difference of logits", outcome(written), outcome(written_by_hub), "0", ""),
        ("TensorFlow model", "yes", "yes", outcome(lambda: transformers.TFBertModel), ""),
    ]


def difference(model, x, wanted):
    """Calls a Keras model itself, not a preprocessor before it."""
    return f"{np.max(np.abs(keras.ops.convert_to_numpy(keras.Model.__call__(model, x)) - wanted)):.0e}"


def strings_in(folder, vocab):
    """Row: a SavedModel that takes strings, asked in a process that imports tensorflow only."""
    export(keras_bert.load(folder / "older"), folder / "served_ours", format="saved_model")

    hub = keras_hub.models.BertTextClassifier.from_preset(str(folder / "older"), num_classes=3)
    save_strings(lambda text: {"logits": hub(hub.preprocessor(text))}, hub, folder / "served_hub")

    tokenizer = tensorflow_text.BertTokenizer(str(vocab), lower_case=True)
    save_strings(
        lambda text: {"ids": tokenizer.tokenize(text).merge_dims(-2, -1).to_tensor()}, tokenizer, folder / "served_text"
    )
    answers = [outcome(ask, folder / f"served_{name}") for name in ("ours", "hub", "text")]
    return ("SavedModel with strings in, in a process with tensorflow only", *answers[:2], "no TensorFlow", answers[2])


def save_strings(function, tracked, folder):
    module = tf.Module()
    module.tracked = tracked
    module.answer = tf.function(function, [tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    tf.saved_model.save(module, str(folder), signatures=module.answer)


def ask(folder):
    done = subprocess.run([sys.executable, "-c", ASK, str(folder), TEXT], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1].split(" in binary")[0]


def main():
    chosen = report.arguments(__doc__).parse_args()
    vocab = data.vocabulary("bert-base-uncased")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = foreign_folder(folder, vocab)
        rows = [*tasks(), *checkpoints(folder, model), strings_in(folder, vocab)]
    rows = [tuple(cell.replace(made + "/", "") for cell in row) for row in rows]
    report.publish(TITLE, [report.Table("Tried with BERT", COLUMNS, rows)], chosen.out)


if __name__ == "__main__":
    main()
