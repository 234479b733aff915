"""Global max pooling (Oquab et al. 2015; as a rival of CAM in Zhou et al., CVPR 2016)."""

from gc_net.methods.cam import CAM


class GMP(CAM):
    """CAM of a classifier that takes each channel's maximum over positions, not its mean.

    A maximum needs only one position, so such maps stay on the most distinctive part of an object.
    Except for the head, it is trained like the classifier of CAM.
    """

    name = "gmp"
    title = "GMP"
    head = "max"
