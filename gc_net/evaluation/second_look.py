"""The second look in evaluation, and how to choose how closely to look, without a single box.

The detector places a shape, a square around it is cut out of the original image, and the classifier
says what it sees there; see `gc_net.data.crops`. How large the square should be is a matter of
the classifier, which was trained on whole images, and of how well shapes fit. `measure` tries
several sizes on labelled images. Training images do, if the classifier that judges one was not
fitted on it: one that was knows it by heart, and finds it easier as a whole than in parts.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gc_net.classifier import Classifier
from gc_net.data import transforms
from gc_net.data.splits import Dataset, Split
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import check_classes, spread
from gc_net.localizer import Localizer
from gc_net.prediction.graph import mean_of_looks
from gc_net.prediction.second_look import SecondLook
from gc_net.saving import load_model
from gc_net.tables import aligned
from gc_net.training_record import TrainingRecord

LOOKS = (0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0)
_BATCH_SIZE = 32


def second_classifier_size(localizer: Localizer) -> int | None:
    """Return the image size of the second classifier; None where there is none."""
    return localizer.second_classifier and localizer.second_classifier.image_size


def diagnose_looks(
    model_dir: str | os.PathLike,
    dataset: Dataset | Callable[[TrainingRecord], Dataset],
    split: str = "train",
    classifiers: str | None = None,
    limit: int = 256,
) -> list[dict[str, Any]]:
    """Print how well several second looks do, to choose one.

    Args:
        model_dir: Folder of a model, see `gc_net.saving`.
        dataset: A `Dataset`, or a function of the model's `TrainingRecord` to one.
        split: `"train"` or `"test"`.
        classifiers: Folder of a run with cross-fitted classifiers, which judge the training images
            they were not fitted on; the model's own classifier judges if None.
        limit: Most images to look at.

    Returns:
        The rows of `measure`.

    Raises:
        ValueError: If the model has a second classifier, which was trained for one region.
    """
    localizer = Localizer.load(model_dir)
    _check_one_classifier(localizer)
    dataset = dataset(localizer.record) if callable(dataset) else dataset
    data = dataset.split(split)
    check_classes(localizer.class_names, dataset, data)
    indices = spread(len(data), limit)
    if classifiers is None:
        judges = [(localizer.classifier, indices)]
        judged = _judged_by_own(localizer.record, split)
    else:
        if split != "train":
            raise ValueError("Cross-fitted classifiers judge training images: use the train split.")
        judges = fold_judges(classifiers, data, indices, localizer.image_size)
        judged = (
            f"Judged by the classifiers of {classifiers}: each image by the one that was not "
            "fitted on it."
        )
    rows = measure(localizer, data, judges)
    best = max(rows, key=lambda row: (row["both_accuracy"], -row["both_cross_entropy"]))
    accuracy, count = best["both_accuracy"], best["num_images"]
    error = 100 * math.sqrt(accuracy * (1 - accuracy) / count)
    print(
        f"The second look on {count:,} {split} images, the first one as `gc-net predict` has it. "
        f"No box was read for this. {judged}\n\n{looks_table(rows)}\n\n"
        f"{_advice(best)} An accuracy on so many images has a "
        f"standard error of {error:.1f} points: smaller differences may be chance."
    )
    return rows


def _check_one_classifier(localizer):
    """Raise where close-ups are classified by a network that was trained for those of one look."""
    if localizer.second_classifier is None:
        return
    raise ValueError(
        "The model has a second classifier, which is to be used with the look that it was trained "
        f"for: --second_look={localizer.second_look:g}. Another one is chosen before a second "
        "classifier is trained: give a model without one (--second_classifier_epochs=0)."
    )


def _advice(best):
    if best["look"] is None:
        return "No second look helps: --second_look=0."
    return f"Both looks do best at --second_look={best['look']:g}."


def _judged_by_own(record, split):
    """Return what is to be known about a judgement by the model's own classifier."""
    if split == "test":
        return (
            "Judged by the model's own classifier. These are test images: what is chosen by them "
            "should not be measured on them."
        )
    if record.settings.get("classifier", {}).get("recipe") == "none":
        return (
            "Judged by an ImageNet network as it is, which the model's training did not change. "
            "It knows ILSVRC's training images, and no others: of those it knows, whole images are "
            "at an advantage."
        )
    return (
        "Judged by the model's own classifier, which was fitted on these very images and knows "
        "them: whole images are at an advantage. Where there are cross-fitted classifiers, give "
        "their run (--classifiers)."
    )


