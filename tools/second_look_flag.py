"""The flag of the second look, for tools that use a trained model."""

from absl import flags


def define():
    flags.DEFINE_float(
        "second_look",
        None,
        "Side of the second look's region as a multiple of the longer side of the shape's box; 0 "
        "for none; the model's own if not set. TFLite files have no second look.",
        lower_bound=0,
    )
