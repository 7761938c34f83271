"""Uses TensorFlow. Text into shards of tokenized documents: streaming, in several processes, restartable.

The reading process cuts the corpus into chunks of about `CHUNK` characters, whatever the number of processes; a chunk
becomes a shard. A shard is written under another name and renamed, with a description beside it that holds a hash of
its text and settings: what a killed run finished is found again by that hash.
"""

import concurrent.futures
import hashlib
import itertools
import json
import multiprocessing
import re
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.files import replace_file
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.child_process import end_with_parent
from keras_bert.training.corpus import split_sentences
from keras_bert.training.shards import FORMAT, MANIFEST, encode_record
from keras_bert.training.text_files import corpus_lines, find_files
from keras_bert.training.words import find_segmenter, tokenize_words

CHUNK = 1 << 22  # characters of text in a shard
TEXTS_AT_ONCE = 1 << 17  # characters tokenized together
OURS = re.compile(r"(shard-\d{5}\.(tfrecord|json)|manifest\.json|vocab\.txt|tokenizer(_config)?\.json|\..*\.tmp)")


def prepare(corpus, out, tokenizer, segmenter=None, processes=1, skip_bad=False, chunk=CHUNK, progress=None):
    """Tokenizes a corpus into `out`: TFRecord shards, the tokenizer's files, and at the end `manifest.json`.

    Run again after a kill, or with a longer corpus, it keeps the shards whose text and settings are the same. The
    result does not depend on `processes`.

    Args:
        corpus: names and globs of text files as `corpus_lines` reads them.
        tokenizer: `Tokenizer`.
        segmenter: None, "jieba", "spaces" or a function, which must be importable if there are more processes.
        skip_bad: whether to go on without the lines that cannot be read; the manifest lists them.
        chunk: characters of text in a shard.
        progress: called with (shards, characters) after each shard.

    Returns:
        dict, as in `manifest.json`: counts of documents, sentences, tokens; hash of the vocabulary; settings; shards
        with their counts and checksums; "skipped", what was left out.

    Raises:
        ValueError: a file cannot be read, with its line; `out` holds other files; there is no sentence.
    """
    files, out = find_files(corpus), Path(out)
    check_folder(out)
    find_segmenter(segmenter)  # a wrong one is told before any work
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    for rest in out.glob(".*.tmp"):
        rest.unlink()  # a killed run's
    tokenizer.save(out)
    settings = describe(tokenizer, segmenter)
    skipped, shards, characters = [], [], 0
    chunks = cut(corpus_lines(files, skipped.append if skip_bad else None), chunk)
    jobs = ((out / f"shard-{number:05}.tfrecord", parts, settings) for number, parts in enumerate(chunks))
    for size, shard in run_jobs(jobs, out, segmenter, processes):
        shards.append(shard)
        characters += size
        if progress:
            progress(len(shards), characters)
    for number in itertools.count(len(shards)):
        old = out / f"shard-{number:05}.tfrecord"
        if not old.exists() and not old.with_suffix(".json").exists():
            break
        old.unlink(missing_ok=True)
        old.with_suffix(".json").unlink(missing_ok=True)
    manifest = {"format": FORMAT, **totals(shards), **settings, "skipped": skipped, "shards": shards}
    if not manifest["sentences"]:
        raise ValueError(f"The corpus must hold at least one sentence, got none in {files}.")
    write_json(manifest, out / MANIFEST)
    return manifest


def describe(tokenizer, segmenter):
    """The settings that a shard depends on, and the vocabulary's hash."""
    name = f"{segmenter.__module__}.{segmenter.__qualname__}" if callable(segmenter) else segmenter
    settings = {key: value for key, value in tokenizer.get_config().items() if key != "vocab"}
    vocab = hashlib.sha256("\n".join(tokenizer.vocab).encode()).hexdigest()
    described = {"vocab_size": tokenizer.vocab_size, "vocab_sha256": vocab, "tokenizer": settings, "segmenter": name}
    return json.loads(json.dumps(described))


def cut(lines, chunk):
    """Lists of lines of about `chunk` characters; a long document goes on in the next list."""
    part, size = [], 0
    for line in lines:
        part.append(line)
        size += len(line[2])
        if size >= chunk:
            yield part
            part, size = [], 0
    if part:
        yield part


