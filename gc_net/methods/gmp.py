"""Global max pooling (Oquab et al. 2015; as a rival of CAM in Zhou et al., CVPR 2016)."""

from gc_net.methods.cam import CAM


class GMP(CAM):
    """CAM of a classifier that takes each channel's maximum over positions, not its mean.

    A maximum is content with one position, so such maps keep to the most telling part of an
    object. Trained like the classifier of CAM but for the head.
    """

    name = "gmp"
    title = "GMP"
    head = "max"
