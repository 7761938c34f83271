"""`peft` opens a base and an adapter that we wrote, answers, and writes the adapter anew. In an environment of its own.

Arguments: a folder with base/, adapter/, features.npz. Writes answers.json, and the adapter as theirs/.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification

top = Path(sys.argv[1])
features = np.load(top / "features.npz")
base = AutoModelForSequenceClassification.from_pretrained(top / "base")
model = PeftModel.from_pretrained(base, top / "adapter").eval()
names = {"input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask"}
inputs = {theirs: torch.tensor(features[ours].astype("int64")) for theirs, ours in names.items()}
with torch.no_grad():
    logits = model(**inputs).logits.numpy()
model.save_pretrained(top / "theirs")
(top / "answers.json").write_text(json.dumps(logits.tolist()))
