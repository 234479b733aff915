"""Evaluation of a model on a split: predictions, metrics, other methods, and the files of it."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gc_net import engines
from gc_net.data.cache import ImageCache
from gc_net.data.loading import Unreadable
from gc_net.data.splits import DataError, Dataset, Truth
from gc_net.datasets import open_dataset
from gc_net.engines.base import Engine
from gc_net.evaluation import (
    intervals,
    measure,
    method_results,
    protocols,
    tables,
    wsoleval,
)
from gc_net.evaluation.agreement import believed
from gc_net.evaluation.checks import check_alike, check_classes, check_truth, spread
from gc_net.evaluation.files import evaluation_folder, predictions, write_json
from gc_net.evaluation.levels import choose_levels
from gc_net.evaluation.ranking import ranking
from gc_net.evaluation.results import Evaluation, read_history
from gc_net.evaluation.second_look import second_classifier_size
from gc_net.localizer import Localizer
from gc_net.methods import localizer as method_localizer
from gc_net.methods.base import hits_by_level
from gc_net.methods.localizer import MethodLocalizer
from gc_net.report.images import image_reader, mask_renderer, mean_color
from gc_net.report.report import remove_report, write_report
from gc_net.run_files import RunError
from gc_net.saving import model_folder
from gc_net.stages.config import DataConfig
from gc_net.training_record import TrainingRecord


def run_evaluation(
    model_dir: str | os.PathLike,
    dataset: Dataset | Callable[[TrainingRecord], Dataset],
    output_dir: str | os.PathLike,
    *,
    score_maps: bool = False,
    report: bool = True,
    replace: bool = True,
    agreement: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Evaluate a saved model and write `metrics.json`, `predictions.json` and `report.html`.

    The classifier of a method that was trained by `--method` is measured by that method's boxes.
    Without boxes, only the classification errors are known; the report shows what was drawn.

    Args:
        model_dir: Folder of a model, see `gc_net.saving`.
        dataset: A `Dataset`, or a function of the model's `TrainingRecord` to one, such as
            `recorded_dataset`.
        output_dir: Folder to write to.
        score_maps: Whether to write the masks, or a method's heat maps, as score maps, and the
            dataset's lists, in the format of clovaai/wsolevaluation to `<output_dir>/wsoleval`.
        report: Whether to write `report.html`.
        replace: Whether to replace an evaluation in that folder that was measured in another way,
            e.g. by another protocol; if not, it is an error. One that was measured in the same way
            is always replaced.
        agreement: Whether to estimate, without boxes, how good the shapes are, see
            `gc_net.evaluation.agreement`. It takes ten windows of up to 128 images. Methods have no
            shapes, so it does not apply to them.
        options: See `evaluate`: `protocol`, `split`, `methods`, `batch_size`, `ten_crop`,
            `limit`, `resize_size`, `cache`, `second_look`, `engine`, `level_teacher`,
            `level_folder`.

    Returns:
        Dict, the content of `metrics.json`.

    Example:
        run_evaluation("runs/mine/model", recorded_dataset, "runs/mine/evaluation")
    """
    protocol = protocols.get(options.get("protocol", "paper"))
    if score_maps:
        wsoleval.check_frame(protocol)
    model_dir = model_folder(model_dir)  # its run's logs lie beside it
    localizer = method_localizer.load(model_dir)
    if callable(dataset):
        dataset = dataset(localizer.record)
    folder = os.path.join(output_dir, "wsoleval")
    if score_maps:
        split = options.get("split", "test")
        check_truth(dataset.truth(split), dataset, dataset.split(split))
        options["on_maps"] = wsoleval.map_writer(folder, dataset.split(split))
    evaluation = evaluate(
        localizer,
        dataset,
        model_dir=os.fspath(model_dir),
        check=None if replace else functools.partial(check_alike, output_dir),
        **options,
    )
    if agreement and isinstance(localizer, Localizer):
        data = dataset.split(evaluation.split)
        engine = options.get("engine", engines.AUTO)
        found = believed(localizer, data, os.fspath(model_dir), engine)
        metrics = {**evaluation.metrics, "agreement": found}
        evaluation = dataclasses.replace(evaluation, metrics=metrics)
    os.makedirs(output_dir, exist_ok=True)
    remove_report(output_dir)  # an older one would stand beside other numbers
    write_json(os.path.join(output_dir, "metrics.json"), evaluation.metrics)
    write_json(os.path.join(output_dir, "predictions.json"), predictions(evaluation))
    if report:
        write_report(output_dir, evaluation)
    print(tables.evaluation_table(evaluation.metrics))
    if score_maps:
        has_maps = isinstance(localizer, MethodLocalizer) and localizer.method.has_maps
        truth = dataset.truth(evaluation.split)
        command = wsoleval.write_score_maps(folder, evaluation, truth, has_maps)
        print(f"To evaluate the score maps with clovaai/wsolevaluation:\n  {command}")
    return evaluation.metrics


