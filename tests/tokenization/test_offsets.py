"""Offsets in UTF-16 units and bytes, and the clients' snippets of docs/offsets.md, run where their language is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keras_bert.tokenization import convert_offsets
from tests.tokenization import made

PAGE = Path(__file__).parents[2] / "docs" / "offsets.md"
TEXTS = ["café 👩‍💻 the quick!", "cafe\u0301 the", "😀😀 the 中国, 𝒳y", "\U0001f1eb\U0001f1f7the", "plain the"]
TEXTS.append("e\u0301")
AROUND = {  # by language: what stands before and behind the snippet, and how the file is run
    "javascript": (
        "",
        """
const [, , from] = process.argv;
const lines = require("fs").readFileSync(from, "utf8").trimEnd().split("\\n");
for (const [start, end, text] of lines.map((line) => line.split("\\t")))
  console.log(text.slice(utf16Place(text, +start), utf16Place(text, +end)));
""",
        "node {file} {lines}",
    ),
    "java": (
        "public class Snippet {",
        """
    public static void main(String[] args) throws Exception {
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (var line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(args[0]))) {
            var parts = line.split("\\t");
            int start = Integer.parseInt(parts[0]), end = Integer.parseInt(parts[1]);
            out.println(parts[2].substring(utf16Place(parts[2], start), utf16Place(parts[2], end)));
        }
    }
}
""",
        "java {file} {lines}",
    ),
    "cpp": (
        "#include <fstream>\n#include <iostream>\n#include <sstream>\n#include <string>\n",
        """
int main(int, char** argv) {
    std::ifstream lines(argv[1]);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream parts(line);
        std::size_t start, end;
        parts >> start >> end;
        std::string text;
        std::getline(parts.ignore(), text);
        std::cout << text.substr(utf8_place(text, start), utf8_place(text, end) - utf8_place(text, start)) << "\\n";
    }
}
""",
        "g++ -Wall -Werror -o {file}.out {file} && {file}.out {lines}",
    ),
}
NAMES = {"javascript": "snippet.js", "java": "Snippet.java", "cpp": "snippet.cpp"}


def tokens():
    """(text, start, end) of every token of every text."""
    tokenizer = made.of_small()
    return [
        (text, start, end)
        for text, encoding in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True)
        for start, end in encoding.offsets[1:-1]
    ]


def test_conversion_agrees_with_python_s_codecs():
    found = tokens()
    assert len(found) > 15
    for text, start, end in found:
        covered = text[start:end]
        ((first, last),) = convert_offsets(text, [(start, end)], "utf-16")
        assert text.encode("utf-16-le")[2 * first : 2 * last].decode("utf-16-le") == covered
        ((first, last),) = convert_offsets(text, [(start, end)], "utf-8")
        assert text.encode()[first:last].decode() == covered
    assert convert_offsets("a😀b", [(0, 0), (2, 3)], "utf-16") == [(0, 0), (3, 4)]
    assert convert_offsets("a😀b", [(2, 3)], "utf-8") == [(5, 6)]


@pytest.mark.parametrize(
    ("offsets", "unit", "message"),
    [
        ([(0, 1)], "utf-32", "`unit` must be one of utf-16, utf-8, got 'utf-32'"),
        ([(0, 4)], "utf-8", "`offsets` must lie within the 3 code points of the text, got 4"),
        ([(-1, 2)], "utf-16", "`offsets` must lie within the 3 code points of the text, got -1"),
    ],
)
def test_bad_offsets_are_named(offsets, unit, message):
    with pytest.raises(ValueError, match=message):
        convert_offsets("a😀b", offsets, unit)


@pytest.mark.parametrize("language", AROUND)
def test_snippets_of_the_page(language, tmp_path):
    before, behind, command = AROUND[language]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"needs {command.split()[0]}, which is not installed")
    (snippet,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file, lines = tmp_path / NAMES[language], tmp_path / "lines.tsv"
    file.write_text(before + snippet + behind, encoding="utf-8")
    found = tokens()
    lines.write_text("".join(f"{start}\t{end}\t{text}\n" for text, start, end in found), encoding="utf-8")
    result = subprocess.run(command.format(file=file, lines=lines), shell=True, capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout.decode().splitlines() == [text[start:end] for text, start, end in found]
