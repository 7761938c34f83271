"""The phases of a pretraining run, each with its length of rows, and the steps at which it is evaluated."""

import dataclasses

EARLY, EVENLY = (0.01, 0.03), 10  # shares of a run after which it is looked at: soon, and then so many times


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps from `first` up to `end` on rows of `max_length` tokens."""

    max_length: int
    first: int
    end: int


def phases_of(steps, lengths, last_share):
    """Divides a run.

    Args:
        lengths: of rows: one, or two, of which the second takes `last_share` of the steps, at least one.

    Returns:
        list of `Phase`.
    """
    if len(lengths) == 1:
        return [Phase(lengths[0], 0, steps)]
    border = steps - max(1, round(steps * last_share))
    return [Phase(lengths[0], 0, border), Phase(lengths[1], border, steps)]


def report_steps(steps, phases):
    """Gives the steps after which a run is evaluated, rising: early ones, evenly spread ones, each phase's last."""
    shares = (*EARLY, *((i + 1) / EVENLY for i in range(EVENLY)))
    found = {int(steps * share + 1e-9) for share in shares} | {phase.end for phase in phases}
    return sorted(found - {0})
