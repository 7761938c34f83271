"""Shows a benchmark's tables in the terminal, and writes them with what they were measured on as Markdown."""

import argparse
import dataclasses
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from keras_bert.files import replace_file

DISTRIBUTIONS = ("tensorflow", "keras", "tensorflow-text", "keras-hub", "tokenizers", "torch", "transformers")
DISTRIBUTIONS += ("onnxruntime",)
HEADER = """# Results

What was measured, each section by one command. Where the load average is above the number of cores, other programs ran
too: ratios then mean more than milliseconds, and CPU time more than the clock.
"""
ROOT = Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of str under `columns`, the first column being names."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def arguments(description):
    """The parser that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--out", type=Path, help="Markdown file whose section is replaced, for example docs/results.md")
    return parser


def publish(title, tables, out=None):
    """Prints tables; with `out`, replaces the section `title` of that file or appends it."""
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console()
    for table in tables:
        shown = Shown(title=table.title, title_justify="left")
        for column in table.columns:
            shown.add_column(column, justify="left" if column == table.columns[0] else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    console.print(facts())
    if out is not None:
        old = out.read_text(encoding="utf-8") if out.exists() else HEADER
        with replace_file(out) as temporary:
            Path(temporary).write_text(with_section(old, title, markdown(tables)), encoding="utf-8")


def markdown(tables):
    """Facts, then each table under its title."""
    parts = [facts()]
    for table in tables:
        lines = [table.columns, ["---", *["---:"] * (len(table.columns) - 1)], *table.rows]
        parts += [f"**{table.title}**", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts)


def with_section(text, title, body):
    """Gives `text` with its section `## title` replaced, or with a new one at the end."""
    section = f"## {title}\n\n{body}\n"
    old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if old.search(text):
        return old.sub(lambda found: section + ("\n" if found.end() < len(text) else ""), text)
    return f"{text.rstrip()}\n\n{section}"


def facts():
    """Date, commit, cores, load and versions, in a sentence or two."""
    installed = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    versions = [f"{name} {installed[name]}" for name in DISTRIBUTIONS if name in installed]
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{datetime.date.today()}, commit {commit()}, {cores()} cores ({platform.machine()}){load}, "
        f"Python {platform.python_version()}; {', '.join(versions)}."
    )


def cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def commit():
    """The short name of the commit; "+" where tracked files of the package differ from it."""

    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "keras_bert", "training", "export")
    return (git("rev-parse", "--short", "HEAD").strip() or "unknown") + ("+" if changed else "")
