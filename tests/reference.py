"""BERT in float64 NumPy, written from the paper; independent of the package, for comparison."""

import math

import numpy as np

_erf = np.vectorize(math.erf)


def layer_norm(x, gamma, beta, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * gamma + beta


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / np.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "identity": lambda x: x,
}
POOLINGS = {
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.max(0),
    "mean_sqrt_len": lambda rows: rows.sum(0) / np.sqrt(len(rows)),
    "cls": lambda rows: rows[0],
    "lasttoken": lambda rows: rows[-1],
}


class Reference:
    """Runs the encoder and the heads on a dict from weight path to array."""

    def __init__(self, config, weights):
        self.config = config
        self.w = {path: np.asarray(value, "float64") for path, value in weights.items()}

    def dense(self, x, name):
        return x @ self.w[f"{name}/kernel"] + self.w[f"{name}/bias"]

    def norm(self, x, name):
        return layer_norm(x, self.w[f"{name}/gamma"], self.w[f"{name}/beta"], self.config.layer_norm_eps)

    def act(self, x):
        return ACTIVATIONS[self.config.hidden_act](x)

    def attention(self, x, mask, name):
        batch, _, hidden = x.shape
        heads = self.config.num_attention_heads
        size = hidden // heads
        out = np.zeros_like(x)
        q, k, v = (self.dense(x, f"{name}/{part}") for part in ("query", "key", "value"))
        for b in range(batch):
            keys = np.flatnonzero(mask[b])
            for h in range(heads):
                s = slice(h * size, (h + 1) * size)
                scores = q[b, :, s] @ k[b, keys, s].T / np.sqrt(size)
                out[b, :, s] = softmax(scores) @ v[b, keys, s]
        return self.dense(out, f"{name}/output")

    def hidden_states(self, features):
        ids, segments, mask = (features[k] for k in ("token_ids", "segment_ids", "padding_mask"))
        x = self.w["token_embedding/embeddings"][ids]
        x = (
            x
            + self.w["embeddings/position_embeddings"][: ids.shape[1]]
            + self.w["embeddings/segment_embeddings"][segments]
        )
        x = self.norm(x, "embeddings/norm")
        states = [x]
        for i in range(self.config.num_hidden_layers):
            x = self.norm(x + self.attention(x, mask, f"layer_{i}/attention"), f"layer_{i}/attention_norm")
            y = self.dense(self.act(self.dense(x, f"layer_{i}/intermediate")), f"layer_{i}/output")
            x = self.norm(x + y, f"layer_{i}/output_norm")
            states.append(x)
        return states

    def pooled(self, features):
        return np.tanh(self.dense(self.hidden_states(features)[-1][:, 0], "pooler"))

    def mlm_logits(self, features):
        x = np.take_along_axis(self.hidden_states(features)[-1], features["masked_positions"][..., None], 1)
        x = self.norm(self.act(self.dense(x, "mlm/dense")), "mlm/norm")
        return x @ self.w["token_embedding/embeddings"].T + self.w["mlm_bias/bias"]

    def nsp_logits(self, features):
        return self.dense(self.pooled(features), "nsp")

    def class_logits(self, features):
        return self.dense(self.pooled(features), "logits")

    def embedding(self, features, pooling, normalize, dense=()):
        x, mask = self.hidden_states(features)[-1], features["padding_mask"]
        rows = [row[m > 0] for row, m in zip(x, mask, strict=True)]
        y = np.stack([POOLINGS[pooling](r) for r in rows])
        for i, layer in enumerate(dense):
            y = y @ self.w[f"dense_{i}/kernel"] + (self.w[f"dense_{i}/bias"] if layer["bias"] else 0)
            y = ACTIVATIONS[layer["activation"]](y)
        return y / np.linalg.norm(y, axis=-1, keepdims=True) if normalize else y
