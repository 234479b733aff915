"""The flag of the engine, for tools that use a trained model."""

from absl import flags

from gc_net import engines


def define():
    flags.DEFINE_enum(
        "engine",
        engines.AUTO,
        engines.names(),
        "What runs the networks; all give the same shapes. auto takes xnnpack on a CPU if there "
        f"are at least {engines.PAYS_FROM} images, and tensorflow otherwise.",
    )
