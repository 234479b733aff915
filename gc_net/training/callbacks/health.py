"""Checks a detector's training without boxes, and reports failures in plain words."""

import dataclasses
import math
from collections.abc import Callable

import keras

from gc_net.training.health_rules import Finding, Setup, TrainingHistory, diagnose

# A failure counts as over after this many epochs without it. So a value that moves around its
# threshold gives one warning, not ten.
EPOCHS_TO_RECOVER = 2


@dataclasses.dataclass
class Episode:
    """A failure mode, from the first epoch with it to the last. Epochs count from 0."""

    mode: str
    first_epoch: int
    last_epoch: int
    finding: Finding
    over: bool = False


class HealthCheck(keras.callbacks.Callback):
    """Recognise each failure mode of `gc_net.training.health_rules` from the logs of the epochs.

    Each mode is reported once until it is over. A summary at the end has all of them.

    Args:
        stop: Whether to end training when the loss is NaN or infinite, within the epoch.
        report: Function of a message; `print` by default. On all workers but one, pass a
            function that does nothing; `stop` then still works on each.
        setup: A `Setup`; taken from the model if None.
        watch_spread: Whether to look for shapes that are all the same. Pass False where batches
            are single images, which have no spread.
        fresh: Whether the detector's head starts from initial values. Pass False where a warm-up
            has trained it: it then starts anywhere.

    Attributes:
        episodes: List of `Episode`s, oldest first.

    Example:
        health = HealthCheck()
        model.fit(batches, epochs=10, callbacks=[health])
        [episode.mode for episode in health.episodes]
    """

    def __init__(
        self,
        stop: bool = True,
        report: Callable[[str], object] = print,
        setup: Setup | None = None,
        watch_spread: bool = True,
        fresh: bool = True,
    ):
        super().__init__()
        self.stop = stop
        self.report = report
        self.setup = setup
        self.watch_spread = watch_spread
        self.fresh = fresh
        self.episodes = []
        self._history = []
        self._first_epoch = None

    def on_train_begin(self, logs=None):
        self.episodes, self._history, self._first_epoch = [], [], None
        # Before a schedule lowers the rate, because messages name the rate that was set.
        self._setup = self.setup or setup_of(self.model)

    def on_train_batch_end(self, batch, logs=None):
        # An epoch of ImageNet takes hours; its loss is a running mean and stays NaN once it is.
        if self.stop and not math.isfinite((logs or {}).get("loss", 0.0)):
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        if self._first_epoch is None:
            self._first_epoch = epoch
        self._history.append(self._relevant(logs or {}))
        self._judge(epoch, finished=False)

    def on_train_end(self, logs=None):
        if not self._history:
            return
        epoch = self._first_epoch + len(self._history) - 1
        self._judge(epoch, finished=True)
        self.report(self.summary())

    def summary(self) -> str:
        """Return the failures that were found, one line per mode."""
        epochs = len(self._history)
        if not self.episodes:
            return f"Health: nothing wrong seen in {epochs} epoch{'s' * (epochs != 1)}."
        last = self._first_epoch + epochs - 1
        lines = ["Health:"]
        for episode in self.episodes:
            first, end = episode.first_epoch + 1, episode.last_epoch + 1
            when = f"epoch {first}" if first == end else f"epochs {first}–{end}"
            state = "still so at the end" if episode.last_epoch == last else "then over"
            lines.append(f"  {episode.mode.replace('_', ' ')}: {when}, {state}.")
        return "\n".join(lines)

    def _judge(self, epoch, finished):
        training = TrainingHistory(
            history=self._history,
            fresh=self.fresh and self._first_epoch == 0,
            finished=finished,
            setup=self._setup,
        )
        findings = diagnose(training)
        current = {episode.mode: episode for episode in self.episodes if not episode.over}
        for finding in findings:
            if finding.mode in current:
                current[finding.mode].last_epoch = epoch
                current[finding.mode].finding = finding
            else:
                self.episodes.append(Episode(finding.mode, epoch, epoch, finding))
                self.report(f"Warning, epoch {epoch + 1}: {finding.seen}\n  {finding.advice}")
        for episode in current.values():
            if epoch - episode.last_epoch >= EPOCHS_TO_RECOVER:
                episode.over = True
                self.report(f"Epoch {epoch + 1}: {episode.mode.replace('_', ' ')} is over.")

    def _relevant(self, logs):
        return {
            name: float(value)
            for name, value in logs.items()
            if self.watch_spread or not name.startswith("spread_")
        }


def setup_of(model: keras.Model) -> Setup:
    """Return the `Setup` of a compiled `GCNet`, or the part of it that another model has."""
    optimizer = getattr(model, "optimizer", None)
    classifier = getattr(model, "classifier", None)
    return Setup(
        num_classes=getattr(classifier, "num_classes", None),
        loss_weights=getattr(model, "loss_weights", None),
        learning_rate=None
        if optimizer is None
        else float(keras.ops.convert_to_numpy(optimizer.learning_rate)),
        head=getattr(getattr(model, "detector", None), "head_name", None),
        cross_fitted=hasattr(classifier, "classifiers"),
    )
