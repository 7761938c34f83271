"""One pretraining step at MiniLM size, side by side: ours, KerasHub, transformers (torch)."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from benchmarks import THREADS, report
from benchmarks.rounds import Contestant, interleaved, medians, prepared

TITLE = "Training"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What all contestants train: all-MiniLM-L6's encoder by default. The last three are B, T and P."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    batch_size: int = 32
    max_length: int = 128
    max_predictions: int = 20

    def config(self):
        """The encoder's fields, by their names in config.json."""
        fields = dataclasses.asdict(self)
        return {name: fields[name] for name in fields if name not in ("batch_size", "max_length", "max_predictions")}


def random_batch(sizes, seed=0):
    """Random ids without padding: `x` and `y` of the pretraining model, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    shape, masked = (sizes.batch_size, sizes.max_length), (sizes.batch_size, sizes.max_predictions)
    places = [rng.choice(sizes.max_length, sizes.max_predictions, replace=False) for _ in range(sizes.batch_size)]
    x = {
        "token_ids": rng.integers(0, sizes.vocab_size, shape, "int32"),
        "segment_ids": np.tile((np.arange(sizes.max_length) * 2 // sizes.max_length).astype("int32"), (shape[0], 1)),
        "padding_mask": np.ones(shape, "int32"),
        "masked_positions": np.sort(places, axis=1).astype("int32"),
    }
    y = {
        "mlm_logits": rng.integers(0, sizes.vocab_size, masked, "int32"),
        "nsp_logits": rng.integers(0, 2, shape[:1], "int32"),
    }
    return x, y


def fitting(model, x, y, weights, steps):
    """Gives a function that fits `steps` steps on one batch that tf.data repeats."""
    parts = (x, y) if weights is None else (x, y, weights)
    batches = tf.data.Dataset.from_tensors(parts).cache().repeat().prefetch(1)
    return lambda: model.fit(batches, steps_per_epoch=steps, verbose=0, shuffle=False)


def ours(sizes, x, y, steps, weights=None):
    """`pretraining_model`, MLM on P gathered positions and NSP, by `fit` with the recipe's losses and optimizer."""
    from keras_bert.training.losses import pretraining_objectives
    from keras_bert.training.optimization import adamw

    model = keras_bert.create(keras_bert.BertConfig(**sizes.config()), head="pretraining_model").model
    model.compile(adamw(1e-4), **pretraining_objectives())
    weights = weights or {name: np.ones(labels.shape, "float32") for name, labels in y.items()}
    return fitting(model, x, y, weights, steps)


def in_bfloat16(sizes, x, y, steps):
    """The same model in mixed bfloat16."""
    from keras_bert.training.precision import precision

    with precision("bfloat16"):
        return ours(sizes, x, y, steps)


def every_position(sizes, x, y, steps):
    """The same with all T positions through the vocabulary and weights at the P chosen ones: what gathering saves."""
    places, shape = x["masked_positions"].astype("int64"), x["token_ids"].shape
    labels, weights = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    np.put_along_axis(labels, places, y["mlm_logits"], axis=1)
    np.put_along_axis(weights, places, 1.0, axis=1)
    x = {**x, "masked_positions": np.tile(np.arange(shape[1], dtype="int32"), (shape[0], 1))}
    weights = {"mlm_logits": weights, "nsp_logits": np.ones(shape[0], "float32")}
    return ours(sizes, x, {**y, "mlm_logits": labels}, steps, weights)


def keras_hub_mlm(sizes, x, y, steps):
    """`BertMaskedLM`, MLM on P gathered positions; it has no NSP. Loss, metric and optimizer as ours."""
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=sizes.vocab_size,
        num_layers=sizes.num_hidden_layers,
        num_heads=sizes.num_attention_heads,
        hidden_dim=sizes.hidden_size,
        intermediate_dim=sizes.intermediate_size,
        dropout=0.1,
        max_sequence_length=sizes.max_position_embeddings,
    )
    model = keras_hub.models.BertMaskedLM(backbone)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")])
    inputs = {name: x[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    inputs["mask_positions"] = x["masked_positions"]
    return fitting(model, inputs, y["mlm_logits"], np.ones(y["mlm_logits"].shape, "float32"), steps)


def transformers_pretraining(sizes, x, y, steps):
    """`BertForPreTraining` in torch: MLM logits at all T positions, loss at the same P, and NSP; AdamW, clipped."""
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    model = transformers.BertForPreTraining(transformers.BertConfig(**sizes.config())).train()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6)
    labels = np.full(x["token_ids"].shape, -100, "int64")
    np.put_along_axis(labels, x["masked_positions"].astype("int64"), y["mlm_logits"].astype("int64"), axis=1)
    batch = {
        "input_ids": torch.tensor(x["token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(x["segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(x["padding_mask"], dtype=torch.long),
        "labels": torch.tensor(labels),
        "next_sentence_label": torch.tensor(y["nsp_logits"], dtype=torch.long),
    }

    def run():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return loss.item()

    return run


CONTESTANTS = (
    Contestant("ours: pretraining_model (MLM + NSP)", "keras_bert", ours),
    Contestant("ours in bfloat16", "keras_bert", in_bfloat16),
    Contestant("ours, all positions through the vocabulary", "keras_bert", every_position),
    Contestant("KerasHub: BertMaskedLM (MLM)", "keras_hub", keras_hub_mlm),
    Contestant("transformers: BertForPreTraining (MLM + NSP), torch", "transformers", transformers_pretraining),
)


def pretraining(sizes, steps, rounds):
    """Rows: milliseconds a step, tokens a second, and how many times as fast the first one is."""
    found = medians(interleaved(prepared(CONTESTANTS, sizes, *random_batch(sizes), steps), rounds))
    tokens = sizes.batch_size * sizes.max_length
    first = next(iter(found.values()))
    rows = [
        (
            name,
            f"{1000 * timing.wall / steps:,.0f}",
            f"{1000 * timing.cpu / steps:,.0f}",
            f"{tokens * steps / timing.wall:,.0f}",
            f"{timing.wall / first.wall:.2f}",
            f"{timing.cpu / first.cpu:.2f}",
        )
        for name, timing in found.items()
    ]
    title = (
        f"Pretraining step, {sizes.num_hidden_layers} layers of {sizes.hidden_size}, batch {sizes.batch_size}, "
        f"T = {sizes.max_length}, P = {sizes.max_predictions}, dropout 0.1, float32 unless said, {THREADS} threads, "
        f"median of {rounds} rounds of {steps} steps"
    )
    return report.Table(
        title,
        ("model", "ms a step", "CPU ms a step", "tokens a second", "ours is faster by", "and in CPU time by"),
        rows,
    )


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="in a round")
    chosen = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    report.publish(TITLE, [pretraining(Sizes(), chosen.steps, chosen.rounds)], chosen.out)


if __name__ == "__main__":
    main()
