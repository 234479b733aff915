"""Other methods on their way through an evaluation: made ready before it, summed up after it."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gc_net.evaluation import intervals
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import spread
from gc_net.evaluation.results import MethodResult
from gc_net.methods import DEFAULT, get
from gc_net.methods.base import Unsuitable

if TYPE_CHECKING:
    from gc_net.data.splits import Dataset
    from gc_net.evaluation.protocols import Protocol
    from gc_net.localizer import Localizer
    from gc_net.methods.base import Method

_log = logging.getLogger("gc_net")

# Training images that a method may be fitted on; more change a principal component little.
_FIT_IMAGES = 1000


def prepared(
    names: Sequence[str] | None,
    localizer: "Localizer",
    dataset: "Dataset",
    cache: str | None,
    batch_size: int,
) -> "list[Method]":
    """Return methods that are ready to be used.

    Args:
        names: Names of methods; None for the default ones, of which those that the classifier
            does not allow are left out with a warning.
        localizer: The `Localizer`, whose classifier they look at.
        dataset: The `Dataset`, of which only training images are looked at.
        cache: Folder for decoded images, or None.
        batch_size: Images a batch.
    """

    def training_batches():
        split = dataset.split("train")
        indices = spread(len(split), _FIT_IMAGES)
        batches = readable_batches(
            split,
            indices=indices,
            label="Fitting a method",
            nothing="None of the training images that it is fitted on could be read. ",
            image_size=localizer.image_size,
            resize_size=localizer.resize_size,
            cache=cache,
            batch_size=batch_size,
        )
        return (batch["image"] for batch in batches)

    methods = []
    for name in DEFAULT if names is None else names:
        method = get(name)
        try:
            if method.trains:
                raise Unsuitable(
                    f"it trains a classifier of its own. Use `gc-net train --method={method.name}`."
                )
            method.fit(localizer.classifier, training_batches)
        except Unsuitable as error:
            if names is not None:
                raise ValueError(f"The method {method.name!r} cannot be used: {error}") from error
            _log.warning("The method %r is left out: %s", method.name, error)
        else:
            methods.append(method)
    return methods


def results(
    methods: "Sequence[Method]", protocol: "Protocol", found: Mapping[str, Any]
) -> dict[str, MethodResult]:
    """Return the `MethodResult`s by name, given what `measure.collect` found.

    Their LocErr takes the class of what the network sees, without a second look: that would follow
    the shape that GC-Net placed.
    """
    by_name = {}
    for method in methods:
        scores = method.scores(
            protocol,
            found["truth_boxes"],
            found["num_truth_boxes"],
            found.get(f"map_iou/{method.name}"),
            found.get(f"map_iou_v2/{method.name}"),
        )
        for score in scores:
            values = intervals.method_metrics(
                found["labels"],
                found["frame_classes"],
                score.iou,
                score.hits,
                protocol.hits(score.iou),
            )
            by_name[score.name] = MethodResult(score.name, score.title, score.tuned, values)
    return by_name
