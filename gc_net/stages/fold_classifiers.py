"""Classifiers for cross-fitting: each judges the images of one fold, and learns from the others."""

import sys

from gc_net.data.names import some
from gc_net.stages.base import is_trained
from gc_net.stages.classifier import ClassifierStage


class FoldClassifiersStage(ClassifierStage):
    """Trains the classifier that judges the images of one fold.

    Args:
        fold: Number of the fold.
    """

    settings = None
    section = "classifier"
    of_all_methods = False
    # They judge only in training; the final model has the classifier of all images.
    provides = ()

    def __init__(self, fold: int):
        self.fold = fold
        self.name = fold_name(fold)
        self.title = f"Classifier for images of fold {fold}"  # as its folder is called

    @classmethod
    def units(cls, config):
        # Without epochs of the detector there is nothing to judge.
        num_folds = config.classifier.num_folds if is_trained(config.detector) else 0
        return [cls(fold) for fold in range(num_folds)]

    def record(self):
        return {"fold": self.fold}

    def images(self, run):
        import numpy as np

        return np.flatnonzero(run.folds() != self.fold)

    def check(self, run):
        if self.fold == 0:
            _warn_of_lonely_images(run)
        return super().check(run)


def fold_name(fold: int) -> str:
    """Return the name of the classifier of a fold, and of its folder."""
    return f"classifier_fold{fold}"


def _warn_of_lonely_images(run):
    """Warn of classes whose only image is judged by a classifier that does not know the class."""
    import numpy as np

    counts = np.bincount(run.data.split.labels, minlength=len(run.class_names))
    lonely = [run.class_names[label] for label in np.flatnonzero(counts == 1)]
    if lonely and run.chief:
        print(
            f"Warning: there is a single training image of {some(lonely, 3)}. With "
            "--classifier_num_folds, a classifier that has never seen this class judges it, so it "
            "teaches the detector nothing. Add images, or leave such classes out.",
            file=sys.stderr,
        )
