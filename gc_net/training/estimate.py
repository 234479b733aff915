"""An estimate of how long a training will take: its number of images times a pass of one image."""

import math
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from gc_net.classifier import Classifier

# With fewer images, a training is over before its length is estimated.
LEAST_IMAGES = 2_000
_BATCH_SIZE = 8
_ROUNDS = 3


class Speed(NamedTuple):
    """How fast this machine is under its present load.

    Attributes:
        pass_seconds: A forward pass of the network, for an image of `image_size`.
        call_seconds: A call of the network with one image; in small networks mostly overhead.
        start_seconds: Making the network and its graph.
        image_size: Side of the images.
    """

    pass_seconds: float
    call_seconds: float
    start_seconds: float
    image_size: int

    def at(self, image_size: int) -> float:
        """Return the time of a forward pass for an image of another size."""
        return self.pass_seconds * (image_size / self.image_size) ** 2


def measure(backbone: str, image_size: int) -> Speed:
    """Measure how fast this machine is with a network, in a few seconds."""
    start = time.perf_counter()
    network = Classifier(backbone, 2, image_size, weights=None)
    call = call_seconds(network, image_size, batch_size=1)
    started = time.perf_counter() - start
    return Speed(pass_seconds(network, image_size), call, started, image_size)


def pass_seconds(network: keras.Model, image_size: int) -> float:
    """Return the time of a forward pass for an image, on this machine under its present load."""
    return call_seconds(network, image_size, _BATCH_SIZE) / _BATCH_SIZE


def call_seconds(network: keras.Model, image_size: int, batch_size: int) -> float:
    """Return the time that a call of the network takes with a batch."""
    images = np.zeros((batch_size, image_size, image_size, 3), np.float32)
    run = tf.function(lambda images: network(images, training=False))
    np.asarray(run(images))  # tracing is not timed
    taken = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        np.asarray(run(images))
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


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


def at_least(seconds: float) -> str:
    """Return a time that is not shorter, in the form that `gc_net.settings.read_duration` reads."""
    if seconds <= 90:
        return f"{10 * math.ceil(seconds / 10)}s"
    if seconds <= 90 * 60:
        return f"{math.ceil(seconds / 60)}m"
    return f"{math.ceil(seconds / 3600)}h"
