"""How long a training will take, said before it begins: images it will see times a pass of one."""

import time

import keras
import numpy as np
import tensorflow as tf

# Below so many images a training is over before its length is worked out.
LEAST_IMAGES = 2_000
_BATCH_SIZE = 8
_ROUNDS = 3


def pass_seconds(network: keras.Model, image_size: int) -> float:
    """Return the time that a forward pass takes for an image, on this machine as busy as it is."""
    images = np.zeros((_BATCH_SIZE, image_size, image_size, 3), np.float32)
    run = tf.function(lambda images: network(images, training=False))
    np.asarray(run(images))  # tracing is no part of it
    taken = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        np.asarray(run(images))
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) / _BATCH_SIZE


def in_words(seconds: float) -> str:
    """Return a rough time: `"half a minute"`, `"14 minutes"`, `"2 ½ hours"`."""
    minutes = seconds / 60
    if minutes < 0.75:
        return "half a minute"
    if minutes < 90:
        rounded = round(minutes) if minutes < 20 else 5 * round(minutes / 5)
        return f"{rounded} minute{'s' * (rounded != 1)}"
    halves = round(minutes / 30)
    return f"{halves // 2}{' ½' if halves % 2 else ''} hours"
