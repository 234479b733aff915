"""Flags of the tools that read a trained model's dataset, or another one."""

import functools

from absl import flags

from gc_net.datasets import DATASETS

from . import path_flags

_NAMES = ("dataset", "data_dir", "dataset_options", "boxes")


def define(split):
    """Define the flags of a dataset; `split` is the default part of it."""
    flags.DEFINE_enum(
        "dataset", None, DATASETS.names, "Kind of dataset; the one it was trained on if not set."
    )
    path_flags.define("data_dir", None, "Folder of the dataset; that of the training if not set.")
    flags.DEFINE_string("dataset_options", None, "More of the dataset's settings, as in training.")
    path_flags.define(
        "boxes", None, "Box file of a folder: COCO .json, .csv, or a folder of XML files."
    )
    flags.DEFINE_enum("split", split, ["train", "test"], "Which part of the dataset.")


def dataset():
    """Return a function of a model's `TrainingRecord` to the dataset that the flags name."""
    from gc_net.evaluation.evaluate import recorded_dataset

    return functools.partial(recorded_dataset, **{name: flags.FLAGS[name].value for name in _NAMES})