def measure(
    localizer: Localizer,
    split: Split,
    judges: Iterable[tuple[Classifier, np.ndarray]],
    looks: Sequence[float] = LOOKS,
) -> list[dict[str, Any]]:
    """Measure the classifier on regions of several sizes around the shapes of a detector.

    Args:
        localizer: The `Localizer` that places the shapes.
        split: A `Split`.
        judges: Iterable of (classifier, [M] indices of images that it judges).
        looks: K multiples of the longer sides of the shapes' boxes.

    Returns:
        List of dicts: of the whole image, with `look` None, and of each look. `accuracy` from 0 to
        1 and `cross_entropy` are those of the region alone, `both_accuracy` and
        `both_cross_entropy` those of the mean with the whole image; `num_images`.
    """
    place = localizer.placer()
    collected, labels = [], []
    for classifier, indices in judges:
        judge = SecondLook(classifier, split, looks, required=True)
        batches = readable_batches(
            judge.split,
            image_size=localizer.resize_size,
            batch_size=_BATCH_SIZE,
            frame="full",
            indices=indices,
            label="Looking twice",
        )
        for batch in batches:
            windows = transforms.central(batch["image"], localizer.image_size)
            whole = judge.classify(windows).numpy()[:, None]
            closer, _ = judge(batch["index"].numpy(), place(batch["image"]).boxes.numpy())
            collected.append(np.concatenate([whole, closer], axis=1))  # [B, 1 + K, C]
            labels.append(batch["label"].numpy())
    probabilities, labels = np.concatenate(collected), np.concatenate(labels)
    rows = []
    for number, look in enumerate((None, *looks)):
        region = probabilities[:, number]
        row = {"look": look, "num_images": len(labels), **_scores(region, labels)}
        both = _scores(mean_of_looks(probabilities[:, 0], region), labels)
        rows.append({**row, **{f"both_{name}": value for name, value in both.items()}})
    return rows


def fold_judges(
    run_dir: str, split: Split, indices: np.ndarray, image_size: int
) -> Iterator[tuple[Classifier, np.ndarray]]:
    """Yield each classifier of a run's folds, and the [M] images among `indices` it may judge.

    Raises:
        ValueError: If the run has none, or ones of other images.
    """
    from gc_net.stages.config import DataConfig
    from gc_net.stages.fold_classifiers import fold_name
    from gc_net.stages.run_folder import run_settings
    from gc_net.training.folds import assign_folds

    record = run_settings(run_dir, "classifier")
    num_folds = record["classifier"]["num_folds"]
    if num_folds < 2:
        raise ValueError(
            f"The run in {run_dir} has one classifier, fitted on all training images. Give one "
            "trained with --classifier_num_folds=2 or more, or leave out --classifiers."
        )
    config = DataConfig.from_dict(record["data"])
    found = split.fingerprint()
    if found != record["training_images"]:
        raise ValueError(
            f"The classifiers in {run_dir} were fitted on other images: "
            f"{record['training_images']}, and these are {found}. Which of these they have not "
            "seen cannot be told. Give the dataset that they were trained on."
        )
    if config.image_size != image_size:
        raise ValueError(
            f"The classifiers in {run_dir} see images of {config.image_size} pixels, the model of "
            f"{image_size}. They must be the same."
        )
    folds = assign_folds(split.labels, num_folds, record["seed"])
    for fold in range(num_folds):
        members = indices[folds[indices] == fold]
        if len(members):
            folder = os.path.join(run_dir, fold_name(fold), "model")
            yield load_model(folder).model, members


def looks_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows of `measure` as text; `<` marks the highest accuracy of both looks."""
    best = max(row["both_accuracy"] for row in rows)
    lines = [["region", "top-1", "cross-entropy", "both: top-1", "cross-entropy"]]
    for row in rows:
        cells = []
        for prefix in ("", "both_"):
            cells.append(f"{100 * row[f'{prefix}accuracy']:.1f} %")
            cells.append(f"{row[f'{prefix}cross_entropy']:.3f}")
        cells[2] += "<" if row["both_accuracy"] == best else " "
        name = "whole image" if row["look"] is None else f"look={row['look']:g}"
        lines.append([name, *cells])
    return aligned(lines)


def _scores(probabilities, labels):
    own = probabilities[np.arange(len(labels)), labels]
    return {
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == labels)),
        "cross_entropy": float(-np.mean(np.log(np.maximum(own, 1e-30)))),
    }
