"""Settings of a training run: frozen dataclasses, from which the tools make their flags.

Each attribute's line under `Attributes:` is also the help of its flag, so a setting is described
in one place.
"""

import dataclasses
import inspect
import re
import types
import typing

from gc_net.backbones import BACKBONES
from gc_net.datasets import DATASETS
from gc_net.generators import GENERATORS
from gc_net.heads import DETECTOR_HEADS
from gc_net.parametrizations import PARAMETRIZATIONS
from gc_net.shapes import SHAPES
from gc_net.teachers import TEACHERS

# In the order in which they run.
STAGES = ("classifier", "generator", "warmup", "detector", "namer")
# The detector's settings that matter to its warm-up already.
WARMUP_SETTINGS = ("shape", "head", "initialize", "parametrization")


def setting(default, choices=None, low=None, high=None, known=()):
    """Return a dataclass field that says which values are allowed.

    Args:
        known: Names that the help of its flag lists, where others are allowed as well.
    """
    return dataclasses.field(
        default=default,
        metadata={"choices": choices, "low": low, "high": high, "known": known},
    )


class Settings:
    """What the dataclasses below have in common: checks, and a way to and from plain dicts."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, allowed = getattr(self, field.name), field.metadata
            if value is None or not allowed:
                continue
            if allowed["choices"] and value not in allowed["choices"]:
                raise ValueError(
                    f"`{field.name}` must be one of {', '.join(allowed['choices'])}. "
                    f"Received: {field.name}={value!r}"
                )
            too_low = allowed["low"] is not None and value < allowed["low"]
            if too_low or (allowed["high"] is not None and value > allowed["high"]):
                high = "" if allowed["high"] is None else f" and at most {allowed['high']}"
                raise ValueError(
                    f"`{field.name}` must be at least {allowed['low']}{high}. "
                    f"Received: {field.name}={value!r}"
                )

    @classmethod
    def from_dict(cls, values):
        """Build from a dict, e.g. of a config.json; a name that is no setting is an error."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(
                f"{cls.__name__} has no setting {', '.join(map(repr, unknown))}. "
                f"Its settings: {', '.join(known)}."
            )
        sections = {
            field.name: field.type for field in dataclasses.fields(cls) if is_section(field)
        }
        return cls(
            **{
                name: sections[name].from_dict(value) if name in sections else value
                for name, value in values.items()
            }
        )

    def to_dict(self):
        return dataclasses.asdict(self)

    @classmethod
    def descriptions(cls):
        """Return what the docstring says of each attribute, as one line each."""
        _, _, text = inspect.getdoc(cls).partition("Attributes:\n")
        entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
        return {name: " ".join(lines.split()) for name, lines in entries}


def is_section(field):
    """Return whether a dataclass field holds settings of its own."""
    return inspect.isclass(field.type) and issubclass(field.type, Settings)


def plain_type(field):
    """Return the type of a dataclass field without its `| None`."""
    if isinstance(field.type, types.UnionType):
        return next(t for t in typing.get_args(field.type) if t is not types.NoneType)
    return field.type


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """What is trained on.

    Attributes:
        dataset: Kind of dataset.
        data_dir: Folder of the dataset; the creatures have none.
        dataset_options: More of the dataset's settings as name=value, separated by commas, e.g.
            num_train=1000,image_size=160.
        image_size: Side of the square images the networks see.
        resize_size: Side that images are squashed to before cropping; 0 for 256 in 224, and in
            proportion.
    """

    dataset: str = setting("folder", DATASETS.names)
    data_dir: str | None = None
    dataset_options: str = ""
    image_size: int = setting(128, low=16)
    resize_size: int = setting(0, low=0)

    def __post_init__(self):
        super().__post_init__()
        self.options()
        if 0 < self.resize_size < self.image_size:
            raise ValueError(
                "`resize_size` must be 0, or at least `image_size`: windows of that side are cut "
                f"out. Received: {self.resize_size} and {self.image_size}"
            )

    def options(self):
        """Return `dataset_options` as a dict; numbers become numbers."""
        options = {}
        for item in filter(None, self.dataset_options.split(",")):
            name, equals, text = item.partition("=")
            if not equals:
                raise ValueError(
                    f"`dataset_options` must be name=value pairs separated by commas. "
                    f"Received: {self.dataset_options!r}"
                )
            options[name.strip()] = _number(text.strip())
        return options


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Settings):
    """The network that classifier and detector are built on.

    Attributes:
        backbone: Network of classifier and detector.
        weights: Where both start from: imagenet, none, or a weights file.
        train_from: First layer of the trunk that is trained, or what its name begins with, e.g.
            block4a; earlier ones stay as they are, which saves time. None trains all.
    """

    backbone: str = setting("efficientnet_lite0", BACKBONES.names)
    weights: str = "imagenet"
    train_from: str | None = None


