"""Uses TensorFlow. Tokenized documents in TFRecord files: how a record looks, and reading a folder of them.

A record is a `tf.train.Example` with the part of one document that lies in its shard: "document", its number; "name",
file and line of the part; "token_ids" and "sentence_lengths", little-endian int32 bytes; "word_starts", a bit a token.
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.training.pairs import TokenizedDocuments

MANIFEST = "manifest.json"
FORMAT = 1


def encode_record(document, name, token_ids, sentence_lengths, word_starts):
    """Bytes of one record."""
    values = {
        "name": name.encode(),
        "token_ids": np.asarray(token_ids, "<i4").tobytes(),
        "sentence_lengths": np.asarray(sentence_lengths, "<i4").tobytes(),
        "word_starts": np.packbits(word_starts).tobytes(),
    }
    feature = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value])) for key, value in values.items()}
    feature["document"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[document]))
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return example.SerializeToString(deterministic=True)


def decode_record(record):
    """What `encode_record` was given."""
    feature = tf.train.Example.FromString(record).features.feature
    values = {key: feature[key].bytes_list.value[0] for key in ("name", "token_ids", "sentence_lengths", "word_starts")}
    token_ids = np.frombuffer(values["token_ids"], "<i4")
    return (
        feature["document"].int64_list.value[0],
        values["name"].decode(),
        token_ids,
        np.frombuffer(values["sentence_lengths"], "<i4"),
        np.unpackbits(np.frombuffer(values["word_starts"], np.uint8), count=len(token_ids)).astype(bool),
    )


def read_manifest(folder):
    """The manifest of a folder that `prepare` finished.

    Raises:
        ValueError: there is none.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise ValueError(
            f"{folder} has no {MANIFEST}: it is not a prepared corpus, or not finished. Run `prepare` again."
        )
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if manifest["format"] != FORMAT:
        raise ValueError(f"{path} must have format {FORMAT}, got {manifest['format']}. Run `prepare` again.")
    return manifest


def read_shards(folder, report=None):
    """Reads a prepared corpus into memory: about 4 bytes a token.

    Args:
        folder: what `prepare` wrote.
        report: called with one sentence for each damaged shard, to go on without its rest; with None it is an error.

    Returns:
        TokenizedDocuments, and the documents' names, which are file and line of their beginnings.

    Raises:
        ValueError: the folder is not finished; a shard is missing or damaged, named with the record.
    """
    folder, manifest = Path(folder), read_manifest(folder)
    parts, names, last = [], [], None
    sentences = [0]  # how many sentences each document has
    for shard in manifest["shards"]:
        for record in shard_records(folder / shard["name"], shard["records"], report):
            document, name, *arrays = decode_record(record)
            if document != last:
                names.append(name)
                sentences.append(0)
                last = document
            sentences[-1] += len(arrays[1])
            parts.append(arrays)
    token_ids, lengths, word_starts = map(np.concatenate, zip(*parts, strict=True)) if parts else ((), (), ())
    return TokenizedDocuments(
        token_ids=np.asarray(token_ids, np.int32),
        sentence_starts=np.cumsum([0, *lengths], dtype=np.int64),
        document_starts=np.cumsum(sentences, dtype=np.int64),
        word_starts=np.asarray(word_starts, bool),
    ), names


def shard_records(path, count, report=None):
    """Yields the records of a shard, which must be `count`."""
    number = 0
    if path.is_file():
        records = iter(tf.data.TFRecordDataset(str(path), buffer_size=1 << 20))
        try:
            for record in records:
                yield record.numpy()
                number += 1
        except tf.errors.DataLossError:
            pass  # said below
    if number != count:
        message = f"{path} must have {count} records, it is damaged or ends after record {number}. Run `prepare` again."
        if report is None:
            raise ValueError(message)
        report(message)


def select_documents(documents, numbers):
    """The documents of the given numbers, in that order, as TokenizedDocuments."""
    sentences = flat_ranges(documents.document_starts, numbers)
    tokens = flat_ranges(documents.sentence_starts, sentences)
    lengths, sizes = np.diff(documents.sentence_starts)[sentences], np.diff(documents.document_starts)[numbers]
    return TokenizedDocuments(
        token_ids=documents.token_ids[tokens],
        sentence_starts=np.cumsum([0, *lengths], dtype=np.int64),
        document_starts=np.cumsum([0, *sizes], dtype=np.int64),
        word_starts=documents.word_starts[tokens],
    )


def flat_ranges(starts, numbers):
    """The numbers from starts[n] up to starts[n + 1] for each n, one range after the other, int64."""
    numbers = np.asarray(numbers, np.int64)
    sizes = starts[numbers + 1] - starts[numbers]
    return np.repeat(starts[numbers] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
