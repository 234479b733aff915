"""TensorBoard's event files: the logs as curves, and predictions on a few images as pictures.

`tf.summary.scalar` and `tf.summary.image` need an installed TensorBoard; `tf.summary.write` does
not. So this module builds what they would write.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from gc_net.data.pipeline import evaluation_batches
from gc_net.figures import drawing
from gc_net.figures.picture_files import encode

if TYPE_CHECKING:
    from gc_net.training.data import TrainingData

NUM_PICTURES = 8


class Scalars(keras.callbacks.Callback):
    """Write each epoch's logs as TensorBoard scalars; for any model.

    Args:
        log_dir: Folder of the event files; made where it does not exist. The epoch is the step.
    """

    def __init__(self, log_dir: str):
        super().__init__()
        self.log_dir = os.fspath(log_dir)
        self._writer = None

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(self.log_dir)

    def on_epoch_end(self, epoch, logs=None):
        with self._writer.as_default(step=epoch):
            self.write(logs or {})
        self._writer.flush()

    def on_train_end(self, logs=None):
        self._writer.close()

    def write(self, logs: Mapping[str, float]) -> None:
        """Write the summaries of an epoch."""
        for name, value in logs.items():
            _write(name, np.float32(value), "scalars")


class ImageSummaries(Scalars):
    """Write the scalars, and the predictions of a `GCNet` on the same images after each epoch.

    Each image becomes a strip: the image with the shape in black and its box in blue, the mask,
    and the object and background images as the classifier sees them.

    Args:
        log_dir: Folder of the event files.
        images: [N, S, S, 3] RGB in 0–255, of the model's size; a handful.
        captions: Their names; numbers by default.
        longer_side: Side of each picture in pixels.

    Example:
        model.fit(batches, callbacks=[ImageSummaries("run/tensorboard", images[:8])])
        # tensorboard --logdir=run/tensorboard
    """

    def __init__(
        self,
        log_dir: str,
        images: np.ndarray,
        captions: Sequence[str] | None = None,
        longer_side: int = 224,
    ):
        super().__init__(log_dir)
        self.images = np.asarray(images)
        if self.images.ndim != 4 or self.images.shape[-1] != 3:
            raise ValueError(
                f"`images` must be [N, S, S, 3]. Received: images.shape={self.images.shape}"
            )
        self.captions = captions or [f"{index:02d}" for index in range(len(self.images))]
        self.longer_side = longer_side

    def write(self, logs):
        super().write(logs)
        for caption, pictures in zip(self.captions, self.pictures(), strict=True):
            strip = np.concatenate(list(pictures.values()), axis=1)
            size = [str(side).encode() for side in strip.shape[1::-1]]
            _write(f"images/{caption}", np.array([*size, encode(".png", strip)], object), "images")

    def pictures(self) -> list[dict[str, np.ndarray]]:
        """Return, for each image, a dict of `prediction`, `mask`, `object` and `background`."""
        model = self.model
        images = tf.convert_to_tensor(self.images, tf.float32)
        coefficients = model.detector(images, training=False)
        masks, objects, backgrounds = model.mask(images, coefficients)
        outlines_rel = np.asarray(model.shape.outline(coefficients))
        boxes_rel_xyxy = np.asarray(model.shape.boxes(coefficients))
        display = drawing.denormalizer(model.classifier.normalize)
        objects, backgrounds = display(objects), display(backgrounds)
        result = []
        for index, image in enumerate(drawing.to_uint8(self.images)):
            prediction = drawing.draw_prediction(
                image,
                outline_rel=outlines_rel[index],
                box_rel_xyxy=boxes_rel_xyxy[index],
                longer_side=self.longer_side,
            )
            mask = drawing.mask_image(masks[index])
            others = {"mask": mask, "object": objects[index], "background": backgrounds[index]}
            for name, picture in others.items():
                others[name] = drawing.resize(picture, self.longer_side)
            result.append({"prediction": prediction, **others})
        return result


def some_pictures(data: "TrainingData") -> np.ndarray:
    """Return a few training images [N, S, S, 3] as the networks see them, without augmentation."""
    count = min(NUM_PICTURES, len(data.split))
    indices = np.linspace(0, len(data.split) - 1, count).astype(int)
    batches = evaluation_batches(
        data.split,
        image_size=data.image_size,
        resize_size=data.resize_size,
        batch_size=count,
        indices=indices,
        cache=data.cache,
        unreadable=data.unreadable,
    )
    return np.concatenate([batch["image"].numpy() for batch in batches])


def _write(tag, value, plugin):
    """Write a value for one of TensorBoard's plugins, at the default writer's step.

    A scalar is a float; an image is [width, height, PNG file], all three as strings.
    """
    metadata = tf.compat.v1.SummaryMetadata(
        display_name=tag, plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin)
    )
    tf.summary.write(tag, tf.constant(value), metadata=metadata)
