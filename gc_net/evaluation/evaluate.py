"""Evaluation of a model on a split: predictions, metrics, baselines, and the files about them."""

import logging
import os

import numpy as np

from gc_net.datasets import pipeline, transforms
from gc_net.datasets.base import DataError
from gc_net.datasets.cache import ImageCache
from gc_net.datasets.loading import Unreadable
from gc_net.evaluation import baselines as baseline_methods
from gc_net.evaluation import passes, protocols, summary, tables
from gc_net.evaluation.baselines.base import Unsuitable, hits_by_level
from gc_net.evaluation.results import BaselineResult, Evaluation, read_history
from gc_net.evaluation.writing import predictions, write_json

_log = logging.getLogger("gc_net")

# Training images that a baseline may be fitted on; more change a principal component little.
_FIT_IMAGES = 1000


def run_evaluation(
    model_dir,
    dataset,
    output_dir,
    *,
    resize_size=None,
    score_maps=False,
    report=True,
    **options,
):
    """Evaluate a saved model and write `metrics.json`, `predictions.json` and `report.html`.

    Args:
        model_dir: Folder of a model, see `gc_net.saving`.
        dataset: A `Dataset`.
        output_dir: Folder to write to.
        resize_size: As for `evaluate`; the one the model was trained with if None.
        score_maps: Whether to write the masks as score maps, and the dataset's lists, in the
            format of clovaai/wsolevaluation to `<output_dir>/wsoleval`.
        report: Whether to write `report.html`.
        options: See `evaluate`: `protocol`, `split`, `baselines`, `batch_size`, `ten_crop`,
            `limit`, `cache`.

    Returns:
        Dict, the content of `metrics.json`.

    Example:
        run_evaluation("runs/mine/model", gc_net.datasets.get("creatures"), "runs/mine/evaluation")
    """
    from gc_net.saving import load_model

    saved = load_model(model_dir)
    evaluation = evaluate(
        saved.model,
        saved.class_names,
        dataset,
        model_dir=os.fspath(model_dir),
        resize_size=resize_size or saved.info.get("resize_size"),
        **options,
    )
    os.makedirs(output_dir, exist_ok=True)
    write_json(os.path.join(output_dir, "metrics.json"), evaluation.metrics)
    write_json(os.path.join(output_dir, "predictions.json"), predictions(evaluation))
    if score_maps:
        from gc_net.evaluation.wsoleval import write_score_maps

        folder = os.path.join(output_dir, "wsoleval")
        write_score_maps(folder, evaluation, dataset.truth(evaluation.split))
    if report:
        from gc_net.evaluation.report import write_report

        write_report(output_dir, evaluation)
    print(tables.evaluation_table(evaluation.metrics))
    return evaluation.metrics


