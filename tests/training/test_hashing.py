import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training import hashing
from tests.training import hash_twin

INDEX = np.arange(2000, dtype=np.int64)


def bits_of(values):
    """(n, 32) array of 0 and 1."""
    return (np.asarray(values, np.uint64)[:, None] >> np.arange(32, dtype=np.uint64)) & 1


@pytest.mark.parametrize(("seed", "epoch"), [(0, 0), (7, 3), (-1, 1), (2**40 + 5, 2**33), (2**63 - 1, 10)])
@pytest.mark.parametrize("use", ["mask/choice", "order"])
def test_equals_the_numpy_twin_bit_for_bit(seed, epoch, use):
    key = hashing.stream(hashing.example_key(seed, epoch, INDEX * 2**29), use)
    twin = hash_twin.stream(hash_twin.example_key(seed, epoch, INDEX * 2**29), use)
    np.testing.assert_array_equal(key.numpy(), twin)
    positions = np.arange(50)
    draws = hashing.draw(key[:, None], positions)
    np.testing.assert_array_equal(draws.numpy(), hash_twin.draw(twin[:, None], positions))
    np.testing.assert_array_equal(hashing.below(draws, 12345).numpy(), hash_twin.below(draws.numpy(), 12345))


def test_known_values_do_not_change():
    # Published runs name their seed: other draws for the same seed would make them another run.
    key = hashing.stream(hashing.example_key(7, 1, np.arange(3)), "mask/choice")
    assert key.numpy().tolist() == [177199660, 2513632732, 1756758509]


@pytest.mark.parametrize("axis", ["seed", "epoch", "example_index", "position"])
def test_every_input_bit_flips_every_output_bit_half_of_the_time(axis):
    def draws(flip):
        numbers = {"seed": 5, "epoch": 3, "example_index": INDEX, "position": 11}
        numbers[axis] = numbers[axis] ^ flip
        position = numbers.pop("position")
        return hashing.draw(hashing.example_key(**numbers), position).numpy()

    for bit in range(16):
        flipped = bits_of(draws(0) ^ draws(1 << bit)).mean(axis=0)  # (32,)
        np.testing.assert_allclose(flipped, 0.5, atol=5 * 0.5 / np.sqrt(len(INDEX)))


def test_draws_are_uniform_and_neighbours_are_independent():
    key = hashing.example_key(1, 0, INDEX)
    uniform = hashing.draw(key[:, None], np.arange(100)).numpy() / 2**32  # (2000, 100)
    counts = np.histogram(uniform, bins=64, range=(0, 1))[0]
    expected = uniform.size / 64
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 63) < 5 * np.sqrt(2 * 63)
    bound = 5 / np.sqrt(uniform.size)
    for left, right in ((uniform[:-1], uniform[1:]), (uniform[:, :-1], uniform[:, 1:])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < bound


def test_streams_differ():
    keys = [hashing.stream(hashing.example_key(0, 0, 0), use).numpy() for use in hashing.STREAMS]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 1000])
def test_order_is_a_permutation(count):
    order = hashing.permute(tf.range(count, dtype=tf.int64), count, 3, 1).numpy()
    assert sorted(order) == list(range(count))


def test_order_differs_by_epoch_and_seed_and_mixes_well():
    count = 1000
    position = tf.range(count, dtype=tf.int64)
    first, second, other = (hashing.permute(position, count, *key).numpy() for key in ((3, 1), (3, 2), (4, 1)))
    for a, b in ((first, second), (first, other), (first, position.numpy())):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(count)
        assert (a == b).sum() < 10
    epochs = tf.constant([1, 2] * (count // 2), tf.int64)
    np.testing.assert_array_equal(
        hashing.permute(position, count, 3, epochs).numpy(), np.where(epochs == 1, first, second)
    )
