"""An evaluation without a model: true shapes of the creatures, moved about at random."""

import numpy as np

import gc_net.shapes
from gc_net import metrics
from gc_net.data import transforms
from gc_net.datasets.creatures import Creatures
from gc_net.evaluation import intervals, protocols
from gc_net.evaluation.results import Evaluation, MethodResult
from gc_net.methods.base import hits_by_level
from gc_net.methods.constant import Constant
from gc_net.report.images import image_reader

SIZE = 112
RESIZE = 128
MEAN_COLOR = np.array([124, 116, 104], np.float32)


def fabricated(count=60, shape="rotated_ellipse", seed=0, image_size=SIZE, **changes):
    """Return an `Evaluation` of `count` creatures; `changes` replace what it holds."""
    resize_size = round(image_size * RESIZE / SIZE)
    rng = np.random.default_rng(seed)
    dataset = Creatures(num_test=count, image_size=max(image_size, 32))
    split, truth = dataset.split("test"), dataset.truth("test")
    shape, protocol = gc_net.shapes.get(shape), protocols.get("paper")
    sizes = np.array([split.read(index).shape[:2] for index in range(count)], np.int32)
    window = transforms.center_window(resize_size, image_size)
    truth_boxes = np.stack(
        [
            transforms.boxes_in_window(
                truth.boxes_of(index), sizes[index], window, resize_size, image_size
            )
            for index in range(count)
        ]
    ).astype(np.float32)  # [N, 1, 4]
    angles = np.asarray(truth.angles)
    coefficients = _moved(truth_boxes[:, 0], angles, shape, rng)
    boxes = np.asarray(shape.boxes(coefficients))
    num_truth = np.ones(count, np.int32)
    iou = metrics.best_iou(boxes, truth_boxes, num_truth)
    labels, num_classes = split.labels, len(dataset.class_names)
    top = np.stack([rng.permutation(len(dataset.class_names))[:5] for _ in range(count)])
    top[:, 0] = np.where(rng.random(count) < 0.8, labels, top[:, 0])
    top = top.astype(np.int32)
    located = protocol.hits(iou)
    methods = {}
    for score in Constant().scores(protocol, truth_boxes, num_truth, None, None):
        values = intervals.method_metrics(
            labels, top, num_classes, score.iou, score.hits, protocol.hits(score.iou)
        )
        methods[score.name] = MethodResult(score.name, score.title, score.tuned, values)
    values = {
        "model": "runs/demo/model",
        "dataset": "creatures",
        "split": "test",
        "protocol": "paper",
        "frame": "crop",
        "image_size": image_size,
        "resize_size": resize_size,
        "class_names": dataset.class_names,
        "shape": shape,
        "index": np.arange(count),
        "files": tuple(split.file(index) for index in range(count)),
        "labels": labels,
        "sizes": sizes,
        "top_classes": top,
        "top_probabilities": np.sort(rng.random((count, 5)), axis=1)[:, ::-1].astype(np.float32),
        "coefficients": coefficients,
        "boxes_rel_xyxy": boxes,
        "truth_boxes_rel_xyxy": truth_boxes,
        "num_truth_boxes": num_truth,
        "iou": iou,
        "located": located,
        "mask_iou": None,
        "angle_error": None,
        "unreadable": (),
        "metrics": {
            "num_images": count,
            **intervals.summarized(intervals.class_errors(labels, top, num_classes)),
            **intervals.method_metrics(
                labels, top, num_classes, iou, hits_by_level(protocol, iou), located
            ),
        },
        "methods": methods,
        "history": {"classifier": _classifier_log(rng), "detector": _detector_log(rng)},
        "mean_color": MEAN_COLOR,
        "read_image": image_reader(split, np.arange(count), resize_size, image_size, None),
        "render_masks": lambda rows: np.asarray(
            shape.masks(changes.get("coefficients", coefficients)[rows], image_size, image_size)
        )[..., 0],
    }
    return Evaluation(**{**values, **changes})


def _moved(boxes, angles, shape, rng):
    center, extent = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    count = len(boxes)
    center = center + rng.normal(0, 0.05, (count, 2)) * rng.choice([1, 4], (count, 1), p=[0.8, 0.2])
    if not shape.rotates:
        coefficients = [center, extent * np.exp(rng.normal(0, 0.2, (count, 2)))]
    else:
        # The diagonal of the box as length, a fixed share of it as width.
        length = np.hypot(*extent.T) * np.exp(rng.normal(0, 0.15, count))
        width = length * rng.uniform(0.3, 0.55, count)
        angle = (angles + rng.normal(0, 0.15, count) + np.pi / 2) % np.pi - np.pi / 2
        coefficients = [center, length[:, None], width[:, None], angle[:, None]]
    return np.concatenate(coefficients, axis=1).astype(np.float32)


def _classifier_log(rng):
    epochs = np.arange(12)
    return {
        "epoch": epochs,
        "accuracy": 1 - 0.85 * np.exp(-epochs / 3) + rng.normal(0, 0.01, 12),
        "loss": 2.3 * np.exp(-epochs / 3) + rng.normal(0, 0.02, 12),
    }


def _detector_log(rng):
    epochs = np.arange(30)
    decay = np.exp(-epochs / 8)

    def noise():
        return rng.normal(0, 0.01, 30)

    logs = {
        "area_loss": 0.2 + 0.25 * decay + noise(),
        "object_loss": 0.3 + 1.4 * decay + noise(),
        "background_loss": -1.9 + 1.2 * decay + noise(),
    }
    return {
        "epoch": epochs,
        "loss": sum(logs.values()),
        **logs,
        "object_accuracy": 0.9 - 0.5 * decay + noise(),
        "background_accuracy": 0.2 + 0.5 * decay + noise(),
        "mean_cx": 0.5 + noise(),
    }