def evaluate_run(model_dir: str | os.PathLike, dataset: Dataset, cache: str | None = None) -> None:
    """Evaluate a finished run on its dataset's test images, and say how good it believes it is.

    Without boxes, only the classes are measured. The check whether the shapes follow the images
    needs no boxes.

    Args:
        model_dir: Folder of the model that the run has written.
        dataset: The run's `Dataset`.
        cache: Folder for decoded images, or None.

    Raises:
        RunError: If that fails; the message says that the model is there nevertheless.
    """
    output_dir = evaluation_folder(model_dir)
    try:
        if not len(dataset.split("test")):
            print(f"The model is in {model_dir}. There are no test images to evaluate it on.")
            localizer = method_localizer.load(model_dir)
            if isinstance(localizer, Localizer):
                found = believed(localizer, dataset.split("train"), os.fspath(model_dir))
                print(found["verdict"])
            return
        run_evaluation(model_dir, dataset, output_dir, cache=cache, agreement=True)
    except (ValueError, OSError) as error:
        raise RunError(
            f"Training is done and the model is in {model_dir}, but it was not evaluated: {error}\n"
            f"`gc-net evaluate --model={model_dir}` repeats the evaluation alone. --boxes names "
            "the box file of a folder."
        ) from error
    print(f"\nThe model is in {model_dir}, its evaluation in {output_dir}/report.html.")


def recorded_dataset(
    record: TrainingRecord,
    dataset: str | None = None,
    data_dir: str | None = None,
    dataset_options: str | None = None,
    boxes: str | None = None,
) -> Dataset:
    """Open the dataset a model was trained on, or another one.

    Args:
        record: Of the model's training.
        dataset: Name of a dataset. If it is None or the recorded one, what is not given here is
            taken from the record.
        data_dir, dataset_options: As in `gc_net.stages.config.DataConfig`.
        boxes: Box file of a folder, instead of one among the options.
    """
    recorded = record.dataset
    if dataset is None and "dataset" not in recorded:
        raise ValueError("The model does not record its dataset. Name one (--dataset).")
    if dataset not in (None, recorded.get("dataset")):
        recorded = {}
    options = dataset_options
    if options is None:
        options = recorded.get("dataset_options", "")
    config = DataConfig(
        dataset=dataset or recorded["dataset"],
        data_dir=data_dir or recorded.get("data_dir"),
        dataset_options=options,
    )
    return open_dataset(config, **({} if boxes is None else {"boxes": boxes}))


