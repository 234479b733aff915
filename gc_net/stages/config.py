"""Settings of a run; those of a stage are in its own file, see `gc_net.stages`."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self

from gc_net.backbones import BACKBONES
from gc_net.datasets import DATASETS
from gc_net.settings import Settings, flag_name, is_section, read_pairs, setting
from gc_net.stages import STAGES

# Their flags have no prefix; those of other sections begin with the section's name.
PLAIN_SECTIONS = ("data", "network")


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """What is trained on.

    Attributes:
        dataset: Kind of dataset.
        data_dir: Folder of the dataset; the creatures have none.
        dataset_options: Further settings of the dataset as name=value, separated by commas, e.g.
            num_train=1000,image_size=160.
        image_size: Side of the square images that the networks see.
        resize_size: Side that images are squashed to before cropping; 0 for 256 with 224, and in
            proportion for other sizes.
    """

    dataset: str = setting("folder", DATASETS.names)
    data_dir: str | None = None
    dataset_options: str = ""
    image_size: int = setting(128, low=16)
    resize_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options()
        if 0 < self.resize_size < self.image_size:
            raise ValueError(
                "`resize_size` must be 0, or at least `image_size`: windows of that side are cut "
                f"out. Received: {self.resize_size} and {self.image_size}"
            )

    def options(self) -> dict[str, int | float | str]:
        """Return `dataset_options` as a dict; numbers become numbers."""
        return read_pairs(self.dataset_options, "dataset_options")


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Settings):
    """The network that classifier and detector are built on.

    Attributes:
        backbone: Network of classifier and detector.
        weights: Where both start from: imagenet, none, or a weights file.
        train_from: First layer of the trunk that is trained, or the beginning of its name, e.g.
            block4a. Earlier layers stay as they are, which saves time. None trains all.
    """

    backbone: str = setting("efficientnet_lite0", BACKBONES.names)
    weights: str = "imagenet"
    train_from: str | None = None


@dataclasses.dataclass(frozen=True)
class CommonConfig(Settings):
    """Settings of a whole run.

    Attributes:
        seed: Seed of initial weights, data order, crops, masks and dropout.
        mixed_precision: Compute in 16 bits if that is safe: float16 on GPUs, bfloat16 elsewhere.
        deterministic: Use only operations that give the same result every time; slower on GPUs.
        second_look: Side of the region of the second look, as a multiple of the longer side of the
            shape's box; 0 for none. It changes the classes that the model names, not the training,
            and can be chosen afterwards.
        mirror: Take the mean of the shapes in an image and in its mirror image. It changes where
            the model places shapes, not the training, and can be chosen afterwards.
    """

    seed: int = setting(0, low=0)
    mixed_precision: bool = False
    deterministic: bool = False
    second_look: float = setting(0.0, low=0.0)
    mirror: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in STAGES:
            STAGES.get(name).check_settings(self)

    def resolved(self) -> Self:
        """Return these settings, with all values filled in that follow from others."""
        for name in STAGES:
            self = STAGES.get(name).resolve(self)
        return self

    def reopened(self) -> Self:
        """Return these settings without the values that `resolved` would fill in again."""
        for name in STAGES:
            self = STAGES.get(name).reopen(self)
        return self


@functools.cache
def _train_config(stages):
    """Return the class of all settings: the common ones, and a section for each stage."""
    sections = {"data": DataConfig, "network": NetworkConfig}
    for name in stages:
        if STAGES.get(name).settings is not None:
            sections[name] = STAGES.get(name).settings
    described = {name: kind.__doc__.splitlines()[0] for name, kind in sections.items()}
    described = {**CommonConfig.descriptions(), **described}
    lines = [f"    {name}: {text}" for name, text in described.items()]
    doc = ["All settings of a run that affect its result.", "", "Attributes:", *lines]
    return dataclasses.make_dataclass(
        "TrainConfig",
        [(name, kind, kind()) for name, kind in sections.items()],
        bases=(CommonConfig,),
        namespace={"__doc__": "\n".join(doc), "__module__": __name__},
        frozen=True,
    )


def __getattr__(name: str) -> type[CommonConfig]:
    # Made on each access, so that stages which were registered since then have their section.
    if name == "TrainConfig":
        return _train_config(STAGES.names)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def setting_flags() -> dict[str, tuple[str | None, dataclasses.Field]]:
    """Return the flags of all settings of a run: its name, to its section, or None, and field."""
    found = {}
    for field in dataclasses.fields(_train_config(STAGES.names)):
        if not is_section(field):
            found[field.name] = (None, field)
            continue
        prefix = "" if field.name in PLAIN_SECTIONS else f"{field.name}_"
        for inner in dataclasses.fields(field.type):
            found[flag_name(inner, prefix)] = (field.name, inner)
    return found


def with_flags(config: Settings, values: Mapping[str, Any]) -> Any:
    """Return the settings of a run with those of some flags changed.

    Args:
        config: The `TrainConfig`.
        values: Values by the names of `setting_flags`, of the settings' own types.
    """
    places, sections = setting_flags(), {}
    for name, value in values.items():
        section, field = places[name]
        sections.setdefault(section, {})[field.name] = value
    own = sections.pop(None, {})
    return dataclasses.replace(
        config,
        **own,
        **{
            section: dataclasses.replace(getattr(config, section), **changes)
            for section, changes in sections.items()
        },
    )


@dataclasses.dataclass(frozen=True)
class RunOptions(Settings):
    """Settings that do not affect the weights, and may change when a run is resumed.

    Attributes:
        work_dir: Folder that everything is written to.
        reuse: Folders of other runs, separated by commas. Stages that are finished there with the
            same settings are not trained again.
        checkpoint_steps: Steps between two checkpoints.
        checkpoint_minutes: Minutes between two checkpoints, if that comes first.
        cache_dir: Folder for decoded images; auto for one in work_dir if it stays below 4 GB, none
            to decode every time.
        devices: auto for all GPUs, or all machines if TF_CONFIG names several; one for a single
            device.
        log_corloc: Log CorLoc on this many test images after each epoch of the detector, for
            orientation only: nothing is chosen by it. 0 for none.
        tensorboard: Write scalars and images for TensorBoard.
        verbose: 1 for progress bars, 0 for silence.
    """

    work_dir: str = "runs/train"
    reuse: str = ""
    checkpoint_steps: int = setting(200, low=1)
    checkpoint_minutes: float = setting(5.0, low=0.0)
    cache_dir: str = "auto"
    devices: str = setting("auto", ("auto", "one"))
    log_corloc: int = setting(0, low=0)
    tensorboard: bool = True
    verbose: int = setting(1, low=0, high=1)
