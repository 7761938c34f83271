import pytest

from keras_bert.training.phases import Phase, phases_of, report_steps


def test_phases_share_the_steps():
    assert phases_of(1000, (128, 512), 0.1) == [Phase(128, 0, 900), Phase(512, 900, 1000)]
    assert phases_of(1000, (128,), 0.1) == [Phase(128, 0, 1000)]
    assert phases_of(3, (8, 16), 0.1) == [Phase(8, 0, 2), Phase(16, 2, 3)]


@pytest.mark.parametrize(
    ("steps", "lengths", "expected"),
    [
        (20, (8,), list(range(2, 21, 2))),
        (1000, (8,), [10, 30, *range(100, 1001, 100)]),
        (1000, (8, 16), [10, 30, *range(100, 800, 100), 750, 800, 900, 1000]),
        (3, (8,), [1, 2, 3]),
        (1009, (8,), [10, 30, 100, 201, 302, 403, 504, 605, 706, 807, 908, 1009]),
    ],
)
def test_a_run_is_looked_at_early_evenly_and_at_the_end_of_each_phase(steps, lengths, expected):
    assert report_steps(steps, phases_of(steps, lengths, 0.25)) == expected