def run_jobs(jobs, out, segmenter, processes):
    """Yields (characters, description) of each shard in order, with at most `processes` + 1 chunks in memory."""
    if processes == 1:
        start_worker(str(out), segmenter)
        yield from (make_shard(*job) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    options = {"mp_context": context, "initializer": start_worker, "initargs": (str(out), segmenter, True)}
    with concurrent.futures.ProcessPoolExecutor(processes, **options) as pool:
        running = []
        try:
            for job in jobs:
                running.append(pool.submit(make_shard, *job))
                if len(running) > processes:
                    yield running.pop(0).result()
            while running:
                yield running.pop(0).result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


WORKER = {}


def start_worker(folder, segmenter, alone=False):
    """Loads what a process needs for all its shards."""
    if alone:
        end_with_parent()
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    WORKER.update(tokenizer=Tokenizer.from_folder(folder), segmenter=find_segmenter(segmenter))


def make_shard(path, lines, settings):
    """Writes one shard and its description, or finds them as a run before left them.

    Args:
        lines: of (document, place, line).

    Returns:
        how many characters the lines have, and the shard's description.
    """
    size = sum(len(line) for _, _, line in lines)
    source = hashlib.sha256(json.dumps([settings, lines]).encode()).hexdigest()
    note = path.with_suffix(".json")
    if path.is_file() and note.is_file():
        shard = json.loads(note.read_text(encoding="utf-8"))
        if shard["source"] == source and shard["sha256"] == checksum(path):
            return size, shard
    shard = {"name": path.name, "records": 0, "sentences": 0, "tokens": 0, "documents": [], "source": source}
    with replace_file(path) as temporary:
        with tf.io.TFRecordWriter(str(temporary)) as writer:
            for document, place, token_ids, lengths, starts in tokenize_lines(lines):
                writer.write(encode_record(document, place, token_ids, lengths, starts))
                shard["records"] += 1
                shard["sentences"] += len(lengths)
                shard["tokens"] += len(token_ids)
                shard["documents"] = [*shard["documents"][:1], document]
        shard["sha256"] = checksum(temporary)
    write_json(shard, note)
    return size, shard


def tokenize_lines(lines):
    """Yields document, place, token ids, sentence lengths and word starts of each document that has a token.

    Sentences without a token are left out. Texts of many documents are tokenized together.
    """
    sentences, owners, names = [], [], {}
    for document, place, line in lines:
        names.setdefault(document, place)
        found = split_sentences(line)
        sentences += found
        owners += [document] * len(found)
    parts = [tokenize_words(texts, WORKER["tokenizer"], WORKER["segmenter"]) for texts in batched(sentences)]
    if not parts:
        return
    token_ids, lengths, starts = map(np.concatenate, zip(*parts, strict=True))
    owners, lengths = np.array(owners)[lengths > 0], lengths[lengths > 0]
    token_owners = np.repeat(owners, lengths)
    for document, place in names.items():
        first, end = np.searchsorted(token_owners, [document, document + 1])
        if end > first:
            yield document, place, token_ids[first:end], lengths[owners == document], starts[first:end]


def batched(sentences):
    """Lists of sentences of about `TEXTS_AT_ONCE` characters."""
    part, size = [], 0
    for sentence in sentences:
        part.append(sentence)
        size += len(sentence)
        if size >= TEXTS_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def totals(shards):
    """Counts over all shards; a document that lies in two is one."""
    filled = [shard for shard in shards if shard["records"]]
    joined = sum(one["documents"][-1] == two["documents"][0] for one, two in itertools.pairwise(filled))
    counts = {name: sum(shard[name] for shard in shards) for name in ("sentences", "tokens")}
    return {"documents": sum(shard["records"] for shard in shards) - joined, **counts}


def checksum(path):
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(content, path):
    """Writes a JSON file whole or not at all."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_folder(out):
    """Refuses a folder that holds anything but a prepared corpus, or a part of one."""
    other = sorted(path.name for path in out.iterdir() if not OURS.fullmatch(path.name)) if out.is_dir() else [out.name]
    if other and out.exists():
        raise ValueError(
            f"{out} must be a new folder or one that `prepare` wrote, it has {other[0]}. Name another folder."
        )
