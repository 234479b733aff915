"""Methods in an evaluation: prepared before it, summarized after it."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gc_net.evaluation import intervals
from gc_net.evaluation.batches import readable_batches
from gc_net.evaluation.checks import spread
from gc_net.evaluation.results import MethodResult
from gc_net.methods import DEFAULT, get
from gc_net.methods.base import Unsuitable
from gc_net.methods.localizer import MethodLocalizer

if TYPE_CHECKING:
    from gc_net.data.splits import Dataset
    from gc_net.evaluation.protocols import Protocol
    from gc_net.localizer import Localizer
    from gc_net.methods.base import Method, Score

_log = logging.getLogger("gc_net")

# Training images to fit a method on; more would hardly change a principal component.
_FIT_IMAGES = 1000
# Default methods beside a method that was trained: others would use a classifier that was not
# trained for them.
_BESIDE_A_METHOD = ("constant",)


def prepared(
    names: Sequence[str] | None,
    localizer: "Localizer | MethodLocalizer",
    dataset: "Dataset",
    cache: str | None,
    batch_size: int,
) -> "list[Method]":
    """Return methods that are ready to use.

    Args:
        names: Names of methods. None for the default ones; those that the classifier does not allow
            are left out with a warning.
        localizer: The `Localizer`, whose classifier they use. The own method of a
            `MethodLocalizer` comes first, even if it is not named.
        dataset: The `Dataset`, of which only training images are used.
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

    own = localizer.method if isinstance(localizer, MethodLocalizer) else None
    default = DEFAULT if own is None else _BESIDE_A_METHOD
    others = [get(name) for name in (default if names is None else names)]
    others = [method for method in others if own is None or method.name != own.name]
    methods = []
    for method in [*([] if own is None else [own]), *others]:
        try:
            if method.trains and method is not own:
                raise Unsuitable(
                    f"it trains a classifier of its own. Use `gc-net train --method={method.name}`."
                )
            method.fit(localizer.classifier, training_batches)
        except Unsuitable as error:
            if names is not None or method is own:
                raise ValueError(f"The method {method.name!r} cannot be used: {error}") from error
            _log.warning("The method %r is left out: %s", method.name, error)
        else:
            methods.append(method)
    return methods


def scores(
    methods: "Sequence[Method]", protocol: "Protocol", found: Mapping[str, Any]
) -> "list[Score]":
    """Return the `Score`s of all methods, in their order, given what `measure.collect` found."""
    return [
        score
        for method in methods
        for score in method.scores(
            protocol,
            found["truth_boxes"],
            found["num_truth_boxes"],
            found.get(f"map_iou/{method.name}"),
            found.get(f"map_iou_v2/{method.name}"),
        )
    ]


def results(
    scores: "Sequence[Score]", protocol: "Protocol", found: Mapping[str, Any], num_classes: int
) -> dict[str, MethodResult]:
    """Return the `MethodResult`s of `Score`s by name, given what `measure.collect` found.

    Their LocErr takes the class of the frame, without a second look, because that would depend on
    GC-Net's shape.
    """
    by_name = {}
    for score in scores:
        values = intervals.method_metrics(
            found["labels"],
            found["frame_classes"],
            num_classes,
            score.iou,
            score.hits,
            protocol.hits(score.iou),
        )
        by_name[score.name] = MethodResult(score.name, score.title, score.tuned, values)
    return by_name
