"""The one pass over the images: predictions of each batch, compared with its truth."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import tensorflow as tf

from gc_net import engines, metrics
from gc_net.data import pipeline, transforms
from gc_net.data.splits import Split, Truth
from gc_net.engines.base import Engine
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.best_shapes import best_mask_iou
from gc_net.evaluation.protocols import Protocol
from gc_net.localizer import Localizer
from gc_net.methods.base import Forward, Method
from gc_net.methods.localizer import MethodLocalizer
from gc_net.prediction.graph import classify, first_look, mean_of_looks, observed
from gc_net.prediction.second_look import SecondLook
from gc_net.shapes.frame import principal_axes

_TOP = 5


def batch_function(
    localizer: Localizer | MethodLocalizer,
    methods: list[Method],
    ten_crop: bool,
    engine: str | Engine = "tensorflow",
) -> Callable[..., dict[str, Any]]:
    """Return a graph of squashed images and labels to a dict of a batch's outputs.

    It is the localizer's first look. Methods use the features of its classifier.
    """
    size, engine = localizer.resize_size, engines.get(engine)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, size, size, 3], tf.uint8),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def run(images, labels):
        def observe(seen):
            windows = tf.cast(seen.windows, tf.uint8)
            forward = Forward(seen.normalized, seen.descriptors, seen.features, labels, windows)
            maps = {method.name: method.localize(forward) for method in methods}
            return {"maps": {name: values for name, values in maps.items() if values is not None}}

        if isinstance(localizer, MethodLocalizer):
            windows = tf.cast(transforms.central(images, localizer.image_size), tf.float32)
            outputs = observed(localizer.classifier, windows, observe)
        else:
            outputs = first_look(
                localizer, images, observe=observe if methods else None, engine=engine
            )
        if ten_crop:
            crops = _ten_crops(images, localizer.image_size)  # [10·B, S, S, 3]
            probabilities = tf.split(classify(localizer.classifier, crops, engine), 10)
            outputs["ten_crop_probabilities"] = tf.add_n(probabilities) / 10
        return outputs

    return run


def _ten_crops(images, image_size):
    crops = []
    for window in transforms.ten_windows(images.shape[1], image_size):
        top, left = window.top, window.left
        crop = images[:, top : top + image_size, left : left + image_size]
        crops.append(crop[:, :, ::-1] if window.flip else crop)
    return tf.concat(crops, axis=0)


def collect(
    localizer: Localizer | MethodLocalizer,
    methods: list[Method],
    split: Split,
    truth: Truth,
    protocol: Protocol,
    *,
    ten_crop: bool,
    on_maps: Callable[[np.ndarray, np.ndarray], None] | None = None,
    engine: str | Engine = "tensorflow",
    **options: Any,
) -> dict[str, np.ndarray]:
    """Run the localizer over the images and compare each batch with its truth.

    Args:
        methods: `Method`s, prepared; that of a `MethodLocalizer` must be among them.
        on_maps: Function of the places in the split [B] and the heat maps [B, h, w]. It is called
            for every batch of a `MethodLocalizer` whose method has maps.
        engine: Name of what runs the networks, or an `Engine`, see `gc_net.engines`.
        options: For `readable_batches`: `indices`, `batch_size`, `unreadable`, `cache`.

    Returns:
        Dict of arrays over the images that could be read. Coefficients and boxes are relative to
        the windows that the networks see. Heat maps are not kept: `"map_iou/<method>"` and
        `"map_iou_v2/<method>"` have [N, T] for each method that has maps, and
        `"boxes_rel_xyxy/<method>"` the boxes of each. `"frame_classes"` are the classes of the
        first look, which methods are measured with. For a `MethodLocalizer`, IoU and confidence are
        missing: IoU follows from its method's scores, and it has no confidence.
    """
    engine = engines.get(engine)
    run = batch_function(localizer, methods, ten_crop, engine)
    look_closer = None
    if localizer.second_look:
        look_closer = SecondLook(
            localizer.close_up_classifier,
            split,
            [localizer.second_look],
            required=True,
            engine=engine,
        )
        split = look_closer.split
    batches = readable_batches(
        split, image_size=localizer.resize_size, frame="full", label="Evaluating", **options
    )
    collected = []
    for batch in batches:
        outputs = run(batch.pop("image"), batch["label"])
        outputs = tf.nest.map_structure(lambda tensor: tensor.numpy(), outputs)
        batch = {name: tensor.numpy() for name, tensor in batch.items()}
        if on_maps is not None and isinstance(localizer, MethodLocalizer):
            maps = outputs["maps"].get(localizer.method.name)
            if maps is not None:
                on_maps(batch["index"], maps)
        outputs["frame_probabilities"] = outputs["class_probabilities"]
        if look_closer is not None:
            second = look_closer(batch["index"], outputs["boxes"])[0][:, 0]  # [B, C]
            for name in ("class_probabilities", "ten_crop_probabilities"):
                if name in outputs:
                    outputs[name] = mean_of_looks(outputs[name], second)
        collected.append(_compared(localizer, methods, truth, protocol, batch, outputs))
    return _joined(collected)


def _compared(localizer, methods, truth, protocol, batch, outputs):
    """Return what is kept of a batch."""
    shape, image_size = localizer.shape, localizer.image_size
    boxes = {
        method.name: method.boxes(
            outputs["maps"].get(method.name), len(batch["index"]), image_size
        ).astype(np.float32)
        for method in methods
    }
    if isinstance(localizer, MethodLocalizer):
        coefficients = _upright(boxes[localizer.method.name])
    else:
        coefficients = outputs["in_windows"]
    boxes_xyxy, num_truth = _true_boxes(truth, batch["index"])
    boxes_rel_xyxy = _boxes_in_windows(boxes_xyxy, num_truth, batch["size"], localizer)
    truth_boxes = protocol.truth_boxes(boxes_rel_xyxy, boxes_xyxy.astype(np.float64), batch["size"])
    top_classes, top_probabilities = metrics.top_k(outputs["class_probabilities"], _TOP)
    frame_classes, _ = metrics.top_k(outputs["frame_probabilities"], _TOP)
    kept = {
        "index": batch["index"],
        "labels": batch["label"],
        "sizes": batch["size"],
        "top_classes": top_classes,
        "top_probabilities": top_probabilities,
        "frame_classes": frame_classes,
        "coefficients": coefficients,
        "boxes_rel_xyxy": np.asarray(shape.boxes(coefficients)),
        "truth_boxes_rel_xyxy": boxes_rel_xyxy,
        "num_truth_boxes": num_truth,
        "truth_boxes": truth_boxes,
    }
    if not isinstance(localizer, MethodLocalizer):
        kept["confidence"] = outputs["confidence"]
        kept["iou"], kept["iou_v2"] = protocol.shape_iou(
            shape, coefficients, truth_boxes, num_truth
        )
    if "ten_crop_probabilities" in outputs:
        kept["ten_crop_classes"], _ = metrics.top_k(outputs["ten_crop_probabilities"], _TOP)
    if truth.mask is not None:
        drawn = np.asarray(shape.masks(coefficients, image_size, image_size))[..., 0]
        true_masks = _masks_in_windows(truth, batch["index"], localizer)
        kept["mask_iou"] = metrics.mask_iou(drawn, true_masks)
        kept["best_mask_iou"] = best_mask_iou(shape, true_masks)
    if truth.angles is not None and shape.rotates:
        # Squashing turned the axis, so first go back to the original image's proportions.
        frame = shape.frame(coefficients).scaled(batch["size"][:, 1], batch["size"][:, 0])
        angle = np.asarray(principal_axes(frame)[2])
        kept["angle_error"] = np.degrees(metrics.angle_error(angle, truth.angles[batch["index"]]))
    for method in methods:
        kept[f"boxes_rel_xyxy/{method.name}"] = boxes[method.name]
        if method.name in outputs["maps"]:
            maps = outputs["maps"][method.name]
            kept[f"map_iou/{method.name}"], kept[f"map_iou_v2/{method.name}"] = protocol.map_iou(
                maps, truth_boxes, num_truth, image_size, method.cut
            )
    return kept


def _upright(boxes_rel_xyxy):
    """Return boxes as the coefficients [B, 4] of upright rectangles."""
    first, last = boxes_rel_xyxy[:, :2], boxes_rel_xyxy[:, 2:]
    return np.concatenate([(first + last) / 2, last - first], axis=1)


def _true_boxes(truth, index):
    """Return the true boxes, [B, K, 4] in pixels padded with zeros, and their numbers."""
    return pipeline.padded_boxes(truth, index, max(1, int(np.diff(truth.starts).max())))


def _boxes_in_windows(boxes_xyxy, num_boxes, sizes, localizer):
    """Return boxes [B, K, 4] in pixels as ones relative to the windows; padding stays zero."""
    resize_size, image_size = localizer.resize_size, localizer.image_size
    window = transforms.center_window(resize_size, image_size)
    boxes = transforms.boxes_in_window(boxes_xyxy, sizes[:, None], window, resize_size, image_size)
    is_box = np.arange(boxes.shape[1]) < num_boxes[:, None]  # [B, K]
    return np.where(is_box[..., None], boxes, np.float32(0))


def _masks_in_windows(truth, index, localizer):
    """Return the parts of the true masks in the windows, bool [B, S, S]."""
    image_size, resize_size = localizer.image_size, localizer.resize_size
    top, left = transforms.center_window(resize_size, image_size)[:2]
    masks = np.empty((len(index), image_size, image_size), bool)
    for row, place in enumerate(index):
        mask = truth.mask(int(place)).astype(np.uint8) * 255
        mask = cv2.resize(mask, (resize_size, resize_size), interpolation=cv2.INTER_AREA)
        masks[row] = mask[top : top + image_size, left : left + image_size] > 127
    return masks


def _joined(collected):
    return {name: np.concatenate([kept[name] for kept in collected]) for name in collected[0]}
