"""Flags of the tools that read a dataset: that of a trained model, or one that they name."""

import functools

from absl import flags

from gc_net.datasets import DATASETS

from . import path_flags

_NAMES = ("dataset", "data_dir", "dataset_options", "boxes")


def define(split, dataset=None):
    """Define the flags of a dataset.

    Args:
        split: The default part of it.
        dataset: The default kind, for tools without a model; None for that of the model.
    """
    if dataset is None:
        kind, folder = "; the one it was trained on if not set", "; that of the training if not set"
    else:
        kind, folder = "", "; the creatures have none"
    flags.DEFINE_enum("dataset", dataset, DATASETS.names, f"Kind of dataset{kind}.")
    path_flags.define("data_dir", None, f"Folder of the dataset{folder}.")
    flags.DEFINE_string("dataset_options", None, "More of the dataset's settings, as in training.")
    path_flags.define(
        "boxes", None, "Box file of a folder: COCO .json, .csv, or a folder of XML files."
    )
    flags.DEFINE_enum("split", split, ["train", "test"], "Which part of the dataset.")


def opened(**more):
    """Open the dataset that the flags name, without a model; `more` are options of it."""
    from gc_net.datasets import open_dataset
    from gc_net.stages.config import DataConfig

    given = flags.FLAGS
    config = DataConfig(given.dataset, given.data_dir, given.dataset_options or "")
    if given.boxes is not None:
        more["boxes"] = given.boxes
    return open_dataset(config, **more)


def dataset():
    """Return a function of a model's `TrainingRecord` to the dataset that the flags name."""
    from gc_net.evaluation.evaluate import recorded_dataset

    return functools.partial(recorded_dataset, **{name: flags.FLAGS[name].value for name in _NAMES})
