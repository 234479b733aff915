"""What a graph costs is counted as one counts it by hand."""

import numpy as np
import tensorflow as tf

from benchmarks import roofline


def graph_of(function, *shapes):
    arguments = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
    return tf.function(function).get_concrete_function(*arguments).graph


def test_operations_and_bytes_of_a_product():
    operations, moved = roofline.cost(graph_of(tf.matmul, (3, 5), (5, 7)))
    assert operations == 2 * 3 * 5 * 7
    assert moved == 4 * (3 * 5 + 5 * 7 + 3 * 7)


def test_operations_of_a_convolution_and_its_gradients():
    def gradients(images, kernel):
        with tf.GradientTape() as tape:
            tape.watch([images, kernel])
            outputs = tf.nn.conv2d(images, kernel, 1, "SAME")
        return tape.gradient(outputs, [images, kernel])

    once = 2 * (2 * 8 * 8) * (3 * 3 * 4) * 6
    shapes = (2, 8, 8, 4), (3, 3, 4, 6)
    forward, _ = roofline.cost(graph_of(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), *shapes))
    np.testing.assert_allclose(forward, once, rtol=0.01)
    both, _ = roofline.cost(graph_of(gradients, *shapes))
    np.testing.assert_allclose(both, 3 * once, rtol=0.02)
