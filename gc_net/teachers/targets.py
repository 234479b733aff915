"""What a detector is warmed up with: a shape for every training image, from labels at most.

The teacher is deep descriptor transforming, which knows where objects are from ImageNet weights
alone, or a model that an earlier run has trained: its shapes, with those left out on which it
disagrees with itself when the image is mirrored, are better than what it learned from.
"""

import numpy as np
import tensorflow as tf

from gc_net.data import transforms
from gc_net.data.pipeline import evaluation_batches, num_steps
from gc_net.data.splits import DataError
from gc_net.metrics import box_iou
from gc_net.progress import track
from gc_net.saving import load_model
from gc_net.shapes.base import Shape
from gc_net.stages.run_folder import RunError, read_array, write_array
from gc_net.teachers.descriptors import Transform, describer, largest_parts
from gc_net.teachers.silhouettes import silhouettes

DESCRIPTORS = "descriptors"
_BATCH_SIZE = 32


def find_targets(config, classifier, data, shape, path, write=True):
    """Return shapes [N, n] for the training images, relative to the whole images.

    Rows of images without one (nothing was found, unreadable, in doubt) are NaN.

    Args:
        config: A `TrainConfig`.
        classifier: The trained `Classifier`, which may describe the images.
        data: The `TrainingData`.
        shape: The `Shape` to fit.
        path: File to take the result from, where it exists, and else to write it to.
        write: Whether to write it.
    """
    found = read_array(path, "coefficients")
    if found is not None:
        return found
    if config.warmup.teacher == DESCRIPTORS:
        coefficients = described(config, classifier, data, shape)
    else:
        coefficients = taught(config, data, shape)
    if np.isnan(coefficients).all():
        raise DataError(
            f"No object was found in any of the {len(data.split)} training images, so there is "
            "nothing to warm up with. Use --warmup_epochs=0."
        )
    if write:
        write_array(path, coefficients=coefficients)
    return coefficients


def check_teacher(config, data, shape):
    """Raise where the teacher that the settings name has nothing to teach; as `find_targets`."""
    if config.warmup.teacher != DESCRIPTORS:
        _teacher(config, data, shape)
    elif config.warmup.descriptors == "backbone" and config.network.weights == "none":
        raise RunError(
            "A backbone without weights describes nothing, and the warm-up needs descriptors. Use "
            "--warmup_descriptors=classifier, or --warmup_epochs=0."
        )


def described(config, classifier, data, shape):
    """Return the shapes that deep descriptor transforming gives, as `find_targets` does."""
    settings, split = config.warmup, data.split
    size = settings.descriptor_size
    transform = Transform(_describer(config, classifier))

    def batches(indices=None):
        return evaluation_batches(
            split,
            image_size=size,
            batch_size=_BATCH_SIZE,
            frame="full",
            indices=indices,
            unreadable=data.unreadable,
        )

    count = min(settings.descriptor_images, len(split))
    chosen = np.linspace(0, len(split) - 1, count).astype(int)
    fitting = track(
        batches(chosen), num_steps(count, _BATCH_SIZE, drop_remainder=False), "Fitting descriptors"
    )
    transform.fit(batch["image"] for batch in fitting)
    coefficients = np.full((len(split), shape.num_coefficients), np.nan, np.float32)
    for batch in track(
        batches(), num_steps(len(split), _BATCH_SIZE, drop_remainder=False), "Describing images"
    ):
        maps = transform(batch["image"])
        if settings.silhouettes:
            masks = silhouettes(batch["image"], maps)
        else:
            masks = largest_parts(maps, size)
        for index, mask in zip(batch["index"].numpy(), masks, strict=True):
            if mask.any():
                coefficients[index] = shape.fit(mask, settings.upright)
    return coefficients


