"""A learned generator, trained on rendered shapes; most runs take a shipped one."""

import dataclasses
import functools
import math
import os
from typing import Any

from gc_net.settings import Settings, setting
from gc_net.stages.base import Batches, Stage

STEPS_PER_EPOCH = 500


@dataclasses.dataclass(frozen=True)
class GeneratorConfig(Settings):
    """How a learned generator is trained; its shape and network are the detector's.

    Attributes:
        sampler: full for all shapes that a detector can ask for, or reference for the authors'
            range.
        steps: Number of updates.
        batch_size: Shapes a batch.
        learning_rate: Initial rate, which falls to zero along a cosine, or in the authors' steps;
            None for the recipe's own, 2e-3 or 0.1.
        recipe: fast for Adam and a loss that also learns small shapes, in a time that suits two CPU
            cores, where the paper's network sees crops of masks; or paper for SGD and Dice with the
            authors' schedule.
        start: Weights file to train further, such as one that is shipped; None for new weights.
    """

    sampler: str = setting("full", ("full", "reference"))
    steps: int = setting(10_000, low=1)
    batch_size: int = setting(128, low=1)
    learning_rate: float | None = setting(None, low=0.0)
    recipe: str = setting("fast", ("fast", "paper"))
    start: str | None = None


class GeneratorStage(Stage):
    """Trains the generator that the detector asks for, if none is shipped."""

    name = "generator"
    title = "Generator"
    settings = GeneratorConfig
    reads = ("detector.shape", "detector.generator_network")

    @classmethod
    def units(cls, config):
        from gc_net.generators.learned import shipped_weights

        asked = config.detector
        if asked.generator != "learned" or asked.generator_weights not in ("shipped", "own"):
            return []
        shipped = shipped_weights(asked.shape, asked.generator_network)
        return [] if shipped and asked.generator_weights == "shipped" else [cls()]

    def result(self, config):
        return f"{config.detector.shape}_{config.detector.generator_network}.npz"

    def check(self, run):
        from gc_net.training.devices import check_batch_size

        check_batch_size(self.name, run.settings.batch_size)
        return run.settings.steps

    def batches(self, run):
        from gc_net.generators.crop_fitting import rendered_crops
        from gc_net.generators.fitting import rendered_batches
        from gc_net.generators.networks import NETWORKS

        settings, asked = run.settings, run.config.detector
        network = NETWORKS.get(asked.generator_network)
        if learns_from_crops(network, settings):
            rendered = functools.partial(rendered_crops, asked.shape, settings.sampler)
        else:
            rendered = functools.partial(
                rendered_batches, asked.shape, settings.sampler, network.train_size
            )
        # Epochs of equal length.
        epochs = math.ceil(settings.steps / STEPS_PER_EPOCH)
        steps_per_epoch = math.ceil(settings.steps / epochs)

        def make(epoch, start_step, **shard):
            first = epoch * steps_per_epoch
            return rendered(
                settings.batch_size,
                first + steps_per_epoch,
                run.config.seed,
                start=first + start_step,
                **shard,
            )

        return Batches(make, steps_per_epoch)

    def build(self, run, num_steps):
        import keras

        from gc_net.generators.crop_fitting import initialize
        from gc_net.generators.crops import CropModel
        from gc_net.generators.fitting import compile_generator
        from gc_net.generators.learned import LearnedGenerator

        # The seed itself, so that the shipped weights can be made again.
        keras.utils.set_random_seed(run.config.seed)
        asked = run.config.detector
        start = run.settings.start
        generator = LearnedGenerator(asked.shape, network=asked.generator_network, weights=start)
        size = generator.network.train_size
        generator.image_size = (size, size)
        if learns_from_crops(generator.network, run.settings):
            generator = CropModel(generator, compiled=True)
            if start is None:
                initialize(generator, run.settings.sampler, run.config.seed)
        compile_generator(generator, run.settings)
        return generator

    def finish(self, run, model):
        from gc_net.generators.crop_fitting import settle

        if learns_from_crops(model.network, run.settings):
            settle(model, run.settings.sampler, run.config.seed)
        run.save_weights(run.result_path(), model.network, dtype="float16")


def learns_from_crops(network: Any, settings: GeneratorConfig) -> bool:
    """Return whether a network is trained on crops of its masks; the authors' recipe does not."""
    return network.local and settings.recipe == "fast"


def make_generator(config: Settings, options: Settings) -> dict[str, dict[str, float]]:
    """Train a generator, measure it, and write what was measured beside it.

    Args:
        config: A `TrainConfig`.
        options: A `RunOptions`.

    Returns:
        What `measure_generator` found.
    """
    from gc_net.generators.fitting import measure_generator
    from gc_net.generators.learned import LearnedGenerator
    from gc_net.run_files import write_json
    from gc_net.stages.runner import Runner

    detector = dataclasses.replace(config.detector, generator="learned", generator_weights="own")
    config = dataclasses.replace(config, detector=detector)
    with Runner(config, options) as runner:
        runner.train([GeneratorStage.name])
        unit = runner.units[GeneratorStage.name]
        path = os.path.join(runner.folder(unit), unit.result(config))
        settings = runner.settings_of(unit)
    generator = LearnedGenerator(detector.shape, network=detector.generator_network, weights=path)
    measured = measure_generator(generator)
    write_json(f"{os.path.splitext(path)[0]}.json", {"config": settings, "iou": measured})
    return measured
