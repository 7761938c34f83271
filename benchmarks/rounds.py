"""Times contestants in turns, so that what else the machine does hits all of them alike."""

import dataclasses
import importlib
import importlib.util
import statistics
import time


@dataclasses.dataclass(frozen=True)
class Contestant:
    """What is measured.

    Args:
        name: as in the table.
        module: what must be installed.
        prepare: (*arguments of the benchmark) -> what is run or asked; imports its module itself.
    """

    name: str
    module: str
    prepare: object


def prepared(contestants, *arguments):
    """Prepares those whose module is installed: dict from names to what `prepare` gives."""
    found = [c for c in contestants if importlib.util.find_spec(c.module)]
    return {c.name: c.prepare(*arguments) for c in found}


def interleaved(runs, rounds):
    """Calls every one of `runs` once a round, each round beginning with another one; one round goes before, untimed.

    Args:
        runs: dict from names to functions without arguments.

    Returns:
        dict from names to lists of `rounds` seconds.
    """
    seconds = {name: [] for name in runs}
    names = list(runs)
    for number in range(-1, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = time.perf_counter()
            runs[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def medians(seconds):
    """The median of each list."""
    return {name: statistics.median(values) for name, values in seconds.items()}
