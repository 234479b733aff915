"""The one forward pass: what prediction, evaluation and export compute of square images.

A first look places the shape and classifies the image. A second look, where a localizer has one,
classifies a close-up of the shape. `concluded` makes the result of both.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from gc_net import engines
from gc_net.engines.base import Engine


class Seen(NamedTuple):
    """What the classifier makes of a batch on the way to its classes.

    Attributes:
        windows: float32 [B, S, S, 3] in 0–255.
        normalized: [B, S, S, 3], what the trunk is given.
        descriptors: [B, h, w, C], output of the backbone's `descriptor_layer`.
        features: [B, h, w, C], output of the trunk.
    """

    windows: Any
    normalized: Any
    descriptors: Any
    features: Any


def localize(
    localizer, images: Any, confidence: bool = True, evidence: bool = False
) -> dict[str, Any]:
    """Localize and classify, and judge the localization.

    The confidence is the IoU with the object that can be expected, in [0, 1]. A head of edges finds
    each edge along a profile, and says how far it may be off, see
    `gc_net.parametrizations.edges:Edges.expected_iou`. Of any other head it is the IoU of the shape
    with that in the mirror image, mirrored back, for one more pass of the detector: an object does
    not move when its image is mirrored, and one that guesses rarely guesses the same twice. It
    ranks localizations and is no calibrated probability.

    With `evidence`, the classifier is asked again what it was asked in training, with its own
    answer in place of the label: `object_probability` is p(class | inside of the shape), which
    falls where the shape misses what makes the class; `background_probability` is that of the same
    class of the outside; `background_entropy` is H(p(· | outside)) / ln C, which falls where the
    outside still gives a class away: half an object, or a second one. With one class there is
    nothing to ask, and all are 1. They take two more passes of the classifier and cannot tell a
    shape that is too large; docs/predict.md compares how they rank.

    The class is the likeliest one that is reported: with a second look, that of the mean of both.
    Inside and outside are those of the first look, where the shape was placed.

    Args:
        localizer: A `Localizer`; its second look, if any, is not taken here.
        images: [B, R, R, 3] RGB in 0–255, squashed; the networks see their central windows.
        confidence: Whether to give a confidence.
        evidence: Whether to run the classifier on the two masked images too.

    Returns:
        Dict of float32 `coefficients` [B, n] and `boxes` [B, 4] xyxy, relative to the squashed
        images, and `class_probabilities` [B, C]; with `confidence` also `confidence` [B], and with
        `evidence` `object_probability`, `background_probability` and `background_entropy`, [B]
        each.
    """
    return concluded(first_look(localizer, images, confidence, evidence))


def first_look(
    localizer,
    images: Any,
    confidence: bool = True,
    evidence: bool = False,
    observe: Callable[[Seen], Mapping[str, Any]] | None = None,
    engine: str | Engine = "tensorflow",
) -> dict[str, Any]:
    """Place the shape and classify what is squashed; `concluded` makes the result of it.

    Args:
        localizer, images, confidence, evidence: As for `localize`.
        observe: Function of what the classifier has `Seen` to more outputs, for other methods that
            look at the same features. The classifier then runs in TensorFlow, which has them.
        engine: Name of what runs the networks, or an `Engine`, see `gc_net.engines`.

    Returns:
        Dict of `coefficients`, `boxes`, `class_probabilities` and `in_windows`, the coefficients
        relative to what the networks see; with `confidence` also `confidence` [B]; with `evidence`
        `inside_probabilities` and `outside_probabilities`, [B, C] each; and what `observe` returns.
    """
    classifier, engine = localizer.classifier, engines.get(engine)
    pair = None if evidence or observe else localizer.pair(engine)
    raw = logits = None
    if pair is not None:
        normalized = classifier.normalize(localizer.detector.windows(images))
        raw, logits = pair.split(engine.forward(pair)(normalized))
    placed = localizer.place(images, confidence, engine, raw)
    outputs = {
        "coefficients": placed.coefficients,
        "boxes": placed.boxes,
        "in_windows": placed.in_windows,
    }
    if confidence:
        outputs["confidence"] = placed.confidence
    normalized = classifier.normalize(placed.windows)
    views = [normalized]
    if evidence:
        views += localizer.mask(normalized, placed.in_windows)[1:]
    if observe is None:
        if logits is None:
            # One pass over all three: fewer, larger operations.
            logits = engine.forward(classifier)(ops.concatenate(views, axis=0))
        whole, *masked = ops.split(_probabilities(logits), len(views), axis=0)
    else:
        outputs |= observed(classifier, placed.windows, observe, normalized)
        whole = outputs["class_probabilities"]
        masked = [_probabilities(engine.forward(classifier)(view)) for view in views[1:]]
    outputs["class_probabilities"] = whole
    if evidence:
        outputs["inside_probabilities"], outputs["outside_probabilities"] = masked
    return outputs


def observed(
    classifier, windows: Any, observe: Callable[[Seen], Mapping[str, Any]], normalized: Any = None
) -> dict[str, Any]:
    """Classify windows, and let another method look at what the classifier sees in them.

    Args:
        windows: float32 [B, S, S, 3] in 0–255.
        observe: As for `first_look`.
        normalized: The same normalized, where that is known already.

    Returns:
        Dict of `class_probabilities` [B, C] and what `observe` returns.
    """
    if normalized is None:
        normalized = classifier.normalize(windows)
    descriptors, features = _describing(classifier)(normalized, training=False)
    probabilities = _probabilities(classifier.head(features, training=False))
    found = observe(Seen(windows, normalized, descriptors, features))
    return {"class_probabilities": probabilities, **found}


def classify(classifier, images: Any, engine: str | Engine = "tensorflow") -> Any:
    """Return the class probabilities [B, C] of images [B, S, S, 3] as a `Classifier` sees them."""
    forward = engines.get(engine).forward(classifier)
    return _probabilities(forward(classifier.normalize(ops.cast(images, "float32"))))


def mean_of_looks(first_probabilities: Any, second_probabilities: Any) -> Any:
    """Return the class probabilities [B, C] after both looks."""
    return (first_probabilities + second_probabilities) / 2


def concluded(
    outputs: Mapping[str, Any], second_probabilities: Any = None, labels: Any = None
) -> dict[str, Any]:
    """Return what `localize` does, from the outputs of the first look and of a second, if any.

    Args:
        outputs: What `first_look` returns, and whatever else is to be passed on.
        second_probabilities: [B, C] of the close-ups; the classes are those of the mean of both.
        labels: [B], the classes that the evidence is asked for where they are known; the likeliest
            ones if None.
    """
    outputs = dict(outputs)
    outputs.pop("in_windows", None)
    if second_probabilities is not None:
        outputs["class_probabilities"] = mean_of_looks(
            outputs["class_probabilities"], second_probabilities
        )
    if "inside_probabilities" in outputs:
        inside, whole = outputs.pop("inside_probabilities"), outputs["class_probabilities"]
        asked = ops.argmax(whole, axis=-1) if labels is None else labels
        asked = ops.one_hot(asked, whole.shape[-1], dtype="float32")
        outside = outputs.pop("outside_probabilities")
        outputs["object_probability"] = ops.sum(inside * asked, axis=-1)
        outputs["background_probability"] = ops.sum(outside * asked, axis=-1)
        outputs["background_entropy"] = _relative_entropy(outside)
    return outputs


def _describing(classifier):
    """Return the classifier's trunk as a model with the descriptors as a second output."""
    trunk = classifier.trunk
    layer = trunk.get_layer(classifier.backbone.descriptor_layer)
    return keras.Model(trunk.inputs, [layer.output, *trunk.outputs])


def _probabilities(logits):
    return ops.softmax(ops.cast(logits, "float32"), axis=-1)


def _relative_entropy(probabilities):
    num_classes = probabilities.shape[-1]
    if num_classes == 1:
        return ops.ones_like(probabilities[:, 0])
    logarithms = ops.log(ops.maximum(probabilities, 1e-30))
    entropy = -ops.sum(probabilities * logarithms, axis=-1) / math.log(num_classes)
    return ops.clip(entropy, 0.0, 1.0)  # rounding can exceed 1
