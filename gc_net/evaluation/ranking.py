"""Whether confidences rank: do more of the boxes fit where the model is more certain of them?"""

from typing import Any

import numpy as np

from gc_net.metrics import auroc

NUM_PARTS = 5
_RESAMPLES = 200


def ranking(confidence: np.ndarray, right: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """Return how well confidences [N] tell right localizations, bool [N], from wrong ones.

    Returns:
        Dict of `auroc`, the probability that a right one is more certain than a wrong one, with
        `auroc_ci95`, both None if all are right or all wrong; and `fifths`, from the least certain
        to the most certain, each with `confidence`, its lowest and highest, `corloc` in percent and
        `num_images`.
    """
    order = np.argsort(confidence, kind="stable")
    fifths = [
        {
            "confidence": [round(float(confidence[place]), 4) for place in (part[0], part[-1])],
            "corloc": round(100 * float(right[part].mean()), 2),
            "num_images": len(part),
        }
        for part in np.array_split(order, NUM_PARTS)
        if len(part)
    ]
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(right), size=(_RESAMPLES, len(right)))
    resampled = [auroc(confidence[rows], right[rows]) for rows in drawn]
    known = bool(right.any() and not right.all())
    limits = np.nanquantile(resampled, [0.025, 0.975]) if known else None
    return {
        "auroc": round(float(auroc(confidence, right)), 4) if known else None,
        "auroc_ci95": [round(float(limit), 4) for limit in limits] if known else None,
        "fifths": fifths,
    }
