"""Raw text into documents: a document is a list of sentences, and has a name."""

import hashlib
import re
from importlib import import_module

from keras_bert.training.text_files import numbered_lines

# A sentence ends at one of these marks with what closes behind it. In Chinese nothing follows; in English a space
# and something that can begin a sentence. U+FF0E is a full stop in older Chinese texts, a point between digits.
CLOSING = "\"'”’)\\]）」』》】"
SENTENCE_END = re.compile(
    f"[!?]*[。！？][。！？!?]*[{CLOSING}]*(?![{CLOSING}])"
    f"|(?:[!?]+|．(?![0-9０-９]))[{CLOSING}]*(?=[^\\s\\x00-\\x7f{CLOSING}])"
    f"|[.!?．]+[{CLOSING}]*(?=\\s)"
)
SENTENCE_START = re.compile('\\s*(?:["\'“‘(\\[*（「『《]*[A-Z0-9À-ÖØ-Þ\\u0370-\\U0010ffff]|["“‘(\\[]|$)')
ABBREVIATION = re.compile(
    r"(?<![A-Za-z])(?:(?:[A-Z]\.)*[A-Z]|e\.g|i\.e|cf|vs|viz|al|etc|Mr|Mrs|Ms|Dr|Prof|Rev|Gen|Col|Capt|Lt|Sgt|St|Jr|Sr|Esq"
    r"|Nos?|Vol|Figs?|Eq|Sec|Ch|pp?|eds?|approx|ca|Inc|Ltd|Co|Corp|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\.$"
)
CODE = re.compile(r">>>|::=|[-=~*^+]{4,}|^[|+#@]|^(?:def|class|import|from|for|if|return|print|async) ?.*[:)]$")


def read_documents(paths):
    """Reads text files: every line is a paragraph and is split into sentences, a blank line ends a document.

    So one sentence a line, as BERT's own data has it, and running prose are both read; a paragraph must be one line.

    Args:
        paths: files, UTF-8 with or without a BOM, lines ended by LF or CRLF.

    Returns:
        dict from "file:line" of a document's first line to its sentences.

    Raises:
        ValueError: a file is not UTF-8, or there is not one sentence in all of them.
    """
    documents = {}
    for path in paths:
        name = None
        for number, line in enumerate(read_lines(path), start=1):
            sentences = split_sentences(line)
            if sentences:
                name = name or f"{path}:{number}"
                documents.setdefault(name, []).extend(sentences)
            else:
                name = None
    if not documents:
        raise ValueError(f"The corpus must hold at least one sentence, got none in {[str(path) for path in paths]}.")
    return documents


def read_lines(path):
    """Yields the lines of a UTF-8 file; an error names file and line."""
    return (line for _, line in numbered_lines(path))


def split_sentences(text):
    """Splits a paragraph of English or Chinese prose into sentences, without their outer spaces."""
    sentences, start = [], 0
    for match in SENTENCE_END.finditer(text):
        sentence = text[start : match.end()]
        if SENTENCE_START.match(text, match.end()) and not ABBREVIATION.search(sentence):
            sentences.append(sentence.strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def python_docs():
    """The documentation that ships inside Python, as a corpus: a dict from topic to sentences.

    Headings, code, grammar and tables are left out. Topics quote each other at length, so a paragraph that several
    hold stays only in the shortest of them: no text is in two documents.
    """
    topics = import_module("pydoc_data.topics").topics
    documents, seen = {}, set()
    for topic in sorted(topics, key=lambda topic: (len(topics[topic]), topic)):
        paragraphs = [p for p in prose_paragraphs(topics[topic]) if p not in seen]
        seen.update(paragraphs)
        sentences = [sentence for paragraph in dict.fromkeys(paragraphs) for sentence in split_sentences(paragraph)]
        if sentences:
            documents[topic] = sentences
    return documents


def prose_paragraphs(text):
    """The paragraphs of prose in a page of plain-text reST, each with its wrapped lines joined."""
    paragraphs = []
    for block in re.split(r"\n[ \t]*\n", text):
        for item in re.split(r"\n(?=[ ]*(?:\*|[0-9]+\.|\[[0-9]+\])[ ])", block.strip("\n")):
            paragraph = " ".join(line.strip() for line in item.splitlines())
            paragraph = re.sub(r"^(?:\*|[0-9]+\.|\[[0-9]+\]) +", "", paragraph)  # a list's or a footnote's mark
            paragraph = re.sub(r"(?<![\w*])\*{1,2}([^*\s][^*]*?)\*{1,2}(?![\w*])", r"\1", paragraph)  # emphasis
            paragraph = re.sub(r" +", " ", re.sub(r" \[[0-9]+\]", "", paragraph))
            if is_prose(paragraph):
                paragraphs.append(paragraph)
    return paragraphs


def is_prose(paragraph):
    """Whether a joined block reads as sentences, and is not a heading, a signature, code, grammar or a table."""
    if CODE.search(paragraph):
        return False
    words = re.findall(r"[^\W\d_]{2,}", paragraph)
    letters = sum(character.isalpha() or character == " " for character in paragraph)
    ends = re.search(r"[.!?:][\"'”’)]*$", paragraph) is not None
    return ends and len(words) >= 4 and letters >= 0.75 * len(paragraph) and " = " not in paragraph[:40]


def hold_out(documents, share=0.1):
    """Splits a corpus into documents to train on and documents to evaluate on, by a hash of their names.

    A folder in a name does not count: the same files are split alike wherever they lie.

    Args:
        documents: dict from name to sentences.
        share: of the sentences, the most to hold out, no document more than half of it; but at least two documents.

    Returns:
        Two dicts: to train on, held out.

    Raises:
        ValueError: there are fewer than four documents; sentence pairs need two on each side.
    """
    if len(documents) < 4:
        raise ValueError(
            f"A corpus must have at least 4 documents, two to train on and two to hold out, got {len(documents)}. "
            "Put a blank line between documents."
        )
    limit = share * sum(len(sentences) for sentences in documents.values())
    held, count = [], 0
    for name in sorted(documents, key=lambda name: (hashlib.blake2b(_without_folder(name).encode()).digest(), name)):
        if count + len(documents[name]) <= limit and len(documents[name]) <= limit / 2:
            held.append(name)
            count += len(documents[name])
    for name in sorted(documents, key=lambda name: (len(documents[name]), name)):  # tiny corpora
        if len(held) < 2 and name not in held:
            held.append(name)
    return (
        {name: sentences for name, sentences in documents.items() if name not in set(held)},
        {name: documents[name] for name in held},
    )


def _without_folder(name):
    return re.split(r"[/\\]", name)[-1]
