"""The parts of an image inside and outside a mask: I·M and I·(1 − M)."""

from typing import Any

from keras import ops


def inside_and_outside(normalized: Any, masks: Any) -> tuple[Any, Any]:
    """Split normalized images into the object and the background image.

    A masked pixel is zero, which is the mean colour.

    Args:
        normalized: [B, H, W, 3], as a network's `normalize` returns them.
        masks: [B, H, W, 1], from 0 to 1.

    Returns:
        I·M and I·(1 − M), [B, H, W, 3] each.
    """
    inside = normalized * ops.cast(masks, normalized.dtype)
    return inside, normalized - inside