@dataclasses.dataclass(frozen=True)
class ClassifierConfig(Settings):
    """How the classifier is fine-tuned.

    Attributes:
        recipe: fast is AdamW with a rate that falls along a cosine; paper is the authors' SGD, with
            a rate cut to a tenth after 40 % and 75 % of the epochs and larger for biases and for
            the last layer; none takes the ImageNet weights as they are.
        epochs: Passes over the training images.
        batch_size: Images a step, over all devices together.
        learning_rate: Highest rate; None for the recipe's own, 6e-4 or 1e-3.
        weight_decay: None for the recipe's own: 0.01 (decoupled) or 5e-4 (in the gradient).
        mask_fraction: Part of the images that are seen through a random shape, so that masked
            images are nothing new to the classifier.
        mask_shape: Shape of these masks.
        mask_min_extent: Smallest width and height of a mask, as a part of the image's.
        mask_max_extent: Largest width and height of a mask.
        mask_inverted: Part of the masks that show what lies outside instead.
        num_folds: With 2 or more, the images are split into so many parts, each of which is
            supervised by a classifier that was fitted on the others; 0 for one classifier on all.
    """

    recipe: str = setting("fast", ("fast", "paper", "none"))
    epochs: int = setting(8, low=1)
    batch_size: int = setting(32, low=1)
    learning_rate: float | None = setting(None, low=0.0)
    weight_decay: float | None = setting(None, low=0.0)
    mask_fraction: float = setting(0.0, low=0.0, high=1.0)
    mask_shape: str = setting("rotated_rectangle", SHAPES.names)
    mask_min_extent: float = setting(0.55, low=0.0, high=2.0)
    mask_max_extent: float = setting(1.1, low=0.0, high=2.0)
    mask_inverted: float = setting(0.0, low=0.0, high=1.0)
    num_folds: int = setting(0, low=0)

    def __post_init__(self):
        super().__post_init__()
        if self.num_folds == 1:
            raise ValueError("`num_folds` must be 0, or at least 2. Received: num_folds=1")
        if self.mask_min_extent > self.mask_max_extent:
            raise ValueError(
                "`mask_min_extent` must not exceed `mask_max_extent`. Received: "
                f"{self.mask_min_extent} and {self.mask_max_extent}"
            )


