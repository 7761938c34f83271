"""Writes model_garden.zip: TF2 checkpoints and a TF Hub SavedModel of tf-models-official, with weights of order 0.3.

In a throw-away environment:
    pip install tensorflow==2.21.0 tf-keras==2.21.0 tensorflow-text==2.21.1 gin-config
    pip install --no-deps tf-models-official==2.20.0
    TF_USE_LEGACY_KERAS=1 python tests/golden/make_model_garden.py

Of the SavedModel the graph, which is not read, is left out: saved_model.pb is empty.
"""

import tempfile
import zipfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.configs import encoders
from official.nlp.modeling import layers, models, networks
from official.nlp.tools import export_tfhub_lib

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] the a b c hello world ##s ##ing good bad film , . !".split()


def gelu(x):
    return tf_keras.activations.gelu(x, approximate=True)


def encoder(kind):
    return kind(
        vocab_size=len(VOCAB),
        hidden_size=12,
        num_layers=2,
        num_attention_heads=3,
        max_sequence_length=17,
        type_vocab_size=2,
        inner_dim=20,
    )


def randomize(model):
    rng = np.random.default_rng(7)
    for variable in model.variables:
        value = rng.normal(0, 0.3, variable.shape)
        variable.assign(value + ("gamma" in variable.name))


def inputs(positions=False):
    rng = np.random.default_rng(3)
    mask = (np.arange(7) < np.array([[7], [4], [6]])).astype("int32")
    made = {
        "input_word_ids": (rng.integers(1, len(VOCAB), (3, 7)) * mask).astype("int32"),
        "input_mask": mask,
        "input_type_ids": (rng.integers(0, 2, (3, 7)) * mask).astype("int32"),
    }
    return made | ({"masked_lm_positions": np.array([[1, 6], [0, 3], [2, 2]], "int32")} if positions else {})


def save(folder, values, outputs):
    names = {
        "input_word_ids": "token_ids",
        "input_mask": "padding_mask",
        "input_type_ids": "segment_ids",
        "masked_lm_positions": "masked_positions",
    }
    arrays = {f"input/{names[name]}": value for name, value in values.items()}
    arrays |= {f"output/{name}": np.asarray(value) for name, value in outputs.items()}
    np.savez(folder / "expected.npz", **arrays)


def pretraining(folder):
    head = layers.ClassificationHead(inner_dim=12, num_classes=2, dropout_rate=0.1, name="next_sentence")
    core = encoder(networks.BertEncoderV2)
    model = models.BertPretrainerV2(encoder_network=core, classification_heads=[head], mlm_activation=gelu)
    values = inputs(positions=True)
    model(values)
    randomize(model)
    optimizer = tf_keras.optimizers.legacy.Adam()
    tf.train.Checkpoint(model=model, optimizer=optimizer, **model.checkpoint_items).write(str(folder / "bert.ckpt"))
    made = model(values)
    save(folder, values, {"mlm_logits": made["mlm_logits"], "nsp_logits": made["next_sentence"]})


def head(folder, make, name):
    model = make(encoder(networks.BertEncoder))
    randomize(model)
    tf.train.Checkpoint(model=model).save(str(folder / "ckpt"))
    values = inputs()
    made = model([values[name] for name in ("input_word_ids", "input_mask", "input_type_ids")])
    made = made["logits"] if isinstance(made, dict) else made
    save(folder, values, {name: np.stack(made, -1) if isinstance(made, list | tuple) else made})


def tokens(core):
    return models.BertTokenClassifier(core, 4, output="logits")


def hub(folder):
    config = encoders.EncoderConfig(
        type="bert",
        bert=encoders.BertEncoderConfig(
            vocab_size=len(VOCAB),
            hidden_size=12,
            num_layers=2,
            num_attention_heads=3,
            max_position_embeddings=17,
            type_vocab_size=2,
            intermediate_size=20,
        ),
    )
    core = encoders.build_encoder(config)
    values = inputs()
    core(values)
    randomize(core)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB))
    checkpoint = tf.train.Checkpoint(encoder=core).save(str(folder / "ckpt"))
    export_tfhub_lib.export_model(
        str(folder),
        encoder_config=config,
        model_checkpoint_path=checkpoint,
        with_mlm=False,
        vocab_file=str(folder / "vocab.txt"),
        do_lower_case=True,
    )
    made = tf.saved_model.load(str(folder))(values)
    save(folder, values, {"sequence_output": made["sequence_output"], "pooled_output": made["pooled_output"]})
    for name in ("vocab.txt", "keras_metadata.pb", "fingerprint.pb", "checkpoint"):
        (folder / name).unlink()
    for file in folder.glob("ckpt*"):
        file.unlink()
    (folder / "saved_model.pb").write_bytes(b"")


MAKERS = {
    "pretraining": pretraining,
    "classifier": lambda folder: head(folder, lambda core: models.BertClassifier(core, 3), "logits"),
    "tokens": lambda folder: head(folder, tokens, "logits"),
    "spans": lambda folder: head(folder, models.BertSpanLabeler, "logits"),
    "hub": hub,
}

with tempfile.TemporaryDirectory() as temporary:
    for name, make in MAKERS.items():
        (Path(temporary) / name).mkdir()
        make(Path(temporary) / name)
    with zipfile.ZipFile(Path(__file__).with_name("model_garden.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(Path(temporary).rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(temporary))
