"""Uses TensorFlow. A counter hash: random bits as a function of numbers, not of a generator's state.

What happens to an example is decided by (seed, epoch, example index) and, within it, by a counter such as
the position. No draw depends on another, so neither batch size, order, restart nor the number of workers
changes one.
"""

import tensorflow as tf

# Each use of an example's key has its own stream: two uses with one number would be the same draws.
STREAMS = (
    "mask/choice",
    "mask/action",
    "mask/replacement",
    "pairs/start",
    "pairs/random",
    "pairs/split",
    "pairs/document",
    "pairs/sentence",
    "order",
    "mask/span",
    "pairs/short",
    "pairs/length",
    "packing/order",
    "mask/similar",
    "replaced/token",
)


@tf.function(autograph=False)  # as one operation each, the two hundred of a pipeline are traced faster
def mix(bits):
    """Scrambles uint32 numbers, one to one: each input bit flips each output bit half of the time.

    Source: Chris Wellons, "Prospecting for Hash Functions", `lowbias32`.
    """
    bits = bits ^ tf.bitwise.right_shift(bits, tf.constant(16, tf.uint32))
    bits = bits * tf.constant(0x7FEB352D, tf.uint32)
    bits = bits ^ tf.bitwise.right_shift(bits, tf.constant(15, tf.uint32))
    bits = bits * tf.constant(0x846CA68B, tf.uint32)
    return bits ^ tf.bitwise.right_shift(bits, tf.constant(16, tf.uint32))


def example_key(seed, epoch, example_index):
    """One uint32 an example; the arguments are int64, scalars or (B,)."""
    key = tf.constant(0, tf.uint32)
    for number in (seed, epoch, example_index):
        number = tf.cast(number, tf.int64)
        for half in (number, tf.bitwise.right_shift(number, tf.constant(32, tf.int64))):
            key = draw(key, tf.bitwise.bitwise_and(half, tf.constant(0xFFFFFFFF, tf.int64)))
    return key


def stream(key, use):
    """The example's key for one of `STREAMS`."""
    return draw(key, STREAMS.index(use))


def draw(key, counter):
    """32 random bits for each counter (integers from 0 to 2^32 - 1); key and counter broadcast."""
    # The golden ratio keeps counter 0 from being key 0's fixed point: mix(0) is 0.
    return mix(key ^ mix(tf.cast(counter, tf.uint32) + tf.constant(0x9E3779B9, tf.uint32)))


def below(bits, limit):
    """Turns uint32 bits into int64 numbers from 0 to `limit` - 1 (`limit` from 1 to 2^31 - 1)."""
    return tf.bitwise.right_shift(tf.cast(bits, tf.int64) * tf.cast(limit, tf.int64), tf.constant(32, tf.int64))


def permute(position, count, seed, epoch):
    """Where `position` lies in this epoch's order of `count` examples: one to one on 0 ... `count` - 1.

    Args:
        position: int64 (B,), from 0 to `count` - 1.
        count: Python int.
        seed, epoch: int64, scalars or (B,).

    Returns:
        int64 (B,).

    Source: a Feistel network (Luby and Rackoff 1988) on the least power of two that holds `count`; numbers
    that fall outside walk on until they are inside, which keeps the map one to one.
    """
    bits = max(2, (count - 1).bit_length())
    low_bits = bits // 2
    key = stream(example_key(seed, epoch, 0), "order")
    turn_keys = [draw(key, turn) for turn in range(4)]

    def walk(number):
        left_bits, right_bits = bits - low_bits, low_bits
        for turn_key in turn_keys:
            left = tf.bitwise.right_shift(number, tf.cast(right_bits, tf.int64))
            right = tf.bitwise.bitwise_and(number, tf.constant((1 << right_bits) - 1, tf.int64))
            scrambled = tf.cast(draw(turn_key, right), tf.int64)
            left = left ^ tf.bitwise.bitwise_and(scrambled, tf.constant((1 << left_bits) - 1, tf.int64))
            number = tf.bitwise.left_shift(right, tf.cast(left_bits, tf.int64)) + left
            left_bits, right_bits = right_bits, left_bits
        return number

    def step(number, inside):
        number = tf.where(inside, number, walk(number))
        return number, number < count

    number = tf.cast(position, tf.int64)
    outside = tf.zeros_like(number, tf.bool)
    return tf.while_loop(lambda _, inside: ~tf.reduce_all(inside), step, (number, outside))[0]
