"""A trained localizer: it predicts on images of any size, in their own pixels."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gc_net import engines
from gc_net.backbones.network import Network
from gc_net.classifier import Classifier
from gc_net.data.crops import check_second_look
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import evaluation_batches
from gc_net.data.splits import Split
from gc_net.detector import Detector, Placement
from gc_net.engines.base import Engine, Forward
from gc_net.engines.sharing import Pair
from gc_net.generators.model import ModelGenerator
from gc_net.masking import inside_and_outside
from gc_net.model import check_parts
from gc_net.prediction.graph import concluded, first_look
from gc_net.prediction.inputs import sources_split
from gc_net.prediction.more_objects import find_objects
from gc_net.prediction.prediction import OUTLINE_POINTS, Prediction
from gc_net.prediction.second_look import SecondLook, close_up_graph
from gc_net.shapes.base import Shape
from gc_net.training_record import TrainingRecord

# Names of the networks, in the order of their weights' file.
PARTS = ("detector", "generator", "classifier", "second_classifier")


def load(path: str | os.PathLike, second_look: float | None = None) -> "Localizer":
    """Return the `Localizer` in a folder.

    Args:
        path: Folder of a model (with its `model.json`), or of a run that has it in `model/`.
        second_look: As for `Localizer`; the model's own if None.

    Example:
        localizer = gc_net.load("runs/birds")
        for prediction in localizer.predict(["a.jpg", "b.png"]):
            print(prediction.class_name, prediction.box_xyxy, prediction.confidence)
    """
    localizer = Localizer.load(path)
    return localizer if second_look is None else localizer.replace(second_look=second_look)


class Localizer:
    """Localizes and classifies images of any size, with trained networks.

    An image is squashed to a square by the code of training, and the networks see its central
    window. So objects are as large as in training. The shape is stretched back, exactly. With a
    second look, a region around the shape is then cut out of the original, and class probabilities
    are the mean of both.

    Evaluation, teachers, figures, export and serving use the same code.

    Args:
        detector: A `Detector`.
        generator: A `ModelGenerator` or `LearnedGenerator`, which draws the masks of the evidence.
        classifier: A `Classifier`.
        class_names: Names in label order.
        resize_size: Side R of the squashed images; the detector's image size if None, so that it
            sees whole images.
        second_look: Side of the region of the second look, as a multiple of the longer side of the
            shape's box; 0 for none.
        mirror: Whether each shape is the mean of those in an image and in its mirror image, which
            takes one more pass of the detector.
        second_classifier: A `Classifier` for the second look, with its own image size; if None, the
            classifier looks twice.
        record: A `TrainingRecord` of the training.

    Example:
        localizer = Localizer(detector, generator, classifier, ["ant", "bee"], resize_size=146)
        localizer.save("saved_models/insects")
        gc_net.load("saved_models/insects").predict(["photo.jpg"])
    """

    def __init__(
        self,
        detector: Detector,
        generator: Any,
        classifier: Classifier,
        class_names: Sequence[str],
        *,
        resize_size: int | None = None,
        second_look: float = 0.0,
        mirror: bool = False,
        second_classifier: Classifier | None = None,
        record: TrainingRecord | None = None,
    ):
        check_parts(detector, generator, classifier)
        if len(class_names) != classifier.num_classes:
            raise ValueError(
                f"The model has {classifier.num_classes} classes, and {len(class_names)} "
                "names were given."
            )
        if second_classifier and second_classifier.num_classes != classifier.num_classes:
            raise ValueError(
                "The second classifier must have the classes of the first. Received: "
                f"{second_classifier.num_classes} and {classifier.num_classes}"
            )
        self.detector = detector
        self.generator = generator
        self.classifier = classifier
        self.class_names = tuple(class_names)
        self.resize_size = int(resize_size or detector.image_size)
        if self.resize_size < self.image_size:
            raise ValueError(
                f"`resize_size` must be at least the image size, {self.image_size}. Received: "
                f"resize_size={resize_size}"
            )
        self.second_look = check_second_look(second_look)
        if not isinstance(mirror, bool):
            raise ValueError(f"`mirror` must be true or false. Received: mirror={mirror!r:.100}")
        self.mirror = mirror
        # An unused network need not be exported.
        self.second_classifier = second_classifier if self.second_look else None
        self.record = record or TrainingRecord()
        self._graphs: dict[tuple[Any, ...], tuple[tuple[Forward, ...], Callable]] = {}

    @property
    def shape(self) -> Shape:
        return self.detector.shape

    @property
    def image_size(self) -> int:
        """Side of the windows that detector and classifier see."""
        return self.detector.image_size

    @property
    def close_up_classifier(self) -> Classifier:
        """The `Classifier` of the second look."""
        return self.second_classifier or self.classifier

    @property
    def parts(self) -> dict[str, keras.layers.Layer]:
        """The networks by name."""
        parts = {name: getattr(self, name) for name in PARTS}
        return {name: part for name, part in parts.items() if part is not None}

    def pair(self, engine: Engine) -> Pair | None:
        """Return detector and classifier as one, or None where their first layers differ."""
        return engine.pair(self.detector, self.classifier)

    def networks(
        self, engine: Engine, confidence: bool = True, evidence: bool = False
    ) -> tuple[Network | Pair, ...]:
        """Return what an engine runs for a prediction, see `predict`."""
        detector, classifier = self.detector, self.classifier
        pair = None if evidence else self.pair(engine)
        networks: list[Network | Pair] = [detector, classifier] if pair is None else [pair]
        if pair is not None and detector.looks_twice(confidence, self.mirror):
            networks.append(detector)
        if self.second_look and self.close_up_classifier not in networks:
            networks.append(self.close_up_classifier)
        return tuple(networks)

    @property
    def variables(self) -> list:
        """All variables of the networks."""
        return [variable for part in self.parts.values() for variable in part.variables]

    def replace(self, **changes: Any) -> "Localizer":
        """Return a localizer of the same networks with other arguments.

        Example:
            localizer.replace(second_look=0.0)
        """
        arguments = {
            **self.parts,
            "class_names": self.class_names,
            "resize_size": self.resize_size,
            "second_look": self.second_look,
            "mirror": self.mirror,
            "record": self.record,
        }
        return Localizer(**{**arguments, **changes})

    def with_shape(self, shape: str) -> "Localizer":
        """Return a localizer of the same networks that places another shape.

        See `Detector.with_shape`. Masks are then those of the model generator.

        Example:
            gc_net.load("saved_models/cub_lite").with_shape("rotated_ellipse")
        """
        detector = self.detector.with_shape(shape)
        generator = ModelGenerator(detector.shape, detector.image_size)
        return self.replace(detector=detector, generator=generator)

    def save(self, folder: str | os.PathLike, dtype: str = "float32") -> None:
        """Write a folder that `Localizer.load` reads.

        Args:
            dtype: `"float32"`, or `"float16"` to halve the size.
        """
        from gc_net.saving import save_localizer

        save_localizer(folder, self, dtype)

    @classmethod
    def load(cls, folder: str | os.PathLike, precision: str | None = "float32") -> "Localizer":
        """Return the localizer in a folder, or in its `model` folder.

        Args:
            precision: Name of the dtype policy to compute in; that of its training if None.
        """
        from gc_net.saving import load_localizer, model_folder

        return load_localizer(model_folder(folder), precision)

    # In a graph.

    def place(
        self,
        images: Any,
        judged: bool = False,
        engine: str | Engine = "tensorflow",
        raw: Any = None,
    ) -> Placement:
        """Place shapes in squashed images [B, R, R, 3], see `Detector.place`."""
        forward = None
        if raw is None or self.detector.looks_twice(judged, self.mirror):
            forward = engines.get(engine).forward(self.detector)
        return self.detector.place(images, judged, self.mirror, forward, raw)

    def mask(self, normalized: Any, coefficients: Any) -> tuple[Any, Any, Any]:
        """Return masks [B, S, S, 1], and the inside and outside of normalized windows."""
        masks = self.generator(coefficients, training=False)
        return masks, *inside_and_outside(normalized, masks)

    def placer(
        self, resize_size: int | None = None, engine: str | Engine = "tensorflow"
    ) -> Callable:
        """Return a graph of squashed images, uint8 [B, R, R, 3], to their `Placement`.

        Args:
            resize_size: Side R; the localizer's own if None.
            engine: Name of what runs the detector, or an `Engine`, see `gc_net.engines`.
        """
        engine = engines.get(engine)
        place = functools.partial(self.place, engine=engine)
        return _placer(place, resize_size or self.resize_size)

    # On images.

    def predict(
        self,
        images: Any,
        batch_size: int = 32,
        *,
        confidence: bool = True,
        evidence: bool = False,
        max_objects: int = 1,
        top_k: int = 5,
        unreadable: Unreadable | None = None,
        engine: str | Engine = engines.AUTO,
    ) -> list[Prediction | None]:
        """Return a `Prediction` for each image, in order.

        Args:
            images: File names, bytes of files, or RGB arrays in 0–255, of any sizes and mixed; one
                of them, a sequence, or an array [N, H, W, 3].
            batch_size: Images that go through the model at once.
            confidence: Whether to judge each localization, see
                `gc_net.prediction.graph.localize`.
            evidence: Whether to ask the classifier what it sees inside and outside of the shape,
                which takes two more passes of it, see `gc_net.prediction.graph.localize`.
            max_objects: Most objects to look for in an image, see `Prediction.others`.
            top_k: Number of classes to list.
            unreadable: An `Unreadable` that collects images that could not be read, under their
                file name or as `images[3]`. If None, each is logged as a warning.
            engine: Name of what runs the networks, or an `Engine`; `"auto"` takes the fastest for
                this number of images, see `gc_net.engines`.

        Returns:
            A list with one entry an image: a `Prediction`, or None if it could not be read.
        """
        split = sources_split(images, self.class_names)
        predictions: list[Prediction | None] = [None] * len(split)
        if len(split):
            found = self.predict_split(
                split,
                batch_size,
                confidence=confidence,
                evidence=evidence,
                max_objects=max_objects,
                top_k=top_k,
                unreadable=unreadable,
                engine=engine,
            )
            for index, prediction in found:
                predictions[index] = prediction
        return predictions

    def predict_split(
        self,
        split: Split,
        batch_size: int = 32,
        *,
        indices: Any = None,
        confidence: bool = True,
        evidence: bool = False,
        known_classes: bool = False,
        max_objects: int = 1,
        top_k: int = 5,
        unreadable: Unreadable | None = None,
        engine: str | Engine = engines.AUTO,
    ) -> Iterator[tuple[int, Prediction]]:
        """Yield (index, `Prediction`) of the readable images of a `Split`, in order.

        Images are read while the model runs, and only a few batches are in memory at a time.
        Arguments are those of `predict`; `indices` chooses images of the split. With
        `known_classes`, the labels of the split are the classes of the predictions, even if the
        classifier prefers others; they keep its probability. For `max_objects`, see
        `gc_net.prediction.more_objects`.

        If an image cannot be read again for the second look, only the first look classifies it,
        with a warning.
        """
        if unreadable is None:
            unreadable = Unreadable(announce=True)
        num_images = len(split) if indices is None else len(indices)
        networks = functools.partial(self.networks, confidence=confidence, evidence=evidence)
        engine = engines.ready(engine, networks, num_images)
        look_closer = None
        if self.second_look:
            classifier = self.close_up_classifier
            make = functools.partial(close_up_graph, classifier, engine)
            graph = self._graph(("second look",), engine, [classifier], make)
            look_closer = SecondLook(classifier, split, [self.second_look], graph=graph)
            split = look_closer.split
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
                labels = batch["label"].numpy() if known_classes else None

                def look(images):
                    judged = confidence or max_objects > 1
                    return self.first_look(images, judged, evidence, engine)

                def conclude(outputs, rows, index=index, sizes=sizes, labels=labels):
                    known = None if labels is None else labels[rows]
                    if not confidence:
                        outputs = {k: v for k, v in outputs.items() if k != "confidence"}
                    concluded = self.conclude(outputs, look_closer, index[rows], known)
                    return self.predictions(concluded, sizes[rows], top_k, known)

                if max_objects > 1:
                    predictions = find_objects(self, batch["image"], look, conclude, max_objects)
                else:
                    predictions = conclude(look(batch["image"]), np.arange(len(index)))
                yield from zip(index.tolist(), predictions, strict=True)
        except tf.errors.OpError:
            # Reading stops with an error if no image at all can be read. Here that is a result.
            failed = {file for file, _ in unreadable}
            wanted = range(len(split)) if indices is None else indices
            if not all(split.file(index) in failed for index in wanted):
                raise

    def first_look(
        self,
        images: Any,
        confidence: bool = True,
        evidence: bool = False,
        engine: str | Engine = "tensorflow",
    ) -> dict[str, Any]:
        """Run `gc_net.prediction.graph.first_look` on squashed images, uint8 [B, R, R, 3]."""
        engine = engines.get(engine)

        def make():
            size = self.resize_size
            return tf.function(
                lambda images: first_look(self, images, confidence, evidence, engine=engine),
                input_signature=[tf.TensorSpec([None, size, size, 3], tf.uint8)],
                autograph=False,
            )

        networks = self.networks(engine, confidence, evidence)
        return self._graph(("first look", confidence, evidence), engine, networks, make)(images)

    def _graph(self, asked, engine, networks, make):
        """Return the graph that `make` makes, once for each engine and what is `asked` of it."""
        forwards = tuple(engine.forward(network) for network in networks)
        key = (*asked, engine.name)
        found, graph = self._graphs.get(key, (None, None))
        # An engine that copies weights gives another function when they have changed.
        if found != forwards:
            graph = make()
            self._graphs[key] = forwards, graph
        return graph

    @staticmethod
    def conclude(
        outputs: Mapping[str, Any],
        look_closer: SecondLook | None = None,
        index: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the outputs after a second look, if any, as arrays.

        Args:
            outputs: The outputs of `first_look`.
            look_closer: The `SecondLook` at the split of the images.
            index: [B] places of the images in that split.
            labels: [B] classes, if they are known.
        """
        second = None
        if look_closer is not None:
            second, readable = look_closer(index, np.asarray(outputs["boxes"]))
            # Without a second look, the mean of the first with itself.
            first = np.asarray(outputs["class_probabilities"])
            second = np.where(readable[:, None], second[:, 0], first)
        found = concluded(outputs, second, labels)
        return {name: np.asarray(value) for name, value in found.items()}

    def predictions(
        self,
        outputs: Mapping[str, np.ndarray],
        sizes: np.ndarray,
        top_k: int = 5,
        labels: np.ndarray | None = None,
    ) -> list[Prediction]:
        """Return `Prediction`s from the arrays of `conclude`.

        Args:
            sizes: int [B, 2], height and width of each image.
            labels: [B] classes, if they are known; they are listed first.
        """
        probabilities = outputs["class_probabilities"]
        worth = probabilities.copy()
        if labels is not None:
            worth[np.arange(len(labels)), labels] = np.inf
        best = np.argsort(-worth, axis=-1, kind="stable")[:, :top_k]
        outlines = np.asarray(self.shape.outline(outputs["coefficients"], OUTLINE_POINTS))
        return [
            Prediction.from_outputs(
                {
                    **{name: value[row] for name, value in outputs.items()},
                    "outlines": outlines[row],
                    "outline_kinds": self.shape.outline_kind,
                    "shapes": self.shape.name,
                    "image_sizes": size,
                    "class_ids": best[row],
                    "class_names": [self.class_names[index] for index in best[row]],
                    "class_probabilities": probabilities[row, best[row]],
                }
            )
            for row, size in enumerate(np.asarray(sizes).tolist())
        ]


def placer(
    detector: Detector, resize_size: int | None = None, engine: str | Engine = "tensorflow"
) -> Callable:
    """Return a graph of squashed images, uint8 [B, R, R, 3], to their `Placement`.

    Args:
        resize_size: Side R; the detector's image size if None.
        engine: Name of what runs the detector, or an `Engine`, see `gc_net.engines`.
    """
    place = functools.partial(detector.place, forward=engines.get(engine).forward(detector))
    return _placer(place, resize_size or detector.image_size)


def _placer(place, size):
    images = tf.TensorSpec([None, size, size, 3], tf.uint8)
    return tf.function(lambda images: place(images), input_signature=[images], autograph=False)
