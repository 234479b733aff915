"""Datasets: where images, labels and (for evaluation only) boxes come from."""

from typing import TYPE_CHECKING, Any

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.data.splits import Dataset

DATASETS = Registry(
    "dataset",
    {
        "creatures": "gc_net.datasets.creatures:Creatures",
        "folder": "gc_net.datasets.folder:Folder",
        "cub": "gc_net.datasets.cub:CUB",
        "ilsvrc": "gc_net.datasets.ilsvrc:ILSVRC",
    },
)


def get(name: "str | Dataset", **kwargs: Any) -> "Dataset":
    """Open the dataset called `name`, e.g. `get("folder", data_dir="my_photos")`."""
    return DATASETS.get(name)(**kwargs) if isinstance(name, str) else name
