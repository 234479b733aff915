"""A small network that has learned from silhouettes where objects end.

GrabCut goes by the colours of one image and errs on each in another way. A network that is fitted
on the silhouettes of many images has to find what they have in common, so that it errs less: as
with the detector, the pupil becomes better than its teacher. It is a decoder on a frozen backbone,
whose features are computed once, and says for each cell how likely it is a part of the object.
"""

import contextlib
import dataclasses
import math
from typing import ClassVar

import cv2
import keras
import numpy as np
import tensorflow as tf
from keras import layers

from gc_net.backbones.layers import BatchNormalization
from gc_net.data.splits import DataError
from gc_net.heat_maps import largest_box, largest_parts
from gc_net.metrics import box_iou
from gc_net.stages.config import setting
from gc_net.teachers.base import Lesson, Maps, MapTeacher
from gc_net.teachers.silhouettes import map_source

_CHANNELS = 64
_BATCH_SIZE, _LEARNING_RATE = 64, 3e-3
# Fewest updates: a hundred images have three steps an epoch, and learn next to nothing in four.
_MIN_STEPS = 150
# What it costs to learn from a view, in forward passes of the whole network: measured.
_STEP_PASSES = 0.4
_CUTS = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05)


@dataclasses.dataclass(frozen=True)
class Segmenter(MapTeacher):
    """What is likely enough a part of the object.

    Attributes:
        source: The teacher whose masks the network learns.
        cut: Probability above which a cell counts. narrow is the one at which boxes agree best with
            those of the source's masks, which leave out thin parts; wide with their mean with those
            of its coarse maps, which have a margin. No true box is looked at.
        fit_images: Most images that the network learns from.
        epochs: Passes over these images and their mirror images; more where the images are few.
        seed: Seed of the network's initial weights and of the order of images.
    """

    name: ClassVar[str] = "segmenter"
    source: str = "silhouettes:size=160"
    cut: str = "wide"
    fit_images: int = setting(2000, low=1)
    epochs: int = setting(4, low=1)
    seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        with contextlib.suppress(ValueError):
            if self.cut in ("wide", "narrow") or 0 < float(self.cut) < 1:
                return
        raise ValueError(
            f"`cut` must be wide, narrow, or a number between 0 and 1. Received: cut={self.cut!r}"
        )

    def check(self, lesson: Lesson) -> None:
        map_source(self.source).check(lesson)

    def passes(self, num_images: int) -> float:
        views = 2 * self.epochs * min(num_images, self.fit_images)
        return super().passes(num_images) + _STEP_PASSES * max(views, _MIN_STEPS * _BATCH_SIZE)

    def trunk(self, lesson: Lesson, image_size: int) -> keras.Model:
        return map_source(self.source).trunk(lesson, image_size)

    def fit_maps(self, lesson: Lesson) -> Maps:
        # One network serves all cuts.
        fitted = dataclasses.replace(self, cut="wide", share=1.0, upright=False)
        logits, cuts = lesson.once(("network", fitted), lambda: fitted.fit(lesson))
        cut = float(cuts.get(self.cut, self.cut))
        level = np.log(cut / (1 - cut))
        return Maps(logits.image_size, lambda images: logits(images) - level, level)

    def masks(self, images, maps: np.ndarray, size: int) -> np.ndarray:
        return largest_parts(maps, 2 * maps.shape[1])

    def soft_masks(self, maps: Maps, values: np.ndarray, masks: np.ndarray) -> np.ndarray:
        # All that is likely, not only the largest part, nor beyond a cut.
        return 1 / (1 + np.exp(-(values + maps.level)))

    def fit(self, lesson: Lesson) -> tuple[Maps, dict[str, float]]:
        """Return the network's logits, a function of images, and the cuts by name."""
        source = map_source(self.source)
        maps = lesson.maps(source)
        size = maps.image_size
        trunk = self.trunk(lesson, size)
        taps = [trunk.get_layer(name).output for name in lesson.backbone.feature_layers]
        trunk = keras.Model(trunk.inputs, taps)

        @tf.function(reduce_retracing=True)
        def features(images):
            found = trunk(lesson.classifier.normalize(images), training=False)
            return [tf.cast(each, tf.float16) for each in found]

        keras.utils.set_random_seed(self.seed)
        network = decoder([tap.shape[1:] for tap in taps])
        cells = network.output_shape[1]
        count = len(lesson.data.split)
        chosen = np.linspace(0, count - 1, min(self.fit_images, count)).astype(int)
        # Per image: the features of it and of its mirror image, what to learn, and boxes to meet.
        cached, masks, boxes = [], [], []
        for batch in lesson.batches(size, "Preparing the segmenter", chosen):
            images = batch["image"]
            found = source.masks(images, maps(images), size)
            there = np.flatnonzero(found.any(axis=(1, 2)))
            views = [features(images), features(images[:, :, ::-1])]
            cached.append([np.stack([v[each] for v in views])[:, there] for each in range(3)])
            masks += [_shrunk(found[row], cells) for row in there]
            narrow, coarse = _boxes(found[there]), _boxes(largest_parts(maps(images), size)[there])
            boxes.append(np.stack([narrow, (narrow + coarse) / 2]))
        if not masks:
            raise DataError("No object was found that a segmenter could learn from.")
        cached = [np.concatenate(each, axis=1) for each in zip(*cached, strict=True)]
        masks = np.stack(masks)  # [M, cells, cells]
        _fit(network, cached, masks, self.epochs, self.seed)

        @tf.function(reduce_retracing=True)
        def run(images):
            found = [tf.cast(each, tf.float32) for each in features(images)]
            return network(found, training=False)

        return Maps(size, run), _best_cuts(network, cached, *np.concatenate(boxes, axis=1))


