"""Pictures for papers: predictions of models, in figures like those of the paper.

| figure | what it shows | in the paper |
|---|---|---|
| `predictions` | masked objects; below them the shape, the predicted and the true box | Fig. 1 |
| `entropy` | the classifier's entropy against the scale of a mask | Fig. 5 |
| `ablation` | the same images by several models side by side | Fig. 6 |
| `objects` | images with one object, and below them images with several | Fig. 7 |

A figure is a function of {name: `Localizer`}, a `Split`, its `Truth` and a `Layout` to an image,
uint8 RGB, or to a matplotlib `Figure`. Shapes are drawn where `gc-net predict` reports
them, on the whole image. A masked image is the input of the classifier: the central window, which
is a little larger.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gc_net.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from gc_net.data.splits import Dataset
    from gc_net.training_record import TrainingRecord

FIGURES = Registry(
    "figure",
    {
        "predictions": "gc_net.figures.grids:predictions",
        "entropy": "gc_net.figures.entropy:entropy_figure",
        "ablation": "gc_net.figures.grids:ablation",
        "objects": "gc_net.figures.grids:objects",
    },
)


class Layout(NamedTuple):
    """What a figure shows of the images, and how.

    Attributes:
        count: Number of images.
        columns: Number of columns.
        cell: Side of an image in pixels.
        seed: Which images.
        captions: Whether class names stand below the images.
    """

    count: int = 8
    columns: int = 8
    cell: int = 224
    seed: int = 0
    captions: bool = False


def visualize(
    path: str | os.PathLike,
    figure: str,
    model_dirs: Sequence[str | os.PathLike],
    dataset: "Dataset | Callable[[TrainingRecord], Dataset]",
    *,
    split: str = "test",
    dots_per_inch: float = 300,
    **options: Any,
) -> "np.ndarray | Figure":
    """Draw a figure and write it to a .png, .jpg or .pdf file.

    Args:
        path: File to write.
        figure: `"predictions"`, `"entropy"`, `"ablation"` or `"objects"`.
        model_dirs: Folders of models; `"name=folder"` names one.
        dataset: A `Dataset`, or a function of the first model's `TrainingRecord` to one.
        split: `"test"` or `"train"`.
        dots_per_inch: Resolution of a PDF.
        options: Of `Layout`.

    Returns:
        The content of the file: an image or a `Figure`.

    Example:
        visualize("figure.pdf", "predictions", ["runs/mine/model"], recorded_dataset, count=8)
    """
    from gc_net.figures.picture_files import check_suffix, save_picture
    from gc_net.localizer import Localizer

    check_suffix(os.fspath(path))
    draw = FIGURES.get(figure)
    models = {}
    for spec in model_dirs:
        name, folder = _named(os.fspath(spec))
        localizer = Localizer.load(folder)
        if name in models:
            raise ValueError(f"Two models are called {name!r}. Name them: name=folder.")
        models[name] = localizer
    if callable(dataset):
        dataset = dataset(next(iter(models.values())).record)
    picture = draw(models, dataset.split(split), dataset.truth(split), Layout(**options))
    save_picture(path, picture, dots_per_inch)
    return picture


def _named(spec):
    """Split `"name=folder"`; a folder alone is named by the folder of its run."""
    if "=" in spec and not os.path.exists(spec):
        name, _, folder = spec.partition("=")
        return name, folder
    folder = os.path.abspath(spec)
    base = os.path.basename(folder)
    return (os.path.basename(os.path.dirname(folder)) if base == "model" else base), spec
