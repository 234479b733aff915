"""A trained model that can be used: images of any size in, predictions in their own pixels out."""

import functools
import os

import numpy as np
import tensorflow as tf

from gc_net.data.crops import CloseUps
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import evaluation_batches
from gc_net.prediction.graph import concluded, first_look, geometry, localize, second_look
from gc_net.prediction.inputs import sources_split
from gc_net.prediction.prediction import ClassScore, Ellipse, Prediction
from gc_net.saving import MODEL_FILE, load_model


def load(path, look=None):
    """Return the `Localizer` of a trained model.

    Args:
        path: Folder of a model (with its `model.json`), or of a run that has it in `model/`.
        look: Side of the region of the second look as a multiple of the longer side of the shape's
            box, 0 for none; as the model says if None.

    Example:
        localizer = gc_net.load("runs/birds")
        for prediction in localizer.predict(["a.jpg", "b.png"]):
            print(prediction.class_name, prediction.box_xyxy, prediction.confidence)
    """
    saved = load_model(model_folder(path))
    localizer = Localizer(saved.model, saved.class_names, saved.info)
    return localizer if look is None else localizer.looking(look)


def model_folder(path):
    """Return the folder that holds `model.json`: `path`, or `model` in it."""
    path = os.path.expanduser(os.fspath(path))
    below = os.path.join(path, "model")
    if os.path.exists(os.path.join(below, MODEL_FILE)):
        return below
    return path


