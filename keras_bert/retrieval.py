"""Exact search among embedded texts, and the best of what it finds once more by a cross-encoder."""

import dataclasses
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from keras_bert.files import read_json, replace_folder
from keras_bert.prediction import predict

VECTORS, TEXTS, DESCRIPTION = "vectors.npy", "texts.jsonl", "index.json"
TEXTS_AT_ONCE = 4096
SCORES_AT_ONCE = 1 << 26  # queries x texts whose scores are in memory at a time: 256 MB


@dataclasses.dataclass(frozen=True)
class Index:
    """Texts with their vectors.

    Args:
        vectors: (n, D) float32.
        texts: list of n str.
        embedder: folder of the model that made the vectors.
    """

    vectors: np.ndarray
    texts: list[str]
    embedder: str

    def __len__(self):
        return len(self.texts)


def write_index(bundle, texts, folder, embedder):
    """Embeds texts, and writes them with their vectors into a folder.

    Args:
        bundle: of a sentence_embedder.
        texts: list of str.
        embedder: the bundle's folder, from which queries will be embedded.

    Raises:
        ValueError: the bundle has another head, or there is no text.
    """
    _check_head(bundle, "sentence_embedder")
    if not texts:
        raise ValueError("An index must have at least one text, got none.")
    parts = [predict(bundle, texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)]
    vectors = np.concatenate(parts)
    with replace_folder(folder) as temporary:
        np.save(temporary / VECTORS, vectors, allow_pickle=False)
        lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        (temporary / TEXTS).write_text(lines, encoding="utf-8")
        described = {"embedder": str(Path(embedder).resolve()), "texts": len(texts), "dimensions": vectors.shape[1]}
        (temporary / DESCRIPTION).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def read_index(folder):
    """Reads what `write_index` wrote; the vectors stay on disk until they are asked for.

    Raises:
        ValueError: a file is missing, or they do not fit together.
    """
    folder = Path(folder)
    described = read_json(folder / DESCRIPTION)
    for name in (VECTORS, TEXTS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name} is missing.")
    vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
    with open(folder / TEXTS, encoding="utf-8") as file:
        texts = [json.loads(line) for line in file]
    if vectors.shape != (len(texts), described["dimensions"]):
        raise ValueError(f"{folder} must have a vector for each of its {len(texts)} texts, got {vectors.shape}.")
    return Index(vectors, texts, described["embedder"])


def nearest(vectors, queries, top):
    """The vectors with the highest inner product, by NumPy, or by faiss where it is installed.

    Args:
        vectors: (n, D) float32; queries: (m, D) float32; top: K, at most n are given.

    Returns:
        scores (m, K) float32, highest first, and places (m, K) int64.
    """
    top = min(top, len(vectors))
    if find_spec("faiss") is not None:
        return _by_faiss(vectors, queries, top)
    rows = max(1, SCORES_AT_ONCE // len(vectors))
    parts = [_by_numpy(vectors, queries[start : start + rows], top) for start in range(0, len(queries), rows)]
    scores, places = (np.concatenate(column) for column in zip(*parts, strict=True))
    return scores, places


def _by_numpy(vectors, queries, top):
    scores = queries @ np.asarray(vectors).T
    places = np.argpartition(-scores, top - 1, axis=1)[:, :top]
    found = np.take_along_axis(scores, places, axis=1)
    order = np.lexsort((places, -found), axis=1)  # of equal scores the first text
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(places, order, axis=1)


def _by_faiss(vectors, queries, top):
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, "float32"))
    return index.search(np.ascontiguousarray(queries, "float32"), top)


def search(index, embedder, queries, top=10, reranker=None, candidates=100):
    """Finds the texts that answer queries best.

    Args:
        index: an `Index`.
        embedder: bundle of the model that made its vectors.
        queries: list of str.
        top: texts a query.
        reranker: bundle of a reranker that gives the nearest `candidates` their final scores, or None.

    Returns:
        A list with, per query, the best first, dicts of "place" in the index, "score" and "text".

    Raises:
        ValueError: a bundle has another head, the vectors have another size, or there are not enough candidates.
    """
    _check_head(embedder, "sentence_embedder")
    if top < 1 or (reranker is not None and candidates < top):
        raise ValueError(f"`top` must be at least 1, and at most `candidates`, got {top} and {candidates}.")
    if not queries:
        return []
    vectors = predict(embedder, queries)
    if vectors.shape[1] != index.vectors.shape[1]:
        raise ValueError(
            f"The index has vectors of {index.vectors.shape[1]} numbers, the embedder makes {vectors.shape[1]}. "
            "Use the model that made the index."
        )
    scores, places = nearest(index.vectors, vectors, top if reranker is None else candidates)
    if reranker is not None:
        _check_head(reranker, "reranker")
        pairs = [(query, index.texts[place]) for query, row in zip(queries, places, strict=True) for place in row]
        found = predict(reranker, *(list(column) for column in zip(*pairs, strict=True)))
        scores = np.array(found, "float32").reshape(places.shape)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        scores, places = np.take_along_axis(scores, order, axis=1), np.take_along_axis(places, order, axis=1)
    return [
        [
            {"place": int(place), "score": float(score), "text": index.texts[place]}
            for score, place in zip(*row, strict=True)
        ]
        for row in zip(scores, places, strict=True)
    ]


def _check_head(bundle, head):
    if bundle.head != head:
        raise ValueError(f"The model must be a {head}, got {bundle.head}.")
