"""A stage's view of its run."""

import os
import zlib
from typing import TYPE_CHECKING

import keras
import numpy as np

from gc_net.classifier import Classifier
from gc_net.data.splits import Dataset
from gc_net.localizer import Localizer
from gc_net.run_files import RunError
from gc_net.saving import load_model, save_model
from gc_net.stages.base import Stage
from gc_net.stages.dependencies import needed, visible_settings
from gc_net.stages.networks import build_classifier, untrained
from gc_net.training.data import TrainingData
from gc_net.training.folds import assign_folds
from gc_net.weights import save_weights_npz

if TYPE_CHECKING:
    from gc_net.stages.runner import Runner


class StageRun:
    """A stage's view of its run.

    Attributes:
        config: Only the settings that the stage reads, as in `TrainConfig`.
        settings: The settings of its own section.
        options: The `RunOptions`.
        folder: The stage's folder.
        chief: Whether this process writes files.
    """

    def __init__(self, runner: "Runner", stage: Stage):
        self._runner = runner
        self._stage = stage
        self.config = visible_settings(runner.config, type(stage))
        self.settings = stage.own_settings(self.config)
        self.options = runner.options
        self.folder = runner.folder(stage)
        self.chief = runner.chief

    @property
    def data(self) -> TrainingData:
        """The training images."""
        return self._runner.data

    @property
    def dataset(self) -> Dataset:
        """The dataset; no stage may learn from its boxes."""
        return self._runner.dataset

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names in label order."""
        return self._runner.dataset.class_names

    @property
    def cache_dir(self) -> str | None:
        """Folder for decoded images, or None."""
        return self._runner.cache_dir

    def has(self, name: str) -> bool:
        """Return whether the settings ask for the stage called `name`."""
        return name in self._runner.units

    def path(self, name: str, of: str | None = None) -> str:
        """Return the path of a file in the stage's folder, or in that of a stage it needs."""
        folder = self.folder if of is None else self._runner.folder(self._runner.units[of])
        return os.path.join(folder, name)

    def result_path(self, name: str | None = None) -> str:
        """Return the path of the result of a stage that this one needs, or of its own."""
        unit = self._runner.units[name or self._stage.name]
        return os.path.join(self._runner.folder(unit), unit.result(self._runner.config))

    def load(self, name: str) -> keras.Model:
        """Return the network that a stage has made, loaded again each time.

        This also holds if it was trained in this process. Dropout draws a seed when it is made and
        another one in every step, so a network would otherwise depend on what ran before.
        """
        self.set_seed(name)
        return load_model(os.path.dirname(self.result_path(name)), precision=None).model

    def save(self, network: keras.Model) -> None:
        """Write the network that the stage has made."""
        if not self.chief:
            return
        save_model(self.path("model"), network, self.class_names, self._runner.record())

    def save_weights(self, path: str, network: keras.Model, dtype: str = "float32") -> None:
        """Write only the weights of a network."""
        if self.chief:
            save_weights_npz(path, network, dtype=dtype)

    def localizer(self) -> Localizer:
        """Return the localizer made of the stages that this one needs."""
        return self._runner.localizer(needed(self._stage, self._runner.units))

    def set_seed(self, name: str | None = None) -> None:
        """Set the random seed of a stage, by default this one.

        Each stage has its own seed, so its result does not depend on which stages ran before.
        """
        unit = self._runner.units[name or self._stage.name]
        key = (unit.seed_name or unit.name).encode()
        keras.utils.set_random_seed((self._runner.config.seed + zlib.crc32(key)) % 2**32)

    def freeze(self, network: keras.Model) -> None:
        """Freeze the layers before the stage's own `train_from`, or before --train_from."""
        self._runner.freeze(network, getattr(self.settings, "train_from", None))

    def steps_per_epoch(self, num_images: int | None = None) -> int:
        """Return the steps of a pass over `num_images`, all if None; raise if there are none."""
        return self.data.num_steps(self._stage.section, self.settings.batch_size, num_images)

    def folds(self) -> np.ndarray:
        """Return the fold [N] of each training image."""
        num_folds = self.config.classifier.num_folds
        return assign_folds(self.data.split.labels, num_folds, self.config.seed)

    def check_network(self, image_size: int | None = None) -> Classifier:
        """Build the network that training starts from, to raise its errors early; return it.

        Args:
            image_size: Image size of a network that is not the classifier.
        """
        try:
            if image_size is None:
                return build_classifier(self.config, len(self.class_names))
            return untrained(self.config, len(self.class_names), image_size)
        except RuntimeError as error:  # a download that failed
            raise RunError(str(error)) from error

    def error(self, message: str) -> RunError:
        """Return an error to raise that ends the run in one line."""
        return RunError(message)
