"""Differences between an exported model's outputs and those of its Keras model."""

import os

import cv2
import numpy as np
import tensorflow as tf

from gc_net.data.decode import decode_image, decode_with_size, read_bytes
from gc_net.data.splits import DataError, ImageError
from gc_net.data.transforms import squash
from gc_net.export import preprocessing
from gc_net.prediction.find_images import find_images
from gc_net.prediction.graph import classify, concluded, first_look

_NUM_IMAGES = 4
_NUM_PHOTOS = 40
_PHOTO_SIZE = (900, 1200)
# For photos, in their pixels: files, and the same photos as arrays, each compared with `predict`.
# For speed, large JPEG files are decoded at a reduced size, and arrays are not. So `predict` itself
# finds slightly other boxes in an array than in its file.
PHOTOS = "boxes of photos, in their pixels"
ARRAYS = "boxes of photos given as arrays, in their pixels"
REDUCED = "boxes of photos as arrays and as files decoded at a reduced size, both by predict"
OF_PHOTOS = (PHOTOS, ARRAYS, REDUCED)


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


def compare_saved_model(localizer, folder, limit=1e-3, *, photos=None):
    """Run every signature of a SavedModel on the same images as the Keras model.

    The bytes are PNG files of the model's own size, so nothing is lost or resized. Their close-ups,
    for the second look, are resized by the same operations in both models. Photos then show how
    much decoding and resizing differ.

    Args:
        photos: An argument of `find_images`; its first JPEG and PNG files are compared. Drawn
            photos if None.

    Returns:
        The largest difference of each output, over all signatures. For photos, see `OF_PHOTOS`: the
        difference of boxes from those of `Localizer.predict`.

    Raises:
        RuntimeError: If a difference other than that of photos exceeds `limit`.
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
    files = drawn_photos() if photos is None else read_photos(photos)
    return {**differences, **_largest_shifts(localizer, signatures, files)}


def drawn_photos(num_photos=2, size=_PHOTO_SIZE, seed=0):
    """Return JPEG files of the size of photos, with details of all sizes, as bytes."""
    random = np.random.default_rng(seed)
    files = []
    for _ in range(num_photos):
        image = np.full((*size, 3), 128.0, np.float32)
        for octave in range(2, 9):
            coarse = random.normal(0, 120 / octave, (2**octave, 2**octave, 3)).astype(np.float32)
            image += cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC)
        files.append(cv2.imencode(".jpg", np.clip(image, 0, 255).astype(np.uint8))[1].tobytes())
    return files


def read_photos(photos, num_photos=_NUM_PHOTOS):
    """Return up to `num_photos` files that a SavedModel takes, as bytes."""
    root, names = find_images(photos)
    files = []
    for name in names:
        try:
            data = read_bytes(os.path.join(root, name))
            preprocessing.file_size(tf.constant(data))
        except (ImageError, tf.errors.InvalidArgumentError):
            continue  # of another kind, or too large
        files.append(data)
        if len(files) == num_photos:
            break
    if not files:
        raise DataError(f"None of the images in {root} is a JPEG or PNG file that can be served.")
    return files


def _largest_shifts(localizer, signatures, files):
    """Return the largest differences of boxes of files, and of the arrays in them, by name."""
    largest = {PHOTOS: 0.0, ARRAYS: 0.0}

    def place(image):
        squashed = squash(image, localizer.resize_size)[None]
        return np.asarray(first_look(localizer, squashed, confidence=False)["boxes"])

    for data in files:
        try:
            image, (height, width) = decode_with_size(data, localizer.resize_size)
            whole = decode_image(data)
        except ImageError:
            continue  # damaged
        of_file, of_array = place(image), place(whole)
        served = signatures["serve_bytes"](image_bytes=tf.constant([data]))["boxes"]
        served_array = signatures["serve_uint8"](images=tf.constant(whole[None]))["boxes"]
        pairs = {PHOTOS: (served, of_file), ARRAYS: (served_array, of_array)}
        if image.shape != whole.shape:
            pairs[REDUCED] = of_array, of_file
        for name, (one, other) in pairs.items():
            shift = np.abs(np.asarray(one) - other) * (width, height, width, height)
            largest[name] = max(largest.get(name, 0.0), float(np.max(shift)))
    return largest


def localized(localizer, images):
    """Return the outputs of `localize`, with a second look if the localizer has one."""
    outputs, second = first_look(localizer, images), None
    if localizer.second_look:
        classifier = localizer.close_up_classifier
        sizes = np.full((len(images), 2), images.shape[1], np.int32)
        close_ups = preprocessing.close_ups(
            images, sizes, outputs["boxes"], localizer.second_look, classifier.image_size
        )
        second = classify(classifier, close_ups)
    return concluded(outputs, second)
