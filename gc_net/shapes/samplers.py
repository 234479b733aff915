"""Samplers of coefficients for training a learned generator.

They are stateless, so they work inside a tf.data graph, and any batch can be drawn again.
"""

import math
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.shapes.base import Shape


def _seeds(seed, num_seeds):
    seed = tf.cast(tf.convert_to_tensor(seed), tf.int32)
    if seed.shape != (2,):
        raise ValueError(f"`seed` must be two integers. Received: seed={seed}")
    return tf.unstack(tf.random.split(seed, num_seeds))


def full(shape: "Shape", num_samples: int, seed: Any) -> tf.Tensor:
    """Sample all shapes that a detector can ask for.

    The centre is anywhere in the image, so many shapes cross its border. The longer side goes from
    a few pixels to the whole image. It is uniform for half of the shapes and log-uniform for the
    other half, so that tiny shapes are frequent enough. The shorter side is 0.1 to 1 of it.
    """
    seeds = _seeds(seed, 6)
    draw = [num_samples, 1]
    center = tf.random.stateless_uniform([num_samples, 2], seeds[0])
    position = tf.random.stateless_uniform(draw, seeds[1])
    uniform = 0.03 + 0.97 * position
    log_uniform = tf.exp(math.log(0.03) * (1 - position))
    longer = tf.where(tf.random.stateless_uniform(draw, seeds[2]) < 0.5, uniform, log_uniform)
    shorter = longer * tf.random.stateless_uniform(draw, seeds[3], 0.1, 1.0)
    shorter = tf.maximum(shorter, 0.02)
    extents = _either_way(longer, shorter, seeds[4])
    unit = [center, extents]
    if shape.rotates:
        unit.append(tf.random.stateless_uniform(draw, seeds[5]))
    return shape.from_unit(tf.concat(unit, axis=-1))


def reference(shape: "Shape", num_samples: int, seed: Any) -> tf.Tensor:
    """Sample like the authors' code: no shape crosses the border, and extents are in 0.05–0.95."""
    seeds = _seeds(seed, 5)
    draw = [num_samples, 1]
    size = tf.random.stateless_normal(draw, seeds[0], mean=0.5, stddev=0.25)
    size = tf.clip_by_value(size, 0.05, 0.95)
    ratio = tf.random.stateless_normal(
        draw, seeds[1], mean=1.0, stddev=shape.reference_ratio_deviation
    )
    other = size * tf.clip_by_value(ratio, 0.2, 1.8)
    if shape.reference_ratio_flips:
        extents = _either_way(size, other, seeds[2])
    else:
        extents = tf.concat([size, other], axis=-1)
    longest = tf.reduce_max(extents, axis=-1, keepdims=True)
    extents = tf.maximum(extents * tf.minimum(1.0, 0.95 / longest), 0.05)
    # The centre is uniform, so that the box without rotation lies inside the image.
    center = extents / 2 + tf.random.stateless_uniform([num_samples, 2], seeds[3]) * (1 - extents)
    if not shape.rotates:
        return tf.concat([center, extents], axis=-1)
    angle = (tf.random.stateless_uniform(draw, seeds[4]) - 0.5) * math.pi
    # The authors shrink by 0.98 until the rotated corners fit. The number of times follows from the
    # free room, without a loop.
    cosine, sine = tf.abs(tf.cos(angle)), tf.abs(tf.sin(angle))
    width, height = extents[:, :1], extents[:, 1:]
    reach = tf.concat([width * cosine + height * sine, width * sine + height * cosine], -1) / 2
    room = tf.minimum(center, 1 - center)
    fit = tf.reduce_min(room / reach, axis=-1, keepdims=True)
    shrink = tf.pow(0.98, tf.maximum(tf.math.ceil(tf.math.log(fit) / math.log(0.98)), 0.0))
    return tf.concat([center, extents * shrink, angle], axis=-1)


def _either_way(first, second, seed):
    """Put two columns side by side, in an order that a coin flip decides."""
    heads = tf.random.stateless_uniform(tf.shape(first), seed) < 0.5
    return tf.concat([tf.where(heads, first, second), tf.where(heads, second, first)], axis=-1)


SAMPLERS = Registry("sampler", {"full": full, "reference": reference})