def taught(config, data, shape):
    """Return the shapes that an earlier model places, where it agrees with itself."""
    teacher = _teacher(config, data, shape)
    window = transforms.center_window(data.resize_size, data.image_size)

    @tf.function(reduce_retracing=True)
    def place(images):
        return teacher.shape.decode(teacher.detector(tf.cast(images, tf.float32)))

    coefficients = np.full((len(data.split), shape.num_coefficients), np.nan, np.float32)
    agreement = np.full(len(data.split), -1.0)
    batches = evaluation_batches(
        data.split,
        image_size=data.image_size,
        resize_size=data.resize_size,
        batch_size=_BATCH_SIZE,
        cache=data.cache,
        unreadable=data.unreadable,
    )
    for batch in track(
        batches, num_steps(len(data.split), _BATCH_SIZE, drop_remainder=False), "Asking the teacher"
    ):
        images, index = batch["image"], batch["index"].numpy()
        upright = place(images).numpy()
        mirrored = shape.mirrored(place(images[:, :, ::-1]).numpy())
        agreement[index] = box_iou(shape.boxes(upright), shape.boxes(mirrored))
        mean = shape.mean(np.stack([upright, mirrored]))
        rows = np.tile([window.top, window.left, 0], (len(index), 1))
        coefficients[index] = out_of_windows(mean, rows, data.resize_size, data.image_size)
    num_kept = round(config.warmup.teacher_keeps * len(data.split))
    doubtful = np.argsort(-agreement, kind="stable")[num_kept:]
    coefficients[doubtful] = np.nan
    return coefficients


def in_windows(coefficients, windows, resize_size, image_size):
    """Map shapes from the whole squashed image to windows of it.

    Args:
        coefficients: [N, n] relative to the whole image.
        windows: [N, 3] rows of (top, left, flip), see `transforms.random_windows`.

    Returns:
        [N, n] relative to the windows; a shape may reach beyond its own.
    """
    top, left, flip = np.asarray(windows, np.float32).T
    placed = np.array(coefficients, np.float32)
    placed[:, 0] = (placed[:, 0] * resize_size - left) / image_size
    placed[:, 1] = (placed[:, 1] * resize_size - top) / image_size
    placed[:, 2:4] *= resize_size / image_size
    return np.where(flip[:, None] > 0, Shape.mirrored(placed), placed)


def out_of_windows(coefficients, windows, resize_size, image_size):
    """Invert `in_windows`."""
    top, left, flip = np.asarray(windows, np.float32).T
    placed = np.array(coefficients, np.float32)
    placed = np.where(flip[:, None] > 0, Shape.mirrored(placed), placed)
    return np.asarray(Shape.out_of_window(placed, (top, left, 0), resize_size, image_size))


def _describer(config, classifier):
    """Return the function of images to descriptors that the settings ask for."""
    trunk = classifier.backbone.trunk(config.warmup.descriptor_size)
    if config.warmup.descriptors == "classifier":
        # The same weights at another image size.
        trunk.set_weights(classifier.trunk.get_weights())
    else:
        classifier.backbone.load_weights(trunk, weights=config.network.weights)
    return describer(classifier, trunk)


def _teacher(config, data, shape):
    """Return the model that the settings name as the teacher."""
    try:
        teacher = load_model(config.warmup.teacher).model
    except ValueError as error:
        raise RunError(
            f"--warmup_teacher must be {DESCRIPTORS!r} or the folder of a trained model. {error}"
        ) from error
    if not hasattr(teacher, "detector"):
        raise RunError(
            f"The teacher in {config.warmup.teacher} is a {type(teacher).__name__}, which "
            "localizes nothing. Give the folder of the model that a detector's training wrote."
        )
    found = (teacher.shape.name, teacher.detector.image_size)
    expected = (shape.name, data.image_size)
    if found != expected:
        raise RunError(
            f"The teacher in {config.warmup.teacher} places a {found[0]} in images of {found[1]} "
            f"pixels; this run has a {expected[0]} in {expected[1]}. They must be the same."
        )
    return teacher
