"""How far an exported model's outputs lie from those of the Keras model it was made from."""

import numpy as np
import tensorflow as tf

from gc_net.export import preprocessing
from gc_net.prediction.graph import classify, concluded, first_look

_NUM_IMAGES = 4


def random_images(size, num_images=_NUM_IMAGES, seed=0):
    """Return smooth random images, uint8 [N, size, size, 3]."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (num_images, 6, 6, 3)).astype(np.float32)
    images = tf.image.resize(coarse, [size, size], method="bicubic").numpy()
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


def largest_differences(expected, found):
    """Return the largest absolute difference of each float output that both have."""
    return {
        name: float(np.max(np.abs(np.asarray(expected[name]) - np.asarray(found[name]))))
        for name in expected
        if name in found and np.asarray(found[name]).dtype.kind == "f"
    }


def compare_saved_model(localizer, folder, limit=1e-3):
    """Run every signature of a SavedModel on the same images as the Keras model.

    PNG files of the model's own size go in as bytes, so that nothing is lost or resized on the way.
    Close-ups of them, for the second look, are resized by the same operations in both.

    Returns:
        The largest difference of each output, over all signatures.

    Raises:
        RuntimeError: If one exceeds `limit`.
    """
    images = random_images(localizer.resize_size)
    expected = localized(localizer, images)
    probabilities = np.asarray(expected.pop("class_probabilities"))
    signatures = tf.saved_model.load(folder).signatures
    inputs = {
        "serving_default": {"images": tf.cast(images, tf.float32)},
        "serve_uint8": {"images": tf.constant(images)},
        "serve_bytes": {"image_bytes": tf.stack([tf.io.encode_png(image) for image in images])},
    }
    differences = {}
    for name, values in inputs.items():
        found = signatures[name](**values)
        expected["class_probabilities"] = np.take_along_axis(
            probabilities, np.asarray(found["class_ids"]), axis=-1
        )
        for output, difference in largest_differences(expected, found).items():
            differences[output] = max(differences.get(output, 0.0), difference)
    if max(differences.values()) > limit:
        raise RuntimeError(
            f"The exported model differs from the Keras model by {differences}, more than {limit}."
        )
    return differences


def localized(localizer, images):
    """Return what `localize` does, with a second look where the localizer has one."""
    outputs, second = first_look(localizer, images), None
    if localizer.second_look:
        classifier = localizer.close_up_classifier
        sizes = np.full((len(images), 2), images.shape[1], np.int32)
        close_ups = preprocessing.close_ups(
            images, sizes, outputs["boxes"], localizer.second_look, classifier.image_size
        )
        second = classify(classifier, close_ups)
    return concluded(outputs, second)