def evaluate(
    localizer: Localizer | MethodLocalizer,
    dataset: Dataset,
    *,
    model_dir: str = "",
    protocol: str | protocols.Protocol = "paper",
    split: str = "test",
    methods: Sequence[str] | None = None,
    batch_size: int = 32,
    ten_crop: bool = False,
    limit: int | None = None,
    resize_size: int | None = None,
    cache: str | None = None,
    second_look: float | None = None,
    level_teacher: str | None = None,
    level_folder: str | None = None,
    engine: str | Engine = engines.AUTO,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    on_maps: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Evaluation:
    """Evaluate a localizer on a split in one pass.

    If the split has no boxes, only the classification errors are measured, and no other method. A
    `MethodLocalizer` is measured by the boxes of its method, cut as its authors do.

    With a second look, the model's classes are those of a mean of two: the frame (or the ten
    crops), and a close-up of the shape, cut out of the original image. This holds for LocErr and
    for the classification errors. Boxes stay the same, and other methods keep the classes of the
    frame.

    Args:
        localizer: A `Localizer`, or a `MethodLocalizer`.
        dataset: A `Dataset`.
        model_dir: Folder the model came from, to name it and to find the logs of its training.
        protocol: `"paper"`, `"full"` or `"wsoleval"`, see `gc_net.evaluation.protocols`.
        split: `"test"` or `"train"`.
        methods: Names of other methods to measure, see `gc_net.methods`. If None, all that this
            model allows without a download; for a trained method, only centred boxes.
        batch_size: Images a batch.
        ten_crop: Whether the classification errors are of the mean over ten crops, as in the
            paper. LocErr takes the class from the central crop in any case, or from its mean with
            the close-up if there is a second look.
        limit: Evaluate only this many images, spread evenly over the split.
        resize_size: Side to squash to before cropping; the localizer's own if None. Protocols that
            show whole images take none.
        cache: Folder for decoded images, or None.
        second_look: As for `Localizer`; its own if None.
        level_teacher: Teacher whose boxes of training images choose a level for each method that
            cuts heat maps, see `gc_net.evaluation.levels`; `"auto"` for the committee, None for no
            such level.
        level_folder: Where to keep these boxes for other models, or None.
        engine: Name of what runs the networks, or an `Engine`; `"auto"` takes the fastest for this
            number of images, see `gc_net.engines`.
        check: Function of what is known of the metrics before the pass; it may raise.
        on_maps: Function that gets the heat maps of a trained method, see `measure.collect`.

    Returns:
        An `Evaluation`.
    """
    protocol = protocols.get(protocol)
    data = dataset.split(split)
    check_classes(localizer.class_names, dataset, data)
    truth = dataset.truth(split) or _no_boxes(len(data))
    if not len(truth.boxes):
        methods = ()
    if protocol.frame == "full":
        if ten_crop:
            raise ValueError(f"The protocol {protocol.name!r} has no crops: leave out ten_crop.")
        if resize_size:
            raise ValueError(
                f"The protocol {protocol.name!r} shows whole images: leave out resize_size."
            )
        resize_size = localizer.image_size
    localizer = localizer.replace(
        resize_size=resize_size or localizer.resize_size,
        second_look=localizer.second_look if second_look is None else second_look,
    )
    image_size, resize_size = localizer.image_size, localizer.resize_size
    indices = spread(len(data), limit)
    known = {
        "protocol": protocol.name,
        "model": model_dir,
        "dataset": dataset.name,
        "split": split,
        "ten_crop": ten_crop,
        "limit": limit,
        "level_teacher": level_teacher,
        "settings": own_settings(localizer),
    }
    if check:
        check({**known, "images": data.fingerprint(indices)})
    methods = method_results.prepared(methods, localizer, dataset, cache, batch_size)
    if level_teacher is not None:
        choose_levels(methods, localizer, dataset, level_teacher, level_folder, batch_size)
    if isinstance(localizer, Localizer):
        engine = engines.ready(engine, localizer.networks, len(indices))
    else:
        engine = "tensorflow"  # whose features the method looks at
    unreadable = Unreadable()
    images = None if cache is None else ImageCache(cache, data, resize_size)
    found = measure.collect(
        localizer,
        methods,
        data,
        truth,
        protocol,
        ten_crop=ten_crop,
        engine=engine,
        indices=indices,
        batch_size=batch_size,
        unreadable=unreadable,
        cache=images,
        on_maps=on_maps,
    )
    if len(truth.boxes) and not found["num_truth_boxes"].any():
        raise DataError(
            f"None of the {len(found['labels']):,} evaluated images of the {split!r} split has a "
            "box to compare with. Give images with boxes, or raise the limit."
        )
    scores = method_results.scores(methods, protocol, found)
    title = {}
    if isinstance(localizer, MethodLocalizer):
        own, *scores = scores
        found |= {"iou": own.iou, "hits": own.hits}
        title = {"title": own.title}
    else:
        found["hits"] = hits_by_level(protocol, found["iou_v2"])
    if not found["num_truth_boxes"].any():
        scores = []
    num_classes = len(localizer.class_names)
    results = method_results.results(scores, protocol, found, num_classes)
    return Evaluation(
        model=model_dir,
        dataset=dataset.name,
        folder=os.path.basename(os.path.normpath(data.root)).strip("."),
        split=split,
        protocol=protocol.name,
        frame=protocol.frame,
        image_size=image_size,
        resize_size=resize_size,
        class_names=localizer.class_names,
        shape=localizer.shape,
        files=tuple(data.file(index) for index in found["index"]),
        located=protocol.hits(found["iou"]),
        mask_iou=found.get("mask_iou"),
        angle_error=found.get("angle_error"),
        unreadable=tuple(unreadable),
        method_boxes_rel_xyxy={
            method.name: found[f"boxes_rel_xyxy/{method.name}"] for method in methods
        },
        metrics={
            **title,
            "num_images": len(found["labels"]),
            **_own_metrics(protocol, found, num_classes),
            **known,
            "images": data.fingerprint(found["index"]),
            "num_without_boxes": int((found["num_truth_boxes"] == 0).sum()),
            "num_unreadable": len(unreadable),
            "unreadable": [{"file": file, "reason": reason} for file, reason in unreadable],
            "methods": {
                name: {"title": result.title, "tuned": result.tuned, **result.metrics}
                for name, result in results.items()
            },
        },
        methods=results,
        history=read_history(model_dir) if model_dir else {},
        mean_color=mean_color(localizer.classifier),
        read_image=image_reader(data, found["index"], resize_size, image_size, images),
        render_masks=mask_renderer(localizer, found["coefficients"]),
        confidence=found.get("confidence"),
        **title,
        **{name: found[name] for name in _FOUND},
    )


# What `measure.collect` finds under the names that `Evaluation` gives it.
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


def _no_boxes(num_images):
    return Truth(np.empty((0, 4), np.float32), np.zeros(num_images + 1, np.int64))


def _own_metrics(protocol, found, num_classes):
    classes = found.get("ten_crop_classes", found["top_classes"])
    class_errors = intervals.class_errors(found["labels"], classes, num_classes)
    class_errors = intervals.summarized(class_errors)
    if not found["num_truth_boxes"].any():
        return class_errors
    more = {}
    for name in ("mask_iou", "best_mask_iou"):
        if name in found:
            more[name] = 100.0 * found[name]
    if np.isfinite(found.get("angle_error", np.nan)).any():
        more["angle_error"] = found["angle_error"]
    measured = {
        **class_errors,
        **intervals.method_metrics(
            found["labels"],
            found["top_classes"],
            num_classes,
            found["iou"],
            found["hits"],
            protocol.hits(found["iou"]),
            more,
        ),
    }
    if "confidence" in found:
        boxed = np.isfinite(found["iou"])
        located = protocol.hits(found["iou"])[boxed]
        measured["confidence"] = ranking(found["confidence"][boxed], located)
    if "angle_error" in more:
        known = more["angle_error"][np.isfinite(more["angle_error"])]
        measured["num_angles"] = len(known)
        # A few axes that are told wrong by a right angle move the mean, not the median.
        measured["median_angle_error"] = round(float(np.median(known)), 4)
    return measured


def own_settings(localizer: Localizer | MethodLocalizer) -> dict[str, Any]:
    """Return what tells one run from another, for tables that compare several."""
    if isinstance(localizer, MethodLocalizer):
        return localizer.settings()
    detector = localizer.detector
    return {
        "backbone": detector.backbone.name,
        "head": detector.head_name,
        "shape": localizer.shape.name,
        "rotates": localizer.shape.rotates,
        "generator": localizer.generator.kind,
        "parametrization": detector.parametrization.name,
        "loss_weights": dict(localizer.record.loss_weights),
        "image_size": localizer.image_size,
        "resize_size": localizer.resize_size,
        "second_look": localizer.second_look,
        "mirror": localizer.mirror,
        "second_classifier_size": second_classifier_size(localizer),
    }
