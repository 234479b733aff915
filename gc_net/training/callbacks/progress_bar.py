"""One line per epoch with what matters, and the time left for the whole stage."""

import shutil
import sys
import time

import keras

from gc_net.progress import duration

# Of the seventeen values a detector logs, those that one looks at; and a classifier's.
SHOWN = {
    "loss": "loss",
    "area_loss": "area",
    "object_loss": "object",
    "background_loss": "background",
    "object_accuracy": "object accuracy",
    "accuracy": "accuracy",
    "val_accuracy": "test accuracy",
}
_SECONDS_BETWEEN = 0.2


# Keras leaves out its own bar where `fit` is given a kind of it.
class ProgressBar(keras.callbacks.ProgbarLogger):
    """Show the epoch, the step, a few of the logs, and the time left.

    On a terminal the line is renewed while an epoch runs; elsewhere one line is written when it
    ends. `fit(verbose=0)` silences it.

    Args:
        shown: Dict of log name to the word shown for it; names that are not logged are left out.
        stream: Where to write, stdout by default.

    Example:
        model.fit(batches, epochs=10, callbacks=[ProgressBar()])
        # Epoch  1/10  loss 5.632  area 0.412  object 1.104  …  1:12, 10:48 left
    """

    def __init__(self, shown=None, stream=None):
        super().__init__()
        self.shown = dict(SHOWN if shown is None else shown)
        self.stream = stream

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._first = None  # time and step at the end of the first batch: tracing is behind it
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
            line = "  ".join([self._head(), step, f"{self._left(now)} left", *self._values(logs)])
            # A line that wraps could not be renewed.
            line = line[: shutil.get_terminal_size().columns - 1]
            self._out().write(f"\r{line}\x1b[K")
            self._out().flush()

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        self.target = self.target or self.seen
        if not self.verbose:
            return
        took = duration(now - self._epoch_start)
        ending = f"{took}, {self._left(now)} left" if epoch + 1 < self.epochs else took
        line = "  ".join([self._head(), *self._values(logs), ending])
        self._out().write(f"\r{line}\x1b[K\n" if self._is_terminal() else f"{line}\n")
        self._out().flush()

    def _out(self):
        # Looked up each time, so that a stdout replaced meanwhile is respected.
        return sys.stdout if self.stream is None else self.stream

    def _is_terminal(self):
        return self._out().isatty()

    def _head(self):
        return f"Epoch {self._epoch + 1:{len(str(self.epochs))}}/{self.epochs}"

    def _values(self, logs):
        return [f"{word} {logs[name]:.3f}" for name, word in self.shown.items() if name in logs]

    def _left(self, now):
        """Return the time left for all epochs, from the mean of all steps after the first."""
        start, first_step = self._first or (now, 0)
        done = self._steps_done - first_step
        if not self.target or done < 1:
            return "?"
        steps = (self.epochs - self._epoch) * self.target - self.seen
        return duration(max(steps, 0) * (now - start) / done)