class Localizer:
    """Localizes and classifies images of any size.

    An image is squashed to a square, by the code that training and evaluation use, and the networks
    see its central window, as in evaluation: objects are then as large as those that they have
    learned from. The shape is stretched back, exactly. Where the model has a second look, a region
    around the shape is then cut out of the original, and class probabilities are the mean of both.

    Args:
        model: A `GCNet`.
        class_names: Names in label order.
        info: What else is known of the model. Its `resize_size` is the side that images are
            squashed to; without it, the networks see all of a squashed image.

    Attributes:
        resize_size: Side R of the squashed images.
    """

    def __init__(self, model, class_names, info=None):
        if not hasattr(model, "detector"):
            raise ValueError(
                f"This model is a {type(model).__name__}, which names classes but localizes "
                "nothing. Give the folder of a model whose detector has been trained."
            )
        if len(class_names) != model.classifier.num_classes:
            raise ValueError(
                f"The model has {model.classifier.num_classes} classes, and {len(class_names)} "
                "names were given."
            )
        self.model = model
        self.class_names = tuple(class_names)
        self.info = dict(info or {})
        self.resize_size = self.info.get("resize_size") or model.detector.image_size
        self.shape = model.shape
        self._forward = {flag: self._compile(localize, flag) for flag in (False, True)}
        self._first_look = {flag: self._compile(first_look, flag) for flag in (False, True)}
        close = model.closer.image_size
        self._second_look = tf.function(
            lambda close_ups: second_look(model, close_ups),
            input_signature=[tf.TensorSpec([None, close, close, 3], tf.uint8)],
        )

    def looking(self, look):
        """Return a localizer of the same networks with another second look.

        With none it has no namer either: what is never asked need not be exported.

        Args:
            look: As for `load`.
        """
        namer = self.model.namer if look else None
        model = self.model.naming(self.model.classifier, look, namer)
        return Localizer(model, self.class_names, self.info)

    def predict(self, images, batch_size=32, *, confidence=True, top_k=5, unreadable=None):
        """Return a `Prediction` for each image, in order.

        Args:
            images: File names, bytes of files, or RGB arrays in 0–255, of any sizes and mixed as
                you like; one of them, a sequence, or an array [N, H, W, 3].
            batch_size: Images that go through the model at once.
            confidence: Whether to judge each localization, which takes about twice as long.
            top_k: Number of classes to list.
            unreadable: An `Unreadable` that collects images that could not be read, under their
                file name or as `images[3]`. If None, each is logged as a warning.

        Returns:
            A list with one entry an image: a `Prediction`, or None where it could not be read.
        """
        split = sources_split(images, self.class_names)
        predictions = [None] * len(split)
        if len(split):
            found = self.predict_split(
                split, batch_size, confidence=confidence, top_k=top_k, unreadable=unreadable
            )
            for index, prediction in found:
                predictions[index] = prediction
        return predictions

    def predict_split(
        self, split, batch_size=32, *, indices=None, confidence=True, top_k=5, unreadable=None
    ):
        """Yield (index, `Prediction`) of the images of a `Split` that can be read, in order.

        Images are read while the model runs, and only a few batches are in memory at a time.
        Arguments are those of `predict`; `indices` chooses images of the split.

        An image that cannot be read a second time, for the second look, is classified by the first
        alone, with a warning.
        """
        if unreadable is None:
            unreadable = Unreadable(announce=True)
        close_ups = None
        if self.model.look:
            close_ups = CloseUps(split, self.model.closer.image_size, [self.model.look])
            split = close_ups.split
        batches = evaluation_batches(
            split,
            image_size=self.resize_size,
            batch_size=batch_size,
            frame="full",
            indices=indices,
            unreadable=unreadable,
        )
        try:
            for batch in batches:
                sizes, index = batch["size"].numpy(), batch["index"].numpy()
                found = self.predict_squashed(
                    batch["image"],
                    sizes,
                    confidence=confidence,
                    top_k=top_k,
                    closer=close_ups and functools.partial(close_ups.load, index),
                )
                yield from zip(index.tolist(), found, strict=True)
        except tf.errors.OpError:
            # Reading stops with an error where no image at all can be read. Here that is a result.
            failed = {file for file, _ in unreadable}
            wanted = range(len(split)) if indices is None else indices
            if not all(split.file(index) in failed for index in wanted):
                raise

    def predict_squashed(self, images, sizes, *, confidence=True, top_k=5, closer=None):
        """Return the `Prediction`s of images that have been squashed already.

        Args:
            images: uint8 [B, R, R, 3].
            sizes: int [B, 2], height and width that each image had.
            closer: Function of the shapes' boxes [B, 4], relative xyxy, to close-ups of them from
                the originals, see `gc_net.data.crops.CloseUps.load`; without it there is no
                second look.
        """
        outputs = self.forward(images, sizes, confidence=confidence, closer=closer)
        return self.predictions(outputs, sizes, top_k)

    def forward(self, images, sizes, *, confidence=True, closer=None):
        """Return the model's outputs for squashed images and the shapes in pixels, as arrays.

        Arguments are those of `predict_squashed`; for the names, see `gc_net.prediction.graph`.
        """
        functions = self._first_look if closer else self._forward
        outputs = functions[bool(confidence)](images, tf.cast(sizes, tf.float32))
        if closer:
            close_ups, readable = closer(outputs["boxes"].numpy())
            # The mean with itself where there is no second one.
            probabilities = outputs["class_probabilities"].numpy()
            if readable.any():  # TensorFlow fails for empty batches on some CPUs
                probabilities[readable] = self._second_look(close_ups[:, 0]).numpy()
            outputs = concluded(outputs, probabilities)
        return {name: value.numpy() for name, value in outputs.items()}

    def predictions(self, outputs, sizes, top_k=5):
        """Return `Prediction`s from the arrays that `forward` gives."""
        best = np.argsort(-outputs["class_probabilities"], axis=-1, kind="stable")[:, :top_k]
        outputs = {name: value.tolist() for name, value in outputs.items()}
        predictions = []
        for row, size in enumerate(np.asarray(sizes).tolist()):
            corners = ellipse = None
            if self.shape.has_corners:
                corners = tuple(map(tuple, outputs["corners"][row]))
            else:
                x, y, longer, shorter, angle = outputs["ellipse"][row]
                ellipse = Ellipse((x, y), (longer, shorter), angle)
            probabilities = outputs["class_probabilities"][row]
            predictions.append(
                Prediction(
                    size=tuple(size),
                    shape=self.shape.name,
                    coefficients=tuple(outputs["coefficients"][row]),
                    box_xyxy=tuple(outputs["boxes_xyxy"][row]),
                    corners=corners,
                    ellipse=ellipse,
                    classes=tuple(
                        ClassScore(index, self.class_names[index], probabilities[index])
                        for index in best[row].tolist()
                    ),
                    **{
                        name: outputs[name][row]
                        for name in ("object_probability", "background_entropy")
                        if name in outputs
                    },
                )
            )
        return predictions

    def _compile(self, function, confidence):
        size = self.resize_size

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, size, size, 3], tf.uint8),
                tf.TensorSpec([None, 2], tf.float32),
            ]
        )
        def forward(images, sizes):
            outputs = function(self.model, images, confidence)
            return {**outputs, **geometry(self.shape, outputs["coefficients"], sizes)}

        return forward
