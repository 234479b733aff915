"""The result of `--method`: a classifier, and the method that finds objects with it."""

import os
from typing import Any

from gc_net import methods, saving, shapes
from gc_net.classifier import Classifier
from gc_net.data.transforms import default_resize_size
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.methods.base import Method
from gc_net.shapes.base import Shape
from gc_net.training_record import TrainingRecord


class MethodLocalizer:
    """A classifier and the method that was trained with it, for evaluation.

    It has no detector: the method makes boxes from an image and its class. So it can be measured if
    classes are known, and has no second look.

    Args:
        classifier: A `Classifier`.
        method: A `Method`, or its name.
        class_names: Names in label order.
        resize_size: Side that images are squashed to; None for the usual one.
        record: A `TrainingRecord` of the training.
    """

    second_look = 0.0

    def __init__(
        self,
        classifier: Classifier,
        method: str | Method,
        class_names: tuple[str, ...],
        *,
        resize_size: int | None = None,
        record: TrainingRecord | None = None,
    ):
        self.classifier = classifier
        self.method = methods.get(method)
        self.class_names = tuple(class_names)
        self.resize_size = int(resize_size or default_resize_size(classifier.image_size))
        self.record = record or TrainingRecord()

    @property
    def shape(self) -> Shape:
        """Boxes are upright rectangles."""
        return shapes.get("rectangle")

    @property
    def image_size(self) -> int:
        """Side of the windows that the classifier sees."""
        return self.classifier.image_size

    @property
    def generator(self) -> ModelGenerator:
        """Draws the boxes as masks, for reports."""
        return ModelGenerator(self.shape, self.image_size)

    def replace(self, *, resize_size: int, second_look: float = 0.0) -> "MethodLocalizer":
        """Return the same with another `resize_size`."""
        if second_look:
            raise ValueError(
                f"The method {self.method.name!r} has no second look: its model is a classifier "
                f"and no detector. Received: second_look={second_look}"
            )
        return MethodLocalizer(
            self.classifier,
            self.method,
            self.class_names,
            resize_size=resize_size,
            record=self.record,
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings that identify a run, for tables that compare several."""
        return {
            "method": self.method.name,
            "backbone": self.classifier.backbone.name,
            "head": self.classifier.head_name,
            "shape": self.shape.name,
            "rotates": False,
            "image_size": self.image_size,
            "resize_size": self.resize_size,
        }


def load(folder: str | os.PathLike) -> "Localizer | MethodLocalizer":
    """Return the model that a training wrote to a folder, for any method."""
    path = saving.model_folder(folder)
    name = saving.trained_method(path)
    if name is None:
        return Localizer.load(folder)
    saved = saving.load_model(path)
    resize_size = saved.record.dataset.get("resize_size") or None
    saving.check_resize_size(resize_size)
    return MethodLocalizer(
        saved.model, name, saved.class_names, resize_size=resize_size, record=saved.record
    )
