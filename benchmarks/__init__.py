"""Side by side with the peers: `python -m benchmarks.NAME`, see README.md in this folder."""

import os

THREADS = 2  # for all contestants
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))  # torch
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # on a busy machine torch would lose its time spinning
os.environ.setdefault("RAYON_NUM_THREADS", str(THREADS))  # tokenizers
