"""The one pass over the images: everything a batch is asked for, in one graph."""

import cv2
import keras
import numpy as np
import tensorflow as tf

from gc_net import metrics
from gc_net.data import pipeline, transforms
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.second_look import CloserJudge
from gc_net.methods.base import Forward
from gc_net.shapes.frame import principal_axes

_CENTER = 4  # place of the central window among the ten
_TOP = 5


def batch_function(model, methods, ten_crop):
    """Return a graph function of images and labels to a dict of a batch's outputs.

    The classifier runs once on every image, whatever the number of methods that look at its
    features.
    """
    classifier = model.classifier
    descriptor_layer = classifier.trunk.get_layer(classifier.backbone.descriptor_layer)
    trunk = keras.Model(
        classifier.trunk.inputs, [descriptor_layer.output, *classifier.trunk.outputs]
    )
    size = model.detector.image_size
    windows = [10] if ten_crop else []

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, *windows, size, size, 3], tf.uint8),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def run(images, labels):
        crops = images
        images = images[:, _CENTER] if ten_crop else images
        normalized = classifier.normalize(images)
        descriptors, features = trunk(normalized, training=False)
        logits = classifier.head(features, training=False)
        coefficients = model.detector(images, training=False)
        forward = Forward(normalized, descriptors, features, labels, images)
        maps = {method.name: method.localize(forward) for method in methods}
        outputs = {
            "coefficients": coefficients,
            "probabilities": tf.nn.softmax(logits),
            "maps": {name: values for name, values in maps.items() if values is not None},
        }
        if ten_crop:
            logits = classifier(tf.reshape(crops, [-1, size, size, 3]), training=False)
            probabilities = tf.reshape(tf.nn.softmax(logits), [-1, 10, logits.shape[-1]])
            outputs["ten_crop_probabilities"] = tf.reduce_mean(probabilities, axis=1)
        return outputs

    return run


def collect(model, methods, split, truth, protocol, *, indices, ten_crop, look=0.0, **options):
    """Run the model over the images and compare each batch with its truth at once.

    Args:
        model: A `GCNet`.
        methods: `Method`s, prepared.
        look: Side of the region of the second look as a multiple of the longer side of the shape's
            box, 0 for none. With it, the probabilities of every image, and those of the ten crops,
            are the mean with those of its close-up.
        options: For `readable_batches`; `image_size`, `resize_size`, `batch_size` and `unreadable`
            among them.

    Returns:
        Dict of arrays over the images that could be read. Heat maps are not kept: `"map_iou"` has
        a pair of arrays [N, T] for each method that has maps. `"frame_classes"` are those of the
        frame alone, which methods are measured with.
    """
    run = batch_function(model, methods, ten_crop)
    look_again = None
    if look:
        look_again = CloserJudge(model.closer, split, [look])
        split = look_again.split
    batches = readable_batches(
        split,
        truth,
        frame=protocol.frame,
        ten_crop=ten_crop,
        indices=indices,
        label="Evaluating",
        **options,
    )
    collected = []
    for batch in batches:
        outputs = run(batch.pop("image"), batch["label"])
        batch = {name: tensor.numpy() for name, tensor in batch.items()}
        outputs = tf.nest.map_structure(lambda tensor: tensor.numpy(), outputs)
        outputs["frame_probabilities"] = outputs["probabilities"]
        if look_again:
            boxes = transforms.boxes_out_of_center(
                np.asarray(model.shape.boxes(outputs["coefficients"])),
                options["resize_size"],
                options["image_size"],
            )
            closer = look_again(batch["index"], boxes)[:, 0]  # [B, C]
            for name in ("probabilities", "ten_crop_probabilities"):
                if name in outputs:
                    outputs[name] = (outputs[name] + closer) / 2
        collected.append(_compared(model, methods, truth, protocol, batch, outputs, options))
    return _joined(collected)


def _compared(model, methods, truth, protocol, batch, outputs, options):
    """Return what is kept of a batch."""
    coefficients, num_truth = outputs["coefficients"], batch["num_boxes"]
    boxes_xyxy, _ = pipeline.padded_boxes(truth, batch["index"], batch["boxes_rel_xyxy"].shape[1])
    boxes_xyxy = boxes_xyxy.astype(np.float64)
    truth_boxes = protocol.truth_boxes(batch["boxes_rel_xyxy"], boxes_xyxy, batch["size"])
    top_classes, top_probabilities = metrics.top_k(outputs["probabilities"], _TOP)
    frame_classes, _ = metrics.top_k(outputs["frame_probabilities"], _TOP)
    iou, iou_v2 = protocol.shape_iou(model.shape, coefficients, truth_boxes, num_truth)
    kept = {
        "index": batch["index"],
        "labels": batch["label"],
        "sizes": batch["size"],
        "top_classes": top_classes,
        "top_probabilities": top_probabilities,
        "frame_classes": frame_classes,
        "coefficients": coefficients,
        "boxes_rel_xyxy": np.asarray(model.shape.boxes(coefficients)),
        "truth_boxes_rel_xyxy": batch["boxes_rel_xyxy"],
        "num_truth_boxes": num_truth,
        "truth_boxes": truth_boxes,
        "iou": iou,
        "iou_v2": iou_v2,
    }
    if "ten_crop_probabilities" in outputs:
        kept["ten_crop_classes"], _ = metrics.top_k(outputs["ten_crop_probabilities"], _TOP)
    if truth.mask is not None:
        drawn = np.asarray(
            model.shape.masks(coefficients, options["image_size"], options["image_size"])
        )[..., 0]
        true_masks = _masks_in_frame(truth, batch["index"], options)
        kept["mask_iou"] = metrics.mask_iou(drawn, true_masks)
    if truth.angles is not None and model.shape.rotates:
        # Squashing turned the axis: back to the original image's proportions first.
        frame = model.shape.frame(coefficients).scaled(batch["size"][:, 1], batch["size"][:, 0])
        angle = np.asarray(principal_axes(frame)[2])
        kept["angle_error"] = np.degrees(metrics.angle_error(angle, truth.angles[batch["index"]]))
    for method in methods:
        if method.name in outputs["maps"]:
            maps = outputs["maps"][method.name]
            kept[f"map_iou/{method.name}"], kept[f"map_iou_v2/{method.name}"] = protocol.map_iou(
                maps, truth_boxes, num_truth, options["image_size"], method.cut
            )
    return kept


def _masks_in_frame(truth, index, options):
    """Return the true masks as the network's window shows the objects, bool [B, S, S]."""
    image_size, resize_size = options["image_size"], options["resize_size"]
    top, left = transforms.center_window(resize_size, image_size)[:2]
    masks = np.empty((len(index), image_size, image_size), bool)
    for row, place in enumerate(index):
        mask = truth.mask(int(place)).astype(np.uint8) * 255
        mask = cv2.resize(mask, (resize_size, resize_size), interpolation=cv2.INTER_AREA)
        masks[row] = mask[top : top + image_size, left : left + image_size] > 127
    return masks


def _joined(collected):
    return {name: np.concatenate([kept[name] for kept in collected]) for name in collected[0]}
