"""The batches of evaluation and diagnosis, and a plain error if no image can be read."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import evaluation_batches, explained, num_steps
from gc_net.progress import track

if TYPE_CHECKING:
    import tensorflow as tf

    from gc_net.data.splits import Split, Truth

_log = logging.getLogger("gc_net")


def readable_batches(
    split: "Split",
    truth: "Truth | None" = None,
    *,
    indices: np.ndarray,
    batch_size: int,
    label: str,
    unreadable: Unreadable | None = None,
    nothing: str = "No image could be evaluated. ",
    **options: Any,
) -> "Iterator[dict[str, tf.Tensor]]":
    """Yield the batches of `evaluation_batches`, and show the progress.

    Args:
        split, truth, indices, batch_size, options: As for `evaluation_batches`.
        label: Name of the work, for the terminal.
        unreadable: `Unreadable` that collects images that could not be read. If None, a warning
            names them at the end.
        nothing: Beginning of the error if not a single image could be read.

    Raises:
        DataError: If not a single image could be read.
    """
    collected = Unreadable() if unreadable is None else unreadable
    batches = evaluation_batches(
        split, truth, indices=indices, batch_size=batch_size, unreadable=collected, **options
    )
    total = num_steps(len(indices), batch_size, drop_remainder=False)
    with explained(collected, len(indices), nothing):
        yield from track(batches, total, label)
    if unreadable is None and len(collected):
        _log.warning(collected.summary())
