"""Writes google.zip: checkpoints of Google's own TF1 code, with weights of order 0.3, where the gelus differ.

In a throw-away environment:
    pip install tensorflow==2.21.0 tf-keras==2.21.0 six
    pip install --no-deps bert-tensorflow==1.0.4 albert-tensorflow==1.1
    TF_USE_LEGACY_KERAS=1 python tests/golden/make_google.py

The models, the heads and the optimizer are the packages' (modeling.py, run_pretraining.py, run_classifier.py,
optimization.py). `tf.contrib` is gone from TensorFlow; its layer norm, which is all that is used of it, is given below.
"""

import json
import sys
import tempfile
import types
import zipfile
from pathlib import Path

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] The a b c hello world ##s ##ing good Bad film , . !".split()
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 17,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(VOCAB),
}
ALBERT = CONFIG | {
    "down_scale_factor": 1,
    "embedding_size": 8,
    "gap_size": 0,
    "inner_group_num": 1,
    "net_structure_type": 0,
    "num_hidden_groups": 1,
    "num_hidden_layers": 3,
    "num_memory_blocks": 0,
}


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
    with tf1.variable_scope(scope, "LayerNorm"):
        size = [inputs.shape[-1]]
        beta = tf1.get_variable("beta", size, initializer=tf1.zeros_initializer())
        gamma = tf1.get_variable("gamma", size, initializer=tf1.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [begin_norm_axis], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


contrib, layers = types.ModuleType("tensorflow.contrib"), types.ModuleType("tensorflow.contrib.layers")
contrib.layers, layers.layer_norm = layers, layer_norm
contrib.cluster_resolver = contrib.data = contrib.tpu = None  # for training on a cluster
sys.modules |= {"tensorflow.contrib": contrib, "tensorflow.contrib.layers": layers}
tf1.disable_eager_execution()
tf1.disable_v2_tensorshape()

from bert import modeling, optimization, run_classifier  # noqa: E402

for _name in list(tf1.flags.FLAGS):  # the two scripts define the same flags
    delattr(tf1.flags.FLAGS, _name)
from bert import run_pretraining  # noqa: E402

for _name in list(tf1.flags.FLAGS):
    delattr(tf1.flags.FLAGS, _name)
sys.modules["tensorflow"] = tf1  # which ALBERT's code calls tensorflow
from albert import modeling as albert_modeling  # noqa: E402
from albert import run_pretraining as albert_pretraining  # noqa: E402

sys.modules["tensorflow"] = tf


def inputs():
    rng = np.random.default_rng(3)
    mask = (np.arange(7) < np.array([[7], [4], [6]])).astype("int32")
    return {
        "token_ids": (rng.integers(1, len(VOCAB), (3, 7)) * mask).astype("int32"),
        "segment_ids": (rng.integers(0, 2, (3, 7)) * mask).astype("int32"),
        "padding_mask": mask,
        "masked_positions": np.array([[1, 6], [0, 3], [2, 2]], "int32"),
    }


def pretraining(config, ids, segments, mask, positions):
    model = modeling.BertModel(config, False, ids, mask, segments)
    labels, weights = tf.zeros_like(positions), tf.ones(positions.shape)
    mlm, _, _ = run_pretraining.get_masked_lm_output(
        config, model.get_sequence_output(), model.get_embedding_table(), positions, labels, weights
    )
    nsp, _, _ = run_pretraining.get_next_sentence_output(config, model.get_pooled_output(), tf.zeros([3], tf.int32))
    graph = tf1.get_default_graph()
    shape = [*positions.shape.as_list(), config.vocab_size]
    outputs = {
        "sequence_output": model.get_sequence_output(),
        "pooled_output": model.get_pooled_output(),
        "mlm_logits": tf.reshape(graph.get_tensor_by_name("cls/predictions/BiasAdd:0"), shape),
        "nsp_logits": graph.get_tensor_by_name("cls/seq_relationship/BiasAdd:0"),
    }
    optimizer = optimization.AdamWeightDecayOptimizer(learning_rate=1e-3)
    variables = tf1.trainable_variables()
    step = tf1.train.get_or_create_global_step()
    gradients = tf.gradients(mlm + nsp, variables)
    return outputs, optimizer.apply_gradients(zip(gradients, variables, strict=True), global_step=step)


def albert(config, ids, segments, mask, positions):
    model = albert_modeling.AlbertModel(config, False, ids, mask, segments)
    labels, weights = tf.zeros_like(positions), tf.ones(positions.shape)
    table = model.get_embedding_table()
    albert_pretraining.get_masked_lm_output(config, model.get_sequence_output(), table, positions, labels, weights)
    albert_pretraining.get_sentence_order_output(config, model.get_pooled_output(), tf.zeros([3], tf.int32))
    graph = tf1.get_default_graph()
    shape = [*positions.shape.as_list(), config.vocab_size]
    outputs = {
        "mlm_logits": tf.reshape(graph.get_tensor_by_name("cls/predictions/BiasAdd:0"), shape),
        "nsp_logits": graph.get_tensor_by_name("cls/seq_relationship/BiasAdd:0"),
    }
    return outputs, tf.no_op()


def classifier(config, ids, segments, mask, positions):
    made = run_classifier.create_model(config, False, ids, mask, segments, tf.zeros([3], tf.int32), 3, False)
    return {"logits": made[2]}, tf.no_op()


def write(folder, build, kind, values_of_config, name):
    folder.mkdir()
    values = inputs()
    with tf1.Graph().as_default(), tf1.Session() as session:
        fed = {name: tf1.placeholder("int32", value.shape, name) for name, value in values.items()}
        order = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
        outputs, train = build(kind.from_dict(values_of_config), *(fed[name] for name in order))
        session.run(tf1.global_variables_initializer())
        rng = np.random.default_rng(7)
        for variable in tf1.trainable_variables():
            value = rng.normal(0, 0.3, variable.shape.as_list())
            variable.load(value + ("gamma" in variable.name), session)
        feed = {fed[name]: value for name, value in values.items()}
        session.run(train, feed)
        computed = session.run(outputs, feed)
        tf1.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_meta_graph=False, write_state=False)
    arrays = {f"input/{name}": value for name, value in values.items()}
    arrays |= {f"output/{name}": value for name, value in computed.items()}
    np.savez(folder / "expected.npz", **arrays)
    (folder / name).write_text(json.dumps(values_of_config, indent=2))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCAB))


with tempfile.TemporaryDirectory() as temporary:
    for name, build in (("pretraining", pretraining), ("classifier", classifier)):
        write(Path(temporary) / name, build, modeling.BertConfig, CONFIG, "bert_config.json")
    write(Path(temporary) / "albert", albert, albert_modeling.AlbertConfig, ALBERT, "albert_config.json")
    with zipfile.ZipFile(Path(__file__).with_name("google.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(Path(temporary).rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(temporary))
