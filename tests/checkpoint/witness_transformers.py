"""Run by the interpreter of a witness, which does not know this package: opens saved models with `transformers`.

    python witness_transformers.py FOLDER

For each folder in FOLDER with inputs.npz and expected.npz, writes the largest difference and what `transformers` says
of the keys to FOLDER/answers.json.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

MODELS = {
    "Model": "AutoModel",
    "ForPreTraining": "AutoModelForPreTraining",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
}
OUTPUTS = {
    "sequence_output": ("last_hidden_state",),
    "pooled_output": ("pooler_output",),
    "mlm_logits": ("prediction_logits",),
    "nsp_logits": ("seq_relationship_logits", "sop_logits"),
}
NAMES = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}


def answer(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (name,) = config["architectures"]
    task = next(task for task in MODELS if name.endswith(task))
    inputs, expected = (dict(np.load(folder / f"{kind}.npz")) for kind in ("inputs", "expected"))
    has_pooler_layer = task == "Model" and config["model_type"] not in ("distilbert", "electra")
    options = {"add_pooling_layer": "pooled_output" in expected} if has_pooler_layer else {}
    opener = getattr(transformers, MODELS[task])
    model, keys = opener.from_pretrained(folder, output_loading_info=True, **options)
    if type(model).__name__ != name:
        return {"error": f"opened as {type(model).__name__}, not as {name}"}
    kept = ("input_ids", "attention_mask") if config["model_type"] == "distilbert" else NAMES.values()
    given = {there: torch.tensor(inputs[here].astype("int64")) for here, there in NAMES.items() if there in kept}
    with torch.no_grad():
        outputs = {key: value.numpy() for key, value in model.eval()(**given).items()}
    mask = inputs["padding_mask"].astype(bool)
    differences = {}
    for here, values in expected.items():
        theirs = found(outputs, here)
        if here.startswith("mlm") and "masked_positions" in inputs:
            theirs = np.take_along_axis(theirs, inputs["masked_positions"][..., None].astype("int64"), 1)
        elif values.shape[: mask.ndim] == mask.shape and mask.ndim == 2:
            values, theirs = values[mask], theirs[mask]
        differences[here] = float(np.abs(values.reshape(theirs.shape).astype("float64") - theirs).max())
    return {"differences": differences, "keys": {kind: sorted(map(str, names)) for kind, names in keys.items()}}


def found(outputs, name):
    if "start_logits" in outputs:
        return np.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)
    return next(outputs[key] for key in (*OUTPUTS.get(name, ()), "logits") if key in outputs)


if __name__ == "__main__":
    top = Path(sys.argv[1])
    answers = {file.parent.name: answer(file.parent) for file in sorted(top.glob("*/inputs.npz"))}
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    (top / "answers.json").write_text(json.dumps({"versions": versions, "answers": answers}), encoding="utf-8")
