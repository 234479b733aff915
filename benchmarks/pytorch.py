"""The detector's training step beside the same step in PyTorch; needs the extra `benchmark`."""

import tensorflow as tf

from benchmarks.models import untrained_model
from benchmarks.rounds import conditions, in_turn, table
from benchmarks.step import noise
from gc_net import optimizers

OURS = "gc_net"
THEIRS = ("PyTorch", "PyTorch, channels last")


def report(
    *,
    backbones=("efficientnet_lite0", "vgg16"),
    image_sizes=(128, 224),
    batch_size=16,
    rounds=3,
    seed=0,
):
    """Measure both; arguments are those of `benchmarks.step`."""
    import torch

    yield (
        f"{conditions()}, PyTorch {torch.__version__} with {torch.get_num_threads()} threads, "
        f"float32, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    )
    header = ["backbone", "image size"]
    header += [f"{name}, images/s" for name in (OURS, *THEIRS)]
    header += ["faster than the better one", "in processor time"]
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            timings = measure(backbone, image_size, batch_size, rounds, seed)
            better = min(THEIRS, key=timings.seconds)
            speeds = [batch_size / timings.seconds(name) for name in (OURS, *THEIRS)]
            rows.append(
                [
                    backbone,
                    image_size,
                    *(f"{speed:.2f}" for speed in speeds),
                    f"{timings.ratio(better, OURS):.2f}×",
                    f"{timings.processor_ratio(better, OURS):.2f}×",
                ]
            )
    yield table(header, rows)


def measure(backbone, image_size, batch_size, rounds, seed=0, num_classes=200):
    """Return the `Timings` of a step here and in PyTorch, in both orders of its memory."""
    import torch

    from benchmarks.torch_step import TorchGCNet, training_step

    model = untrained_model(backbone, image_size, num_classes)
    model.compile(optimizers.Adam(1e-4))
    model.optimizer.build(model.trainable_variables)
    images, labels = noise(model, batch_size, seed)
    ways = {OURS: tf.function(lambda: model.train_step((images, labels)))}
    formats = (torch.contiguous_format, torch.channels_last)
    for name, memory_format in zip(THEIRS, formats, strict=True):
        theirs = TorchGCNet(backbone, image_size, num_classes)
        ways[name] = training_step(theirs, images.numpy(), labels.numpy(), memory_format)
    return in_turn(ways, rounds)
