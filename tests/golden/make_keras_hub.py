"""Writes keras_hub.zip: presets that genuine KerasHub saved, with weights of order 0.3.

In a throw-away environment: pip install keras-hub==0.32.0 tensorflow==2.21.0 tensorflow-text==2.21.1
and python tests/golden/make_keras_hub.py
"""

import tempfile
import zipfile
from pathlib import Path

import keras_hub
import numpy as np

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] the a b c hello world ##s ##ing good bad film , . ! é".split()


def randomize(model):
    rng = np.random.default_rng(7)
    for weight in model.weights:
        value = rng.normal(0, 0.3, weight.shape)
        weight.assign(value + weight.path.endswith("gamma"))


def write(folder, make):
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCAB),
        num_layers=2,
        num_heads=3,
        hidden_dim=12,
        intermediate_dim=20,
        max_sequence_length=17,
    )
    tokenizer = keras_hub.models.BertTokenizer(VOCAB, lowercase=True)
    model, preprocessor = make(backbone, tokenizer)
    randomize(model)
    model.save_to_preset(str(folder))
    if model is backbone:
        tokenizer.save_to_preset(str(folder))
    features = preprocessor(["Hello worlds, a good film", "É bad .", "a b c é"])
    features = {name: np.asarray(value) for name, value in features.items()}
    outputs = model(features)
    outputs = outputs if isinstance(outputs, dict) else {"logits": outputs}
    arrays = {f"input/{name}": value for name, value in features.items()}
    arrays |= {f"output/{name}": np.asarray(value) for name, value in outputs.items()}
    np.savez(folder / "expected.npz", **arrays)


def backbone(core, tokenizer):
    return core, keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)


def classifier(core, tokenizer):
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)
    return keras_hub.models.BertTextClassifier(core, num_classes=3, preprocessor=preprocessor), preprocessor


def embedder(core, tokenizer):
    preprocessor = keras_hub.models.BertTextEmbedderPreprocessor(tokenizer, sequence_length=9)
    return keras_hub.models.BertTextEmbedder(core, preprocessor=preprocessor, pooling_mode="max"), preprocessor


def masked_lm(core, tokenizer):
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)
    model = keras_hub.models.BertMaskedLM(core, preprocessor=keras_hub.models.BertMaskedLMPreprocessor(tokenizer))

    def with_positions(texts):
        return {**preprocessor(texts), "mask_positions": np.array([[1, 2]] * len(texts), "int32")}

    return model, with_positions


with tempfile.TemporaryDirectory() as temporary:
    for make in (backbone, classifier, embedder, masked_lm):
        write(Path(temporary) / make.__name__, make)
    with zipfile.ZipFile(Path(__file__).with_name("keras_hub.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(Path(temporary).rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(temporary))
