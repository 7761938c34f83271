import re

import pytest

from keras_bert.training.corpus import (
    hold_out,
    is_prose,
    prose_paragraphs,
    python_docs,
    read_documents,
    split_sentences,
)


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_blank_lines_end_documents_and_files_do_too(tmp_path):
    one = write(tmp_path, "one.txt", "\n\nFirst here.\nSecond.\n \n\nThird.\n")
    two = write(tmp_path, "two.txt", "Fourth")
    assert read_documents([one, two]) == {
        f"{one}:3": ["First here.", "Second."],
        f"{one}:7": ["Third."],
        f"{two}:1": ["Fourth"],
    }


def test_prose_is_split(tmp_path):
    path = write(tmp_path, "prose.txt", "It rained. We stayed in.\nThen the sun came!\n")
    assert list(read_documents([path]).values()) == [["It rained.", "We stayed in.", "Then the sun came!"]]


def test_bom_crlf_and_odd_line_separators(tmp_path):
    path = write(tmp_path, "odd.txt", b"\xef\xbb\xbfOne.\r\n\r\nTwo\xe2\x80\xa8three.\r\n")
    assert read_documents([path]) == {f"{path}:1": ["One."], f"{path}:3": ["Two\u2028three."]}


def test_not_utf8_names_file_line_and_byte(tmp_path):
    path = write(tmp_path, "latin.txt", b"Fine.\nCaf\xe9.\n")
    with pytest.raises(ValueError, match=r"latin\.txt must be UTF-8, line 2 is not: byte 0xe9 at column 4\.$"):
        read_documents([path])


@pytest.mark.parametrize("text", ["", "\n \n\r\n"])
def test_an_empty_corpus_is_an_error(tmp_path, text):
    path = write(tmp_path, "empty.txt", text)
    with pytest.raises(ValueError, match=r"^The corpus must hold at least one sentence, got none in \['.*empty"):
        read_documents([path])


@pytest.mark.parametrize(
    "sentences",
    [
        ["It works.", "Does it?", "Yes!", "Good"],
        ["Mr. Bennet met Dr. J. Watson at 3.14 p.m. yesterday.", "He left."],
        ["Use a list, e.g. a tuple, i.e. something short, etc. and go.", "See PEP 8."],
        ['He said "stop."', '"Why?" she asked.'],
        ["“Is it?” he asked.", "“It is.”", "Silence."],
        ["The value is 1.5.", "2 is larger."],
        ["There--Mr. C.J. Lee of the U.S. Navy--stood.", "Then he left."],
        ["See the docs at docs.python.org.", "(There are many.)", "Call f(x)."],
        ["the method .lower() is fine... and goes on.", "Élan vital."],
        ["你好。", "你是谁？", "“我不知道！”", "他说。", "好"],
        ["此开卷第一回也．", "作者自云：因曾历过一番梦幻之后，故将真事隐去．"],
        ["圆周率约为３．１４。", "对。"],
        ["他说：“走吧。”", "于是（很快地）走了……然后回来。"],
        ["他与T.F. Gilbert合作。", "对吗??！"],
        ["中文。", "English follows.", "再见！", "2010年！?", "“真的吗?”", "是."],
    ],
)
def test_sentences(sentences):
    chinese = any(ord(sentence[0]) > 0x2FFF for sentence in sentences)
    joined = re.sub(r"(?<=[a-z]\.)(?!$)", " ", "".join(sentences)) if chinese else " ".join(sentences)
    assert split_sentences(joined) == sentences


def test_blank_text_has_no_sentence():
    assert split_sentences("  \t ") == []


PAGE = """The "demo" statement
********************

This paragraph is *wrapped* and
joined again [1].

   demo_stmt ::= "demo" expression

Is equivalent to the following code:

   if demo(x):
       print("This is code.")

object.demo(self)

   Called when the **demo** is over, see "x * y * z" there.

* First point of a list, which is
  long enough.

* Second point of the same list.

+------+------+
| a    | b    |

   >>> demo("And this is code too.")

Footnotes
=========

[1] A footnote of at least some words.
"""


def test_prose_paragraphs():
    assert prose_paragraphs(PAGE) == [
        "This paragraph is wrapped and joined again.",
        "Is equivalent to the following code:",
        'Called when the demo is over, see "x * y * z" there.',
        "First point of a list, which is long enough.",
        "Second point of the same list.",
        "A footnote of at least some words.",
    ]


@pytest.mark.parametrize(
    "block", ["object.__len__(self)", "x = [1, 2, 3]", "Notes:", "def f(a, b, c): return a.b.c.", ""]
)
def test_what_is_not_prose(block):
    assert not is_prose(block)


def test_python_docs():
    documents = python_docs()
    assert 60 <= len(documents) <= 100
    sentences = [sentence for document in documents.values() for sentence in document]
    assert 2000 < len(sentences) < 4000
    assert 200_000 < sum(map(len, sentences)) < 400_000
    assert not [s for s in sentences if "\n" in s or "::=" in s or ">>>" in s or "***" in s or not s.strip()]
    # The only sentences in two documents are formulas of a few words; topics quote whole pages of each other.
    names = {}
    for name, document in documents.items():
        for sentence in document:
            names.setdefault(sentence, set()).add(name)
    twice = [sentence for sentence, where in names.items() if len(where) > 1]
    assert len(twice) < 0.02 * len(sentences), twice
    assert python_docs() == documents


def test_held_out_topics_are_a_tenth_and_share_nothing():
    documents = python_docs()
    train, held = hold_out(documents)
    assert train.keys() | held.keys() == documents.keys()
    assert not train.keys() & held.keys()
    count, held_count = (sum(map(len, part.values())) for part in (documents, held))
    assert 0.07 * count <= held_count <= 0.1 * count
    assert len(held) >= 5
    shuffled = dict(sorted(documents.items(), key=lambda item: item[1]))
    assert hold_out(shuffled)[1] == held  # by name, not by place


def test_what_is_held_out_does_not_depend_on_the_folder():
    found = []
    for folder in ("", "here/", "/over/there/", "C:\\texts\\"):
        held = hold_out({f"{folder}{name}.txt:{line}": ["x"] for name in "ab" for line in range(1, 101)})[1]
        found.append([name.removeprefix(folder) for name in held])
    assert len(found[0]) == 20
    assert found == [found[0]] * 4


def test_tiny_corpora_hold_out_two_documents():
    documents = {name: ["x"] * size for name, size in (("a", 5), ("b", 2), ("c", 9), ("d", 2))}
    train, held = hold_out(documents)
    assert (set(train), set(held)) == ({"a", "c"}, {"b", "d"})
    with pytest.raises(ValueError, match=r"^A corpus must have at least 4 documents, two to train on and"):
        hold_out({"a": ["x"], "b": ["y"], "c": ["z"]})
