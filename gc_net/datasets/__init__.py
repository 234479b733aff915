"""Datasets: where images, labels and (for evaluation only) boxes come from."""

from gc_net.registry import Registry

DATASETS = Registry(
    "dataset",
    {
        "creatures": "gc_net.datasets.creatures:Creatures",
        "folder": "gc_net.datasets.folder:Folder",
        "cub": "gc_net.datasets.cub:CUB",
        "ilsvrc": "gc_net.datasets.ilsvrc:ILSVRC",
    },
)


def get(name, **kwargs):
    """Open the dataset called `name`, e.g. `get("folder", data_dir="my_photos")`."""
    return DATASETS.get(name)(**kwargs) if isinstance(name, str) else name