@dataclasses.dataclass(frozen=True)
class GeneratorConfig(Settings):
    """How a learned generator is trained.

    Attributes:
        shape: Shape to draw.
        network: Network that draws: the paper's, or implicit, which is smaller and more exact.
        sampler: full for all that a detector can ask for, or reference for the authors' range.
        steps: Number of batches.
        batch_size: Shapes a batch.
        learning_rate: Initial rate, which falls to zero along a cosine, or in the authors' steps;
            None for the recipe's own, 2e-3 or 0.1.
        recipe: fast for Adam and a loss that sees small shapes, which is what two CPU cores can
            afford, or paper for SGD and Dice with the authors' schedule.
        seed: Seed of initial weights and samples.
    """

    shape: str = setting("rotated_ellipse", SHAPES.names)
    network: str = setting("implicit", ("implicit", "paper"))
    sampler: str = setting("full", ("full", "reference"))
    steps: int = setting(10_000, low=1)
    batch_size: int = setting(128, low=1)
    learning_rate: float | None = setting(None, low=0.0)
    recipe: str = setting("fast", ("fast", "paper"))
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class WarmupConfig(Settings):
    """How the detector is warmed up, before what the classifier says counts; not in the paper.

    A teacher says roughly where the objects of the training images are, and the detector first
    learns to place shapes there.

    Attributes:
        epochs: Passes over the training images; 0 for no warm-up, as in the paper.
        batch_size: Images a step, over all devices together.
        learning_rate: Base rate of Adam; it falls to zero along a cosine.
        head_multiplier: Factor on the rate of the head's layers.
        teacher: Who shows where objects are: a known teacher, with settings of its own behind
            colons, e.g. silhouettes:size=192; the folder of a model that an earlier run has
            trained; or several, joined by +. See gc_net/teachers.
    """

    epochs: int = setting(0, low=0)
    batch_size: int = setting(32, low=1)
    learning_rate: float = setting(3e-4, low=0.0)
    head_multiplier: float = setting(3.0, low=0.0)
    teacher: str = setting("descriptors", known=TEACHERS)


@dataclasses.dataclass(frozen=True)
class DetectorConfig(Settings):
    """How the detector is trained.

    Attributes:
        shape: Shape that the detector places.
        generator: model for masks from the level set, learned for masks from a network.
        generator_network: Network of a learned generator.
        generator_weights: Weights of a learned generator: shipped, where the package has them, or
            else a stage of its own; own to train it in any case; or a file.
        epsilon: Initial ε of the model generator, the width of a mask's edge.
        head: native for the backbone's own as in the paper; position, which keeps the feature
            map's positions; or edges, which finds an object's edges in finer maps.
        parametrization: How the detector's outputs become coefficients: seamless for size and
            elongation, or sigmoid as in the paper, whose angle jumps at the vertical; None for the
            head's own where it has one, as edges has, and else the preset's, which is sigmoid with
            paper and reference. See gc_net/parametrizations.
        initialize: What the trunk starts from: backbone for the weights the classifier started
            from, or classifier for those it ended with.
        preset: Settings in which paper and authors' code differ; scaled fits alpha to the number
            of classes. See gc_net/presets.py.
        alpha: Weight of the area loss; None for the preset's.
        beta: Weight of the object loss; None for the preset's.
        gamma: Weight of the background loss; None for the preset's.
        epochs: Passes over the training images; 0 to keep the detector as the warm-up leaves it.
        batch_size: Images a step, over all devices together.
        learning_rate: Base rate of Adam.
        schedule: preset for the preset's schedule, or cosine for a fall to zero.
        head_multiplier: Factor on the rate of the head's layers; None for the preset's.
        epsilon_multiplier: Factor on the rate of the model generator's ε; None for the preset's.
        blend: How much of the warmed-up detector stays in the trained one: 0.5 takes the mean of
            both networks' weights, 0 the trained one alone. What the three losses say of an
            object's size and what the teacher says of its outline then both count.
        look: Side of the region of the second look, as a multiple of the longer side of the shape's
            box; 0 for none. It changes the classes that the model names, not its training, and can
            be chosen afterwards.
    """

    shape: str = setting("rotated_rectangle", SHAPES.names)
    generator: str = setting("model", GENERATORS.names)
    generator_network: str = setting("implicit", ("implicit", "paper"))
    generator_weights: str = "shipped"
    epsilon: float = setting(0.1, low=1e-6)
    head: str = setting("position", DETECTOR_HEADS)
    parametrization: str | None = setting(None, PARAMETRIZATIONS.names)
    initialize: str = setting("classifier", ("backbone", "classifier"))
    preset: str = setting("paper", ("paper", "reference", "scaled"))
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    epochs: int = setting(10, low=0)
    batch_size: int = setting(32, low=1)
    learning_rate: float = setting(1e-4, low=0.0)
    schedule: str = setting("preset", ("preset", "cosine"))
    head_multiplier: float | None = setting(None, low=0.0)
    epsilon_multiplier: float | None = setting(None, low=0.0)
    blend: float = setting(0.0, low=0.0, high=1.0)
    look: float = setting(0.0, low=0.0)


