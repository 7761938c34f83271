"""The counter hash again, in NumPy and plain Python: what the TensorFlow one must equal bit for bit."""

import numpy as np

from keras_bert.training.hashing import STREAMS

MASK32 = 0xFFFFFFFF


def mix(bits):
    bits = np.asarray(bits, np.uint64)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = bits ^ (bits >> np.uint64(shift))
        bits = (bits * np.uint64(factor)) & np.uint64(MASK32)
    return bits ^ (bits >> np.uint64(16))


def draw(key, counter):
    counter = (np.asarray(counter, np.uint64) + np.uint64(0x9E3779B9)) & np.uint64(MASK32)
    return mix(np.asarray(key, np.uint64) ^ mix(counter))


def example_key(seed, epoch, example_index):
    key = 0
    for number in (seed, epoch, example_index):
        number = np.asarray(number, np.int64)
        for half in (number, number >> 32):
            key = draw(key, half & MASK32)
    return key


def stream(key, use):
    return draw(key, STREAMS.index(use))


def below(bits, limit):
    return (np.asarray(bits, np.uint64) * np.uint64(limit)) >> np.uint64(32)