def evaluate(
    model,
    class_names,
    dataset,
    *,
    model_dir="",
    protocol="paper",
    split="test",
    baselines=None,
    batch_size=32,
    ten_crop=False,
    limit=None,
    resize_size=None,
    cache=None,
):
    """Evaluate a model on a split in one pass.

    Args:
        model: A `GCNet`.
        class_names: The names the model was trained with, in label order.
        dataset: A `Dataset`; it must have boxes.
        model_dir: Folder the model came from, to name it and to find the logs of its training.
        protocol: `"paper"`, `"full"` or `"wsoleval"`, see `gc_net.evaluation.protocols`.
        split: `"test"` or `"train"`.
        baselines: Names, see `gc_net.evaluation.baselines`. If None, all that this model allows,
            without downloading anything.
        batch_size: Images a batch.
        ten_crop: Whether the classification errors are of the mean over ten crops, as in the
            paper. LocErr always takes the class from the central one.
        limit: Evaluate only this many images, spread evenly over the split.
        resize_size: Side to squash to before cropping; 256 for 224, and in proportion, if None.
        cache: Folder for decoded images, or None.

    Returns:
        An `Evaluation`.
    """
    protocol = protocols.get(protocol)
    data, truth = dataset.split(split), dataset.truth(split)
    _check(model, class_names, dataset, data, truth)
    image_size = model.detector.image_size
    if protocol.frame == "full":
        if ten_crop:
            raise ValueError(f"The protocol {protocol.name!r} has no crops: leave out ten_crop.")
        resize_size = image_size
    else:
        resize_size = resize_size or transforms.default_resize_size(image_size)
    options = {"image_size": image_size, "resize_size": resize_size, "batch_size": batch_size}
    methods = _prepared_baselines(baselines, model.classifier, dataset, protocol, cache, options)
    unreadable = Unreadable()
    images = None if cache is None else ImageCache(cache, data, resize_size)
    found = passes.collect(
        model,
        methods,
        data,
        truth,
        protocol,
        indices=_spread(len(data), limit),
        ten_crop=ten_crop,
        unreadable=unreadable,
        cache=images,
        **options,
    )
    if not found:
        raise DataError(f"No image could be evaluated.\n{unreadable.summary()}")
    if not found["num_truth_boxes"].any():
        raise DataError(
            f"None of the {len(found['labels']):,} evaluated images of the {split!r} split has a "
            "box to compare with. Give images that have some, or lift the limit."
        )
    baseline_results = _baseline_results(methods, protocol, found)
    return Evaluation(
        model=model_dir,
        dataset=dataset.name,
        split=split,
        protocol=protocol.name,
        frame=protocol.frame,
        image_size=image_size,
        resize_size=resize_size,
        class_names=tuple(class_names),
        shape=model.shape,
        files=tuple(data.file(index) for index in found["index"]),
        located=protocol.hits(found["iou"]),
        mask_iou=found.get("mask_iou"),
        angle_error=found.get("angle_error"),
        unreadable=tuple(unreadable),
        metrics={
            "num_images": len(found["labels"]),
            **_own_metrics(protocol, found),
            "protocol": protocol.name,
            "model": model_dir,
            "dataset": dataset.name,
            "split": split,
            "ten_crop": ten_crop,
            "num_without_boxes": int((found["num_truth_boxes"] == 0).sum()),
            "num_unreadable": len(unreadable),
            "unreadable": [{"file": file, "reason": reason} for file, reason in unreadable],
            "settings": _settings(model, options),
            "baselines": {
                name: {"title": result.title, "tuned": result.tuned, **result.metrics}
                for name, result in baseline_results.items()
            },
        },
        baselines=baseline_results,
        history=read_history(model_dir) if model_dir else {},
        mean_color=_mean_color(model.classifier),
        read_image=_reader(data, found["index"], resize_size, image_size, images),
        render_masks=_renderer(model, found["coefficients"]),
        **{name: found[name] for name in _FOUND},
    )


# What `passes.collect` finds under the names that `Evaluation` gives it.
_FOUND = (
    "index",
    "labels",
    "sizes",
    "top_classes",
    "top_probabilities",
    "coefficients",
    "boxes_rel_xyxy",
    "truth_boxes_rel_xyxy",
    "num_truth_boxes",
    "iou",
)


def _check(model, class_names, dataset, data, truth):
    """Raise where model and data do not belong together, before anything is read."""
    if not hasattr(model, "detector"):
        raise ValueError(
            f"The model is a {type(model).__name__}, which localizes nothing. Expected a GCNet: "
            "give the folder that the detector's training wrote."
        )
    num_classes = model.classifier.num_classes
    if not class_names:
        raise ValueError(
            "The model has no list of classes. Save it again with `class_names`, in the order of "
            "the labels it was trained with."
        )
    if len(class_names) != num_classes:
        raise ValueError(
            f"The model tells {num_classes} classes apart, but its list names {len(class_names)}. "
            "Its model.json is damaged or was changed."
        )
    if len(data.class_names) != num_classes:
        raise ValueError(
            f"The model tells {num_classes} classes apart, the dataset {dataset.name!r} has "
            f"{len(data.class_names)}. Give the dataset the model was trained on."
        )
    for label, (ours, theirs) in enumerate(zip(class_names, data.class_names, strict=True)):
        if ours != theirs:
            raise ValueError(
                f"Class {label} is {ours!r} to the model and {theirs!r} in the dataset "
                f"{dataset.name!r}. Give the dataset the model was trained on, with its classes "
                "in the same order."
            )
    if len(data) == 0:
        raise DataError(f"The {data.name!r} split of the dataset {dataset.name!r} is empty.")
    if truth is None or not len(truth.boxes):
        raise DataError(
            f"The {data.name!r} split of the dataset {dataset.name!r} has no boxes, so there is "
            "nothing to compare predicted ones with. Give boxes (for a folder: --boxes, a COCO, "
            "Pascal VOC or CSV file)."
        )


