"""Writes keras-VERSION.zip: `.keras` files of this release, which every later one has to load.

Once a release, in the environment of the tests: python -m tests.golden.make_keras

Beside each model a .npz with `input/*` (or `text`) and `output/*`.
"""

import io
import zipfile
from pathlib import Path

import keras
import numpy as np

import keras_bert
from tests.models import LABELS, VOCAB, model_features, randomize, tiny_config

ROBERTA = {"model_type": "roberta", "pad_token_id": 1, "position_offset": 2, "classifier_act": "tanh"}
ALBERT = {"model_type": "albert", "embedding_size": 8, "shared_layers": True, "hidden_act": "gelu_new"}
DENSE = [{"units": 5, "activation": "gelu", "bias": True}]
MODELS = {
    "roberta": ("sequence_classifier", ROBERTA, {"num_classes": 3}),
    "albert": ("pretraining_model", ALBERT, {}),
    "embedder": ("sentence_embedder", {}, {"pooling": "mean_sqrt_len", "dense": DENSE}),
    "choice": ("multiple_choice", {}, {}),
    "electra": ("replaced_token_detector", {"model_type": "electra", "classifier_act": "gelu"}, {}),
    "text": ("sequence_classifier", {}, {"num_classes": 3}),
}
TEXTS = ["hello worlds", "", "a good film!", "商务大床房 é"]


def main():
    path = Path(__file__).with_name(f"keras-{keras_bert.__version__}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (head, changes, options) in MODELS.items():
            config = tiny_config(num_hidden_layers=1, **changes)
            model = keras_bert.HEADS[head].build(keras_bert.build_encoder(config), **options)
            randomize(model)
            features = model_features(model, config)
            arrays = {f"input/{key}": value for key, value in features.items()}
            if name == "text":
                model, arrays = of_text(model), {"text": np.array(TEXTS)}
                features = keras.ops.convert_to_tensor(TEXTS)
            outputs = model(features)
            outputs = outputs if isinstance(outputs, dict) else {"": outputs}
            arrays |= {f"output/{key}": np.asarray(value) for key, value in outputs.items()}
            write(archive, name, model, arrays)


def of_text(model):
    """Strings in, trained for a step, so that the optimizer and its schedule are in the file."""
    texts = keras.Input((), dtype="string", name="text")
    features = keras_bert.TextPreprocessor(keras_bert.Tokenizer(VOCAB), max_length=16)(texts)
    whole = keras.Model(texts, model({name: features[name] for name in model.input}))
    schedule = keras_bert.optimizers.Warmup(1e-3, 2, 10)
    whole.compile(keras.optimizers.AdamW(schedule), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    whole.train_on_batch(keras.ops.convert_to_tensor(TEXTS), np.arange(len(TEXTS)) % len(LABELS))
    return whole


def write(archive, name, model, arrays):
    temporary = Path(archive.filename).with_name(f".{name}.keras")
    try:
        model.save(temporary)
        archive.writestr(f"{name}.keras", temporary.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    archive.writestr(f"{name}.npz", buffer.getvalue())


if __name__ == "__main__":
    main()
