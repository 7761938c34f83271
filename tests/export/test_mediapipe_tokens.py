import pytest
import tensorflow as tf

import keras_bert
from keras_bert.export import agreement, metadata, tflite
from keras_bert.export.mediapipe_tokens import differing, mediapipe_tokens
from tests.export.test_metadata import asked_by_mediapipe
from tests.models import tiny_config

WORDS = ["a", "b", "cafe", "café", "good", "##s", "!", ",", "。", "你", "好", "é" * 50, "é" * 51, "i"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", *WORDS]
# texts on which the two part, and those that look as if they did
TEXTS = {
    "a good!goods": ["a", "good", "!", "good", "##s"],
    "Good GOODS": ["good", "good", "##s"],
    "你好。a": ["你", "好", "。", "a"],
    "café CAFÉ cafe": ["café", "[UNK]", "cafe"],  # É is not A to Z
    "a\u3000b a\xa0b": ["[UNK]", "[UNK]"],  # no blanks to it
    "a\u200bb a\tb\x0bb": ["[UNK]", "a", "[UNK]"],
    "é" * 50: ["é" * 50],  # 100 bytes
    "é" * 51: ["[UNK]"],
    "good\0good": ["good"],
    "[MASK]": ["[", "[UNK]", "]"],
    "": [],
}


@pytest.mark.parametrize(("text", "tokens"), TEXTS.items())
def test_tokens(text, tokens):
    assert mediapipe_tokens(keras_bert.Tokenizer(VOCAB), text) == tokens


def test_what_differs_is_counted_and_shown():
    texts = ["a good!", "CAFÉ", "a\u3000b", "goods goods goods caf\u00e9"]
    found = differing(keras_bert.Tokenizer(VOCAB), texts, max_length=8)
    assert (found["texts"], found["differ"]) == (4, 2)  # the last one differs only behind T
    assert found["examples"][0] == {"text": "CAFÉ", "ours": ["cafe"], "mediapipe": ["[UNK]"]}
    assert found["examples"][1] == {"text": "a\u3000b", "ours": ["a", "b"], "mediapipe": ["[UNK]"]}
    assert len(differing(keras_bert.Tokenizer(VOCAB), ["CAFÉ"] * 9, max_length=8)["examples"]) == 5


def file_of_ids(tokenizer, length):
    """A TFLite file for MediaPipe's TextEmbedder whose vector is the token ids."""
    bundle = keras_bert.create(tiny_config(vocab_size=tokenizer.vocab_size), tokenizer, "sentence_embedder")

    def echo(**features):
        others = features["segment_ids"] + features["padding_mask"]
        return {"embedding": tf.cast(features["token_ids"], tf.float32) + 0.0 * tf.cast(others, tf.float32)}

    specs = {name: tf.TensorSpec([1, length], tf.int32, name=name) for name in bundle.model.input}
    return metadata.attach(tflite.convert(echo, specs, []), bundle)


@pytest.mark.slow
@pytest.mark.parametrize("genuine", [False, True])
def test_mediapipe_itself_makes_these_tokens(genuine, request, tmp_path):
    tokenizer = keras_bert.load(request.getfixturevalue("minilm")).tokenizer if genuine else keras_bert.Tokenizer(VOCAB)
    texts, length = [*TEXTS, *agreement.TEXTS, "ſ K İ ΑΣ \x85 ½ ́x", "a\x1cb\u2028c\ufffd", "《x》，€"], 64
    (tmp_path / "ids.tflite").write_bytes(file_of_ids(tokenizer, length))
    rows = asked_by_mediapipe("sentence_embedder", tmp_path / "ids.tflite", texts)
    for text, row in zip(texts, rows, strict=True):
        got = [tokenizer.vocab[int(i)] for i in row if i]
        assert got == ["[CLS]", *mediapipe_tokens(tokenizer, text)[: length - 2], "[SEP]"], text
