"""Published figures of other methods, shown beside measured ones and marked.

Their networks, image sizes, test images and epochs differ from those of a comparison here. So the
figures show what a method can do, and not which one is better. Figures of the paper's Tables 3 and
4 are as quoted there. ADL and PSOL are not in these tables; their figures are those of their
authors, with accuracies turned into errors.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """A row of a paper's table; percentages, None if it has none.

    Attributes:
        network: The backbone.
        loc_err_top1, loc_err_top5, corloc: As in `gc_net.evaluation.tables.METRICS`.
        cls_err_top1, cls_err_top5: The same.
        source: Where it stands.
    """

    network: str
    loc_err_top1: float | None = None
    loc_err_top5: float | None = None
    corloc: float | None = None
    cls_err_top1: float | None = None
    cls_err_top5: float | None = None
    source: str = "Lu et al. 2020"


# By dataset and method. Of several networks, that of most others comes first.
PUBLISHED: dict[str, dict[str, tuple[Published, ...]]] = {
    "cub": {
        "cam": (
            Published("VGG16", 55.85, 47.84, 56.0, 23.4, 7.5),
            Published("GoogLeNet", 58.94, 49.34, 55.1, 26.2, 8.5),
        ),
        "acol": (Published("VGG16", 54.08, 43.49, 54.1, 28.1),),
        "spg": (
            Published("VGG16", 51.07, 42.15, 58.9, 24.5, 7.9),
            Published("GoogLeNet", 53.36, 42.28),
        ),
        "adl": (Published("VGG16", 47.64, None, 75.41, source="Choe and Shim 2019"),),
        "danet": (
            Published("VGG16", 47.48, 38.04, 67.7, 24.6, 7.7),
            Published("Inception-V3", 50.55, 39.54, 67.0, 28.8, 9.4),
        ),
        "tsc": (Published("VGG16", None, None, 65.5),),
        "friend_or_foe": (Published("GoogLeNet", None, None, 56.5),),
        "psol": (Published("VGG16", 33.70, 15.95, 89.11, source="Zhang et al. 2020"),),
        "gc_net": (
            Published("VGG16", 36.76, 24.46, 81.1, 23.2, 7.7),
            Published("GoogLeNet", 41.42, 29.00, 75.3, 23.2, 6.6),
        ),
    },
    "ilsvrc": {
        "saliency": (
            Published("VGG16", 61.12, 51.46),
            Published("GoogLeNet", 61.31, 50.55),
        ),
        "cam": (
            Published("VGG16", 57.20, 45.14, None, 33.4, 12.2),
            Published("GoogLeNet", 56.40, 43.00, None, 35.0, 13.2),
        ),
        "gmp": (Published("GoogLeNet", 57.78, 45.26, None, 35.6, 13.9),),
        "has": (Published("GoogLeNet", 54.53),),
        "acol": (
            Published("VGG16", 54.17, 40.57, None, 32.5, 12.0),
            Published("GoogLeNet", 53.28, 42.58, None, 29.0, 11.8),
        ),
        "spg": (Published("GoogLeNet", 51.40, 40.00),),
        "adl": (Published("VGG16", 55.08, source="Choe and Shim 2019"),),
        "danet": (Published("Inception-V3", 52.47, 41.72, None, 27.5, 8.6),),
        "psol": (Published("VGG16", 49.11, 39.10, 64.03, source="Zhang et al. 2020"),),
        "gc_net": (Published("Inception-V3", 50.94, 41.91, None, 22.6, 6.4),),
    },
}

# Known only from publications: they need region proposals, or an optimisation for every image.
PUBLISHED_ONLY = {"tsc": "TSC", "friend_or_foe": "Friend or Foe"}


def published(dataset: str, method: str, backbone: str = "") -> Published | None:
    """Return the figures of a method, for the same backbone if possible; None if there are none."""
    rows = PUBLISHED.get(dataset, {}).get(method, ())
    plain = backbone.replace("_", "").lower()
    same = [row for row in rows if row.network.replace("-", "").lower() == plain]
    return next(iter([*same, *rows]), None)
