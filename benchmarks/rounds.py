"""Times contestants in turns, so that what else the machine does hits all of them alike."""

import dataclasses
import importlib
import importlib.util
import statistics
import time
import typing


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


class Timing(typing.NamedTuple):
    """Seconds by the clock, and seconds of all cores that this process took: the second heeds other programs less."""

    wall: float
    cpu: float


def prepared(contestants, *arguments):
    """Prepares those whose module is installed: dict from names to what `prepare` gives."""
    found = [c for c in contestants if importlib.util.find_spec(c.module)]
    return {c.name: c.prepare(*arguments) for c in found}


def interleaved(runs, rounds):
    """Calls every one of `runs` once a round, each round beginning with another one; one round goes before, untimed.

    Args:
        runs: dict from names to functions without arguments.

    Returns:
        dict from names to lists of `rounds` Timings.
    """
    timings = {name: [] for name in runs}
    names = list(runs)
    for number in range(-1, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = Timing(time.perf_counter(), time.process_time())
            runs[name]()
            if number >= 0:
                timings[name].append(Timing(time.perf_counter() - started.wall, time.process_time() - started.cpu))
    return timings


def medians(timings):
    """The medians of each list, as one Timing."""
    return {name: Timing(*map(statistics.median, zip(*values, strict=True))) for name, values in timings.items()}
