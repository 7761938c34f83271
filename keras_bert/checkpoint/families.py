"""How `transformers` names the parts of each family: weights, classes and keys of `config.json`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Family:
    """The names of one family.

    Args:
        prefix: stands before the encoder's weights in a file with a head.
        title: begins the names of its classes: "Bert" of "BertForMaskedLM".
        encoder: weight path, or layer path, here -> name there; "{i}" is a number.
        heads: head -> the same for its own layers. `None` holds what several heads share.
        architectures: head -> what follows `title` in the name of its class.
        keys: field of `BertConfig` -> key of `config.json`, where they differ.
        defaults: fields that have another default there than `BertConfig` has.
        derived: fields that the family decides, as functions of the values read so far.
        ignored: keys of `config.json` that change nothing here.
        fixed: keys that would change the model, with the one value that is built.
    """

    prefix: str
    title: str
    encoder: dict
    heads: dict
    architectures: dict
    keys: dict = dataclasses.field(default_factory=dict)
    defaults: dict = dataclasses.field(default_factory=dict)
    derived: dict = dataclasses.field(default_factory=dict)
    ignored: frozenset = frozenset()
    fixed: dict = dataclasses.field(default_factory=dict)


_EMBEDDINGS = {
    "token_embedding/embeddings": "embeddings.word_embeddings.weight",
    "embeddings/position_embeddings": "embeddings.position_embeddings.weight",
    "embeddings/segment_embeddings": "embeddings.token_type_embeddings.weight",
    "embeddings/norm": "embeddings.LayerNorm",
}
_BLOCKS = {
    "layer_{i}/attention/query": "encoder.layer.{i}.attention.self.query",
    "layer_{i}/attention/key": "encoder.layer.{i}.attention.self.key",
    "layer_{i}/attention/value": "encoder.layer.{i}.attention.self.value",
    "layer_{i}/attention/output": "encoder.layer.{i}.attention.output.dense",
    "layer_{i}/attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
    "layer_{i}/intermediate": "encoder.layer.{i}.intermediate.dense",
    "layer_{i}/output": "encoder.layer.{i}.output.dense",
    "layer_{i}/output_norm": "encoder.layer.{i}.output.LayerNorm",
}
_ALBERT_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"

_CLASSIFIER = {"logits": "classifier"}
_SPANS = {"logits": "qa_outputs"}
_ARCHITECTURES = {
    None: "Model",
    "sentence_embedder": "Model",
    "masked_language_model": "ForMaskedLM",
    "sequence_classifier": "ForSequenceClassification",
    "sequence_regressor": "ForSequenceClassification",
    "reranker": "ForSequenceClassification",
    "token_classifier": "ForTokenClassification",
    "span_extractor": "ForQuestionAnswering",
    "multiple_choice": "ForMultipleChoice",
}
_BERT_MLM = {
    "mlm/dense": "cls.predictions.transform.dense",
    "mlm/norm": "cls.predictions.transform.LayerNorm",
    "mlm_bias/bias": "cls.predictions.bias",
}
_BERT_NSP = {"nsp": "cls.seq_relationship"}
_ALBERT_MLM = {
    "mlm/dense": "predictions.dense",
    "mlm/norm": "predictions.LayerNorm",
    "mlm_bias/bias": "predictions.bias",
}
_ALBERT_SOP = {"nsp": "sop_classifier.classifier"}
_OUT_PROJECTION = {"classifier_dense": "classifier.dense", "logits": "classifier.out_proj"}
_PRE_CLASSIFIER = {"classifier_dense": "pre_classifier", "logits": "classifier"}


def _heads(sequence, multiple_choice, **others):
    return {
        "sequence_classifier": sequence,
        "sequence_regressor": sequence,
        "reranker": sequence,
        "token_classifier": _CLASSIFIER,
        "span_extractor": _SPANS,
        "multiple_choice": multiple_choice,
        "sentence_embedder": {"dense_{i}": "dense.{i}.linear"},
        **others,
    }


FAMILIES = {
    "bert": Family(
        prefix="bert.",
        title="Bert",
        encoder={**_EMBEDDINGS, **_BLOCKS, "pooler": "pooler.dense"},
        heads=_heads(
            _CLASSIFIER,
            _CLASSIFIER,
            masked_language_model=_BERT_MLM,
            next_sentence=_BERT_NSP,
            pretraining_model={**_BERT_MLM, **_BERT_NSP},
        ),
        architectures={
            **_ARCHITECTURES,
            "next_sentence": "ForNextSentencePrediction",
            "pretraining_model": "ForPreTraining",
        },
    ),
    "roberta": Family(
        prefix="roberta.",
        title="Roberta",
        encoder={**_EMBEDDINGS, **_BLOCKS, "pooler": "pooler.dense"},
        heads=_heads(
            _OUT_PROJECTION,
            _CLASSIFIER,
            masked_language_model={
                "mlm/dense": "lm_head.dense",
                "mlm/norm": "lm_head.layer_norm",
                "mlm_bias/bias": "lm_head.bias",
            },
        ),
        architectures=_ARCHITECTURES,
        defaults={"pad_token_id": 1, "classifier_act": "tanh"},
        derived={"position_offset": lambda values: values["pad_token_id"] + 1},
    ),
    "distilbert": Family(
        prefix="distilbert.",
        title="DistilBert",
        encoder={
            **_EMBEDDINGS,
            "layer_{i}/attention/query": "transformer.layer.{i}.attention.q_lin",
            "layer_{i}/attention/key": "transformer.layer.{i}.attention.k_lin",
            "layer_{i}/attention/value": "transformer.layer.{i}.attention.v_lin",
            "layer_{i}/attention/output": "transformer.layer.{i}.attention.out_lin",
            "layer_{i}/attention_norm": "transformer.layer.{i}.sa_layer_norm",
            "layer_{i}/intermediate": "transformer.layer.{i}.ffn.lin1",
            "layer_{i}/output": "transformer.layer.{i}.ffn.lin2",
            "layer_{i}/output_norm": "transformer.layer.{i}.output_layer_norm",
        },
        heads=_heads(
            _PRE_CLASSIFIER,
            _PRE_CLASSIFIER,
            masked_language_model={
                "mlm/dense": "vocab_transform",
                "mlm/norm": "vocab_layer_norm",
                "mlm_bias/bias": "vocab_projector.bias",
            },
        ),
        architectures=_ARCHITECTURES,
        keys={
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        defaults={"num_hidden_layers": 6, "type_vocab_size": 0, "classifier_act": "relu"},
        ignored=frozenset("qa_dropout seq_classif_dropout sinusoidal_pos_embds tie_weights_".split()),
    ),
    "albert": Family(
        prefix="albert.",
        title="Albert",
        encoder={
            **_EMBEDDINGS,
            "embeddings/projection": "encoder.embedding_hidden_mapping_in",
            "layer_0/attention/query": f"{_ALBERT_LAYER}.attention.query",
            "layer_0/attention/key": f"{_ALBERT_LAYER}.attention.key",
            "layer_0/attention/value": f"{_ALBERT_LAYER}.attention.value",
            "layer_0/attention/output": f"{_ALBERT_LAYER}.attention.dense",
            "layer_0/attention_norm": f"{_ALBERT_LAYER}.attention.LayerNorm",
            "layer_0/intermediate": f"{_ALBERT_LAYER}.ffn",
            "layer_0/output": f"{_ALBERT_LAYER}.ffn_output",
            "layer_0/output_norm": f"{_ALBERT_LAYER}.full_layer_layer_norm",
            "pooler": "pooler",
        },
        heads=_heads(
            _CLASSIFIER,
            _CLASSIFIER,
            masked_language_model=_ALBERT_MLM,
            next_sentence=_ALBERT_SOP,
            pretraining_model={**_ALBERT_MLM, **_ALBERT_SOP},
        ),
        architectures={**_ARCHITECTURES, "pretraining_model": "ForPreTraining"},
        defaults={
            "vocab_size": 30000,
            "hidden_size": 4096,
            "num_attention_heads": 64,
            "intermediate_size": 16384,
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "embedding_size": 128,
            "shared_layers": True,
        },
        ignored=frozenset(
            "classifier_dropout_prob down_scale_factor gap_size net_structure_type num_memory_blocks".split()
        ),
        fixed={"inner_group_num": 1, "num_hidden_groups": 1},
    ),
    "electra": Family(
        prefix="electra.",
        title="Electra",
        encoder={**_EMBEDDINGS, **_BLOCKS, "embeddings/projection": "embeddings_project"},
        heads=_heads(
            _OUT_PROJECTION,
            {"classifier_dense": "sequence_summary.summary", "logits": "classifier"},
            masked_language_model={
                "mlm/dense": "generator_predictions.dense",
                "mlm/norm": "generator_predictions.LayerNorm",
                "mlm_bias/bias": "generator_lm_head.bias",
            },
            replaced_token_detector={
                "detector": "discriminator_predictions.dense",
                "detector_logits": "discriminator_predictions.dense_prediction",
            },
        ),
        architectures={**_ARCHITECTURES, "replaced_token_detector": "ForPreTraining"},
        defaults={
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
            "embedding_size": 128,
            "classifier_act": "gelu",
        },
        # equal widths mean that there is no dense layer between
        derived={
            "embedding_size": lambda values: (
                None if values["embedding_size"] == values["hidden_size"] else values["embedding_size"]
            )
        },
        ignored=frozenset("summary_last_dropout".split()),
        fixed={"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True},
    ),
}

# The tied decoder and its bias, which stand twice in some files; they are compared with what they repeat.
DECODERS = ("cls.predictions.decoder", "predictions.decoder", "lm_head.decoder", "vocab_projector", "generator_lm_head")
# Buffers of old files, which are no weights.
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