def decoder(feature_shapes: list[tuple], channels: int = _CHANNELS) -> keras.Model:
    """Return a network from three maps, the finest first, to logits at twice the finest's side."""
    inputs = [keras.Input(shape) for shape in feature_shapes]
    x = None
    for features in reversed(inputs):
        dropped = layers.SpatialDropout2D(0.1)(features)
        side = BatchNormalization(momentum=0.9)(layers.Conv2D(channels, 1, use_bias=False)(dropped))
        if x is not None:
            x = layers.Resizing(*side.shape[1:3])(x)
            side = layers.Add()([x, side])
        x = _separable(layers.ReLU()(side), channels)
    x = layers.Conv2D(1, 1, dtype="float32")(_separable(x, channels))
    x = layers.UpSampling2D(2, interpolation="bilinear", dtype="float32")(x)
    return keras.Model(inputs, layers.Reshape(x.shape[1:3])(x), name="segmenter")


def _separable(x, channels):
    x = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
    x = layers.Conv2D(channels, 1, use_bias=False)(x)
    return layers.ReLU()(BatchNormalization(momentum=0.9)(x))


class _Views(keras.utils.PyDataset):
    """Batches of cached features of images and mirror images, in an order of their own."""

    def __init__(self, cached, masks, batch_size, seed):
        super().__init__()
        self.cached, self.masks = cached, masks
        self.batch_size, self.rng = batch_size, np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return max(1, len(self.order) // self.batch_size)

    def __getitem__(self, number):
        rows = self.order[number * self.batch_size :][: self.batch_size]
        mirrored, rows = rows // len(self.masks), rows % len(self.masks)
        masks = self.masks[rows].astype(np.float32)
        masks = np.where(mirrored[:, None, None] > 0, masks[:, :, ::-1], masks)
        return tuple(each[mirrored, rows].astype(np.float32) for each in self.cached), masks

    def on_epoch_end(self):
        self.order = self.rng.permutation(2 * len(self.masks))


def _fit(network, cached, masks, epochs, seed):
    views = _Views(cached, masks, _BATCH_SIZE, seed)
    epochs = max(epochs, math.ceil(_MIN_STEPS / len(views)))
    steps = epochs * len(views)
    warm = max(1, steps // 20)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warm), warmup_target=_LEARNING_RATE, warmup_steps=warm
    )
    network.compile(
        keras.optimizers.AdamW(schedule, weight_decay=1e-2, global_clipnorm=5.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
        jit_compile=False,
    )
    # Built within the first step, it would make TensorFlow trace that twice.
    network.optimizer.build(network.trainable_variables)
    network.fit(views, epochs=epochs, verbose=0)


def _best_cuts(network, cached, narrow, wide):
    """Return the probabilities at which the network's boxes agree best with two sets of boxes."""
    logits = network.predict(
        tuple(each[0].astype(np.float32) for each in cached), batch_size=_BATCH_SIZE, verbose=0
    )
    levels = np.log(_CUTS) - np.log1p(-np.array(_CUTS))
    found = [_boxes(largest_parts(logits - level, 2 * logits.shape[1])) for level in levels]
    return {
        name: _CUTS[int(np.argmax([np.mean(box_iou(each, boxes)) for each in found]))]
        for name, boxes in (("narrow", narrow), ("wide", wide))
    }


def _boxes(masks):
    """Return the boxes [B, 4], relative xyxy, of masks [B, H, W]; zeros where a mask is empty."""
    boxes = np.zeros((len(masks), 4))
    for box, mask in zip(boxes, masks, strict=True):
        if mask.any():
            box[:] = np.array(largest_box(mask)) / len(mask)
    return boxes


def _shrunk(mask, cells):
    return cv2.resize(mask.astype(np.float32), (cells, cells), interpolation=cv2.INTER_AREA)