@dataclasses.dataclass(frozen=True)
class NamerConfig(Settings):
    """How the namer is trained, a classifier for the second look alone; not in the paper.

    Attributes:
        epochs: Passes over the training images; 0 for no namer: the classifier looks twice.
        image_size: Side of the square close-ups that it sees.
        batch_size: Images a step, over all devices together.
        learning_rate: Highest rate of AdamW; it falls to zero along a cosine.
        weight_decay: Decoupled from the gradient.
        smoothing: Part of each label that is spread evenly over all classes.
        augmentation: Strength of random zooms and lighting, which keep the namer from learning its
            close-ups by heart; 0 for none, 1 for the usual.
    """

    epochs: int = setting(0, low=0)
    image_size: int = setting(224, low=32)
    batch_size: int = setting(32, low=1)
    learning_rate: float = setting(6e-4, low=0.0)
    weight_decay: float = setting(0.01, low=0.0)
    smoothing: float = setting(0.1, low=0.0, high=1.0)
    augmentation: float = setting(1.0, low=0.0, high=3.0)


@dataclasses.dataclass(frozen=True)
class TrainConfig(Settings):
    """All of a run that has an effect on its weights.

    Attributes:
        data: What is trained on.
        network: The network of classifier and detector.
        classifier: The first stage.
        generator: The second stage; its shape and network are the detector's.
        warmup: A stage before the third, off by default.
        detector: The third stage.
        namer: A stage after the third, off by default.
        seed: Seed of initial weights, data order, crops, masks and dropout.
        mixed_precision: Compute in 16 bits where it is safe: float16 on GPUs, bfloat16 elsewhere.
        deterministic: Use only operations that give the same result every time; slower on GPUs.
    """

    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    generator: GeneratorConfig = GeneratorConfig()
    warmup: WarmupConfig = WarmupConfig()
    detector: DetectorConfig = DetectorConfig()
    namer: NamerConfig = NamerConfig()
    seed: int = setting(0, low=0)
    mixed_precision: bool = False
    deterministic: bool = False

    def __post_init__(self):
        super().__post_init__()
        if self.detector.blend and not self.warmup.epochs:
            raise ValueError(
                "`blend` keeps a part of the warmed-up detector, and there is no warm-up. "
                f"Received: blend={self.detector.blend:g} and 0 epochs of the warm-up. "
                "Give --warmup_epochs, e.g. 6, or a blend of 0."
            )
        if self.namer.epochs and not self.detector.look:
            raise ValueError(
                "A namer names what the second look shows, and `look` says how much that is. "
                f"Received: {self.namer.epochs} epochs of the namer, and no look. Give one, e.g. "
                "--detector_look=1, or --namer_epochs=0."
            )


@dataclasses.dataclass(frozen=True)
class RunOptions(Settings):
    """What has no effect on the weights, and may change when a run goes on.

    Attributes:
        work_dir: Folder that everything is written to.
        checkpoint_steps: Steps between two checkpoints.
        cache_dir: Folder for decoded images; auto for one in work_dir where it stays below 4 GB,
            none to decode every time.
        devices: auto for all GPUs, or all machines where TF_CONFIG names several; one for a single
            device.
        log_corloc: Log CorLoc on this many test images after each epoch of the detector, for
            orientation only: nothing is chosen by it. 0 for none.
        tensorboard: Write scalars and images for TensorBoard.
        verbose: 1 for progress bars, 0 for silence.
    """

    work_dir: str = "runs/train"
    checkpoint_steps: int = setting(200, low=1)
    cache_dir: str = "auto"
    devices: str = setting("auto", ("auto", "one"))
    log_corloc: int = setting(0, low=0)
    tensorboard: bool = True
    verbose: int = setting(1, low=0, high=1)


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
