"""The forward pass of prediction and export: what is computed for a batch of square images."""

import math

from keras import ops

from gc_net.shapes.frame import principal_axes


def localize(model, images, confidence=True):
    """Localize and classify, and judge the localization.

    A good shape holds all of the object and nothing else holds any of it. Those are the two things
    the frozen classifier was asked in training, and at inference it can be asked again, with its
    own answer in place of the label:

        confidence = p(class | inside of the shape) · H(p(· | outside)) / ln C

    The first factor falls where the shape misses what makes the class; the second, the entropy as a
    part of the largest possible, where the outside still gives a class away: half an object, or a
    second one. Both lie in [0, 1] and need no tuning; their product is high only if both are. It
    ranks localizations and is no calibrated probability, and it cannot tell a shape that is too
    large. With one class there is nothing to ask, and it is 1.

    The class is the likeliest one that is reported: with a second look, that of the mean of both.
    Inside and outside are those of the first look, where the shape was placed.

    Args:
        model: A `GCNet`.
        images: [B, R, R, 3] RGB in 0–255, squashed; the networks see their central windows.
        confidence: Whether to run the classifier on the two masked images too, which makes the
            pass about twice as long.

    Returns:
        Dict of float32 `coefficients` [B, n] and `boxes` [B, 4] xyxy, relative to the squashed
        images, and `class_probabilities` [B, C]; with `confidence` also `object_probability`,
        `background_entropy` and `confidence`, [B] each.
    """
    return concluded(first_look(model, images, confidence))


def first_look(model, images, confidence=True):
    """Place the shape and classify what is squashed; `concluded` makes the result of it.

    Arguments are those of `localize`.

    Returns:
        Dict of `coefficients`, `boxes` and `class_probabilities`; with `confidence` also
        `inside_probabilities` [B, C] and `background_entropy` [B].
    """
    coefficients, windows, in_windows = model.place(ops.cast(images, "float32"))
    outputs = {"coefficients": coefficients, "boxes": model.shape.boxes(coefficients)}
    if not confidence:
        outputs["class_probabilities"] = _probabilities(model.classifier(windows, training=False))
        return outputs
    _, objects, backgrounds = model.mask(windows, in_windows)
    # One pass over all three: fewer, larger operations.
    views = ops.concatenate([model.classifier.normalize(windows), objects, backgrounds], axis=0)
    probabilities = _probabilities(model.classifier.from_normalized(views))  # [3B, C]
    whole, inside, outside = ops.split(probabilities, 3, axis=0)
    outputs["class_probabilities"] = whole
    outputs["inside_probabilities"] = inside
    outputs["background_entropy"] = _relative_entropy(outside)
    return outputs


def second_look(model, close_ups):
    """Return the class probabilities [B, C] of close-ups [B, S, S, 3] of the placed shapes."""
    return _probabilities(model.closer(ops.cast(close_ups, "float32"), training=False))


def concluded(outputs, second_probabilities=None):
    """Return what `localize` does, from the outputs of the first look and of a second, if any.

    Args:
        outputs: What `first_look` returns, and whatever else is to be passed on.
        second_probabilities: [B, C] of `second_look`; the classes are those of the mean of both.
    """
    outputs = dict(outputs)
    if second_probabilities is not None:
        first_probabilities = outputs["class_probabilities"]
        outputs["class_probabilities"] = (first_probabilities + second_probabilities) / 2
    if "inside_probabilities" in outputs:
        inside, whole = outputs.pop("inside_probabilities"), outputs["class_probabilities"]
        likeliest = ops.one_hot(ops.argmax(whole, axis=-1), whole.shape[-1], dtype="float32")
        outputs["object_probability"] = ops.sum(inside * likeliest, axis=-1)
        outputs["confidence"] = outputs["object_probability"] * outputs["background_entropy"]
    return outputs


def geometry(shape, coefficients, sizes):
    """Return the shapes in pixels: a dict of `boxes_xyxy` and `corners` or `ellipse`.

    Args:
        shape: The `Shape`.
        coefficients: [B, n].
        sizes: float [B, 2], height and width of each image.

    Returns:
        `boxes_xyxy` [B, 4], and `corners` [B, 4, 2], or `ellipse` [B, 5]: centre, the longer and
        the shorter full axis, angle of the longer one.
    """
    frame = shape.frame(coefficients).scaled(sizes[:, 1], sizes[:, 0])
    outputs = {"boxes_xyxy": shape.frame_boxes(frame)}
    if shape.has_corners:
        outputs["corners"] = shape.frame_outline(frame)
    else:
        axes = ops.stack(principal_axes(frame), axis=-1)  # [B, 3]
        outputs["ellipse"] = ops.concatenate([frame.center, axes], axis=-1)
    return outputs


def _probabilities(logits):
    return ops.softmax(ops.cast(logits, "float32"), axis=-1)


def _relative_entropy(probabilities):
    num_classes = probabilities.shape[-1]
    if num_classes == 1:
        return ops.ones_like(probabilities[:, 0])
    logarithms = ops.log(ops.maximum(probabilities, 1e-30))
    entropy = -ops.sum(probabilities * logarithms, axis=-1) / math.log(num_classes)
    return ops.clip(entropy, 0.0, 1.0)  # rounding can exceed 1