def _spread(num_images, limit):
    """Return the indices of at most `limit` images, evenly spread: splits are sorted by class."""
    if limit is None or limit >= num_images:
        return np.arange(num_images)
    if limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: {limit}")
    return np.arange(limit) * num_images // limit


def _prepared_baselines(names, classifier, dataset, protocol, cache, options):
    def training_batches():
        split = dataset.split("train")
        indices = _spread(len(split), _FIT_IMAGES)
        batches = pipeline.evaluation_batches(
            split, frame=protocol.frame, indices=indices, cache=cache, **options
        )
        return (batch["image"] for batch in batches)

    methods = []
    for name in baseline_methods.DEFAULT if names is None else names:
        method = baseline_methods.get(name)
        try:
            method.prepare(classifier, training_batches)
        except Unsuitable as error:
            if names is not None:
                raise ValueError(f"The baseline {method.name!r} cannot be used: {error}") from error
            _log.warning("The baseline %r is left out: %s", method.name, error)
        else:
            methods.append(method)
    return methods


def _own_metrics(protocol, found):
    classes = found.get("ten_crop_classes", found["top_classes"])
    more = {}
    if "mask_iou" in found:
        more["mask_iou"] = 100.0 * found["mask_iou"]
    if "angle_error" in found:
        more["angle_error"] = found["angle_error"]
    return {
        **summary.summarized(summary.class_errors(found["labels"], classes)),
        **summary.method_metrics(
            found["labels"],
            found["top_classes"],
            found["iou"],
            hits_by_level(protocol, found["iou_v2"]),
            protocol.hits(found["iou"]),
            more,
        ),
    }


def _baseline_results(methods, protocol, found):
    results = {}
    for method in methods:
        scores = method.scores(
            protocol,
            found["truth_boxes"],
            found["num_truth_boxes"],
            found.get(f"map_iou/{method.name}"),
            found.get(f"map_iou_v2/{method.name}"),
        )
        for score in scores:
            values = summary.method_metrics(
                found["labels"],
                found["top_classes"],
                score.iou,
                score.hits,
                protocol.hits(score.iou),
            )
            results[score.name] = BaselineResult(score.name, score.title, score.tuned, values)
    return results


def _settings(model, options):
    """Return what tells one run from another, for tables that compare several."""
    return {
        "backbone": model.detector.backbone.name,
        "head": model.detector.head_name,
        "shape": model.shape.name,
        "generator": model.generator.kind,
        "alpha": model.alpha,
        "beta": model.beta,
        "gamma": model.gamma,
        "image_size": options["image_size"],
        "resize_size": options["resize_size"],
    }


def _mean_color(classifier):
    """Return the colour that normalizes to zero, which masked pixels take, RGB 0–255.

    The normalizer is affine, but may mix or reorder the channels: four colours tell it all.
    """
    colors = np.concatenate([np.zeros((1, 3)), np.eye(3)]).astype(np.float32)
    normalized = np.asarray(classifier.normalize(colors[:, None, None]))[:, 0, 0]  # [4, 3]
    offset = normalized[0].astype(np.float64)
    slopes = (normalized[1:] - offset).T
    return np.clip(np.linalg.solve(slopes, -offset), 0, 255).astype(np.float32)


def _reader(data, index, resize_size, image_size, cache):
    window = transforms.center_window(resize_size, image_size)

    def read_image(row):
        place = int(index[row])
        stored = cache.get(place) if cache else None
        image = transforms.squash(data.read(place), resize_size) if stored is None else stored[0]
        return transforms.take(image, window, image_size)

    return read_image


def _renderer(model, coefficients):
    def render_masks(rows):
        masks = model.generator(coefficients[np.asarray(rows)], training=False)
        return np.asarray(masks, np.float32)[..., 0]  # [n, S, S]

    return render_masks
