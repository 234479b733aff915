"""One line per epoch with the main logs, and the time left for the stage and for the run."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import TextIO

import keras

from gc_net.progress import duration
from gc_net.training.callbacks.corloc import CORLOC

# The most useful of the seventeen values that a detector logs, and those of a classifier.
SHOWN = {
    "loss": "loss",
    "area_loss": "area",
    "object_loss": "object",
    "background_loss": "background",
    "object_accuracy": "object accuracy",
    "accuracy": "accuracy",
    "val_accuracy": "test accuracy",
    CORLOC: "CorLoc, for orientation only,",
}
_SECONDS_BETWEEN = 0.2


# Keras leaves out its own bar if `fit` gets a subclass of it.
class ProgressBar(keras.callbacks.ProgbarLogger):
    """Show the epoch, the step, a few of the logs, and the time left.

    On a terminal, the line is updated during an epoch; elsewhere, one line is written at its end.
    `fit(verbose=0)` silences it.

    Args:
        shown: Dict of log name to the word shown for it; names that are not logged are left out.
        stream: Where to write, stdout by default.
        stage: Beginning of each line, e.g. `"Stage 3 of 5"`.
        later_steps: Work of later stages, in steps of this one; they are assumed to be as fast.

    Example:
        model.fit(batches, epochs=10, callbacks=[ProgressBar()])
        # Epoch  1/10  loss 5.632  area 0.412  object 1.104  …  1:12, 10:48 left
    """

    def __init__(
        self,
        shown: Mapping[str, str] | None = None,
        stream: TextIO | None = None,
        stage: str = "",
        later_steps: float = 0.0,
    ):
        super().__init__()
        self.stage = stage
        self.later_steps = later_steps
        self.shown = dict(SHOWN if shown is None else shown)
        self.stream = stream

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._first = None  # time and step at the end of the first batch, after tracing
        self._steps_done = 0
        self._last_drawn = float("-inf")
        self._epoch_start = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self.seen = 0
        self._epoch_start = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        self._steps_done += batch + 1 - self.seen  # several at once with `steps_per_execution`
        self.seen = batch + 1
        if self._first is None:
            self._first = (now, self._steps_done)
        if self.verbose and self._is_terminal() and now - self._last_drawn >= _SECONDS_BETWEEN:
            self._last_drawn = now
            step = f"{self.seen}/{self.target}" if self.target else f"{self.seen}"
            line = "  ".join([self._head(), step, self._left(now), *self._values(logs)])
            # A line that wraps could not be updated.
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out().write(f"\r{line}\x1b[K")
            self._out().flush()

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        self.target = self.target or self.seen
        if not self.verbose:
            return
        took = duration(now - self._epoch_start)
        last = epoch + 1 == self.epochs and not self.later_steps
        ending = took if last else f"{took}, {self._left(now)}"
        line = "  ".join([self._head(), *self._values(logs), ending])
        self._out().write(f"\r{line}\x1b[K\n" if self._is_terminal() else f"{line}\n")
        self._out().flush()

    def _out(self):
        # Looked up each time, in case stdout has been replaced.
        return sys.stdout if self.stream is None else self.stream

    def _is_terminal(self):
        return self._out().isatty()

    def _head(self):
        epoch = f"Epoch {self._epoch + 1:{len(str(self.epochs))}}/{self.epochs}"
        return f"{self.stage}  {epoch}" if self.stage else epoch

    def _values(self, logs):
        return [f"{word} {logs[name]:.3f}" for name, word in self.shown.items() if name in logs]

    def _left(self, now):
        """Return the time left, from the mean of all steps after the first."""
        start, first_step = self._first or (now, 0)
        done = self._steps_done - first_step
        if not self.target or done < 1:
            return "? left"
        pace = (now - start) / done
        steps = max((self.epochs - self._epoch) * self.target - self.seen, 0)
        if not self.later_steps:
            return f"{duration(steps * pace)} left"
        whole = duration((steps + self.later_steps) * pace)
        return f"{duration(steps * pace)} left, about {whole} with all stages"
