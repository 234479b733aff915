"""Weights and images by formula, so that fixtures need to hold results only."""

import zlib

import numpy as np


def noise(name, shape):
    """Return values in −1 to 1, spread like a uniform distribution and fixed by `name`."""
    steps = np.arange(np.prod(shape, dtype=np.int64), dtype=np.float64)
    phase = zlib.crc32(name.encode()) % 100_003 / 100_003
    # Fractional parts of multiples of an irrational number; the square decorrelates neighbours.
    fractions = (steps * 0.618033988749895 + steps**2 * 0.414213562373095 + phase) % 1.0
    return (2.0 * fractions - 1.0).astype(np.float32).reshape(shape)


def state_array(name, shape):
    """Return a parameter of a PyTorch model that keeps activations near unit variance."""
    values = noise(name, shape)
    if len(shape) > 1:
        return values * np.float32(np.sqrt(6.0 / np.prod(shape[1:])))  # He's uniform
    if name.endswith("running_var"):
        return 1.0 + 0.5 * values
    if name.endswith("weight"):
        return 1.0 + 0.2 * values
    return 0.1 * values


def image(size):
    """Return an image batch [1, S, S, 3] of whole grey levels, 0–255."""
    return np.round(127.5 + 127.5 * noise("image", (1, size, size, 3)))
