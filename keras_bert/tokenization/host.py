"""`HostTokenizer`: RoBERTa's and ALBERT's tokenizers, on the host, by the library `tokenizers`. Uses TensorFlow."""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import tensorflow as tf
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from keras_bert.files import replace_file
from keras_bert.tokenization.encoding import Encoding, checked_texts
from keras_bert.tokenization.packing import TRUNCATIONS, truncated
from keras_bert.tokenization.special import checked_special
from keras_bert.tokenization.spiece import read_spiece
from keras_bert.tokenization.windows import text_windows


@dataclasses.dataclass(frozen=True)
class Family:
    """How a family frames texts: names of its special tokens, what stands between two texts, the second's segment."""

    tokenizer_class: str
    cls: str
    sep: str
    mask: str
    between: int  # separators between two texts
    pair_segment: int
    pad: str = "<pad>"
    unk: str = "<unk>"


FAMILIES = {
    "roberta": Family("RobertaTokenizer", "<s>", "</s>", "<mask>", between=2, pair_segment=0),
    "albert": Family("AlbertTokenizer", "[CLS]", "[SEP]", "[MASK]", between=1, pair_segment=1),
}


class HostTokenizer:
    """RoBERTa's byte-level BPE or ALBERT's SentencePiece, with the Python face of `Tokenizer`.

    It runs in Python, and in tf.data through `tf.py_function`: on the host, in one process, and not in a SavedModel.
    Exports of these families take ids.

    Args:
        twin: a `tokenizers.Tokenizer`; its framing, truncation and padding are not used.
        family: key in `FAMILIES`.

    Raises:
        ValueError: the vocabulary lacks a special token of the family.
    """

    def __init__(self, twin, family):
        self.family, self._json = family, _plain(twin)
        names = FAMILIES[family]
        self.token_ids = twin.get_vocab()
        tokens = {row: token for token, row in self.token_ids.items()}
        self.vocab = tuple(tokens.get(row, "") for row in range(max(tokens, default=-1) + 1))
        self.vocab_size = len(self.vocab)
        self.special_tokens = (names.pad, names.unk, names.cls, names.sep, names.mask)
        missing = [token for token in self.special_tokens if token not in self.token_ids]
        if missing:
            raise ValueError(f"The vocabulary must hold {', '.join(self.special_tokens)}, got none of {missing}.")
        self.special_ids = tuple(self.token_ids[token] for token in self.special_tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids

    def save(self, folder):
        """Writes tokenizer.json and tokenizer_config.json, for RoBERTa also vocab.json and merges.txt."""
        folder, names = Path(folder), FAMILIES[self.family]
        folder.mkdir(parents=True, exist_ok=True)
        twin = tokenizers.Tokenizer.from_str(self._json)
        if self.family == "roberta":
            twin.model.save(str(folder))
        twin.post_processor = self._framing()
        twin.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in self.special_tokens])
        keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        config = {"tokenizer_class": names.tokenizer_class} | dict(zip(keys, self.special_tokens, strict=True))
        for name, content in (
            ("tokenizer.json", twin.to_str(pretty=True)),
            ("tokenizer_config.json", json.dumps(config, indent=2)),
        ):
            with replace_file(folder / name) as temporary:
                temporary.write_text(content + "\n", encoding="utf-8")

    def __call__(self, texts, pairs=None, max_length=512, allowed_special=(), truncation="longest_first"):
        """Makes model inputs of a batch; arguments and result are those of `Tokenizer.__call__`."""
        space = self._space(max_length, pairs, truncation)
        rows = self._rows(checked_texts(texts, pairs), allowed_special)
        parts = [rows[: len(texts)], rows[len(texts) :]][: 1 if pairs is None else 2]
        lengths = [np.array([len(row[0]) for row in part], "int32") for part in parts]
        kept = truncated(np, lengths[0], lengths[1] if pairs is not None else None, space, truncation)
        cut = [[[x[:n] for x in row] for row, n in zip(part, kept[i], strict=True)] for i, part in enumerate(parts)]
        framed = [self._framed(*row) for row in zip(*cut, strict=True)]
        width = max((len(encoding.ids) for encoding in framed), default=0)
        shape = (len(framed), width)
        features = {name: np.zeros(shape, "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
        features["token_ids"] += self.pad_id
        for row, encoding in enumerate(framed):
            size = len(encoding.ids)
            features["token_ids"][row, :size] = encoding.ids
            features["segment_ids"][row, :size] = encoding.segment_ids
            features["padding_mask"][row, :size] = 1
        return features

    def encode(self, text, pair=None, allowed_special=()):
        """Tokenizes one text or pair, untruncated, to an `Encoding`."""
        return self.encode_batch([text], None if pair is None else [pair], allowed_special)[0]

    def encode_batch(self, texts, pairs=None, allowed_special=()):
        """Tokenizes many texts or pairs, untruncated, to a list of `Encoding`."""
        rows = self._rows(checked_texts(texts, pairs), allowed_special)
        parts = (rows[: len(texts)], rows[len(texts) :]) if pairs is not None else (rows,)
        return [self._framed(*row) for row in zip(*parts, strict=True)]

    def windows(self, text, pair=None, max_length=512, stride=128, allowed_special=()):
        """Cuts a long text, or the second of a pair, into overlapping windows; as `Tokenizer.windows`."""
        return text_windows(self.encode(text, pair, allowed_special), max_length, stride)

    def decode(self, ids, skip_special_tokens=True):
        """Text of token ids.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        ids = [int(i) for i in ids]
        outside = [i for i in ids if not 0 <= i < self.vocab_size]
        if outside:
            raise ValueError(f"`ids` must be at least 0 and below {self.vocab_size}, got {outside[0]}.")
        skipped = {i for i in self.special_ids if i != self.unk_id} if skip_special_tokens else ()
        return self._twin(()).decode([i for i in ids if i not in skipped], skip_special_tokens=False)

    def strings_to_features(self, texts, pairs=None, max_length=512, allowed_special=(), truncation="longest_first"):
        """Makes model inputs of string tensors (B,) through `tf.py_function`: for tf.data, not for SavedModels."""
        self._space(max_length, pairs, truncation)
        names = ("token_ids", "segment_ids", "padding_mask")

        def run(texts, pairs):
            pairs = pairs.numpy().tolist() if paired else None
            features = self(texts.numpy().tolist(), pairs, max_length, allowed_special, truncation)
            return [features[name] for name in names]

        paired = pairs is not None
        arrays = tf.py_function(run, [texts, pairs if paired else texts], [tf.int32] * 3)
        return {name: tf.ensure_shape(array, [None, None]) for name, array in zip(names, arrays, strict=True)}

    def strings_to_ragged(self, texts, allowed_special=()):
        """Token ids of string tensors (B,) without special tokens, through `tf.py_function`: RaggedTensor (B, None)."""

        def run(texts):
            rows = [row[0] for row in self._rows(checked_texts(texts.numpy().tolist(), None), allowed_special)]
            return np.array([i for row in rows for i in row], "int32"), np.cumsum([0] + [len(row) for row in rows])

        ids, splits = tf.py_function(run, [texts], [tf.int32, tf.int64])
        ids, splits = tf.ensure_shape(ids, [None]), tf.ensure_shape(splits, [None])
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def _space(self, max_length, pairs, truncation):
        special = 2 if pairs is None else 2 + FAMILIES[self.family].between
        if truncation not in TRUNCATIONS:
            raise ValueError(f"`truncation` must be one of {', '.join(TRUNCATIONS)}, got {truncation!r}.")
        if max_length < special:
            raise ValueError(f"`max_length` must be at least {special}, for special tokens, got {max_length}.")
        return max_length - special

    def _twin(self, allowed):
        if allowed not in self._twins:
            content = json.loads(self._json)
            # As ordinary added tokens they count in raw text; `encode_special_tokens` leaves the special ones out.
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            known = [entry for entry in content["added_tokens"] if entry["content"] not in self.special_tokens]
            for token in self.special_tokens + allowed:
                if not any(entry["content"] == token for entry in known):
                    entry = {"id": self.token_ids[token], "content": token, "special": token not in allowed}
                    known.append(entry | flags)
            content["added_tokens"] = sorted(known, key=lambda entry: entry["id"])
            twin = tokenizers.Tokenizer.from_str(json.dumps(content))
            twin.encode_special_tokens = True
            if self.family == "roberta":
                twin.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
            self._twins[allowed] = twin
        return self._twins[allowed]

    @functools.cached_property
    def _twins(self):
        return {}

    def _rows(self, texts, allowed_special):
        """Per text: ids, offsets without blanks, word numbers."""
        allowed = checked_special(allowed_special, self.token_ids)
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # a lone surrogate is no character
        encodings = self._twin(allowed).encode_batch(texts, add_special_tokens=False)
        return [self._row(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def _row(self, text, encoding):
        ids, offsets, words = [], [], []
        for i, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if self.family == "albert":
                while start < end and text[start].isspace():
                    start += 1
                if ids and i == ids[-1] == self.unk_id:  # one unknown piece, as SentencePiece has it
                    offsets[-1] = (offsets[-1][0], end)
                    continue
            begins = not ids or start == 0 or text[start - 1].isspace()
            words.append(words[-1] + begins if words else 0)
            ids.append(i)
            offsets.append((start, end))
        return ids, offsets, words

    def _framed(self, *parts):
        family = FAMILIES[self.family]
        ids, offsets, words, segment_ids = [self.cls_id], [(0, 0)], [None], [0]
        for segment, (part_ids, part_offsets, part_words) in enumerate(parts):
            before = family.between - 1 if segment else 0
            ids += [self.sep_id] * before + [*part_ids, self.sep_id]
            offsets += [(0, 0)] * before + [*part_offsets, (0, 0)]
            words += [None] * before + [*part_words, None]
            segment_ids += [segment * family.pair_segment] * (before + len(part_ids) + 1)
        return Encoding(ids, [self.vocab[i] for i in ids], offsets, words, segment_ids)

    def _framing(self):
        cls, sep = (FAMILIES[self.family].cls, self.cls_id), (FAMILIES[self.family].sep, self.sep_id)
        if self.family == "roberta":
            return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
        return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[cls, sep])

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_twins"}


def read_host_tokenizer(folder, config, described):
    """Reads RoBERTa's or ALBERT's files: tokenizer.json, or vocab.json and merges.txt, or spiece.model.

    Args:
        config, described: what tokenizer_config.json and tokenizer.json hold, or empty.
    """
    folder = Path(folder)
    if described:
        twin = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    elif (folder / "vocab.json").is_file():
        twin = tokenizers.Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        twin.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(config.get("add_prefix_space", False)))
        twin.decoder = decoders.ByteLevel()
    else:
        data = (folder / "spiece.model").read_bytes()
        twin = read_spiece(data, config.get("do_lower_case", True), config.get("keep_accents", False))
    return HostTokenizer(twin, "roberta" if "<s>" in twin.get_vocab() else "albert")


def _plain(twin):
    content = json.loads(twin.to_str())
    return json.dumps(content | {"truncation": None, "padding": None, "post_processor": None})
