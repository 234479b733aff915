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


def open_dataset(config: Any, **more: Any) -> "Dataset":
    """Open the dataset that a `DataConfig` names; `more` options come before those it has."""
    from gc_net.data.splits import DataError

    options = {"data_dir": config.data_dir, **config.options(), **more}
    try:
        return get(config.dataset, **options)
    except TypeError as error:
        raise DataError(
            f"The dataset {config.dataset!r} cannot be opened with {options}: {error}"
        ) from error
