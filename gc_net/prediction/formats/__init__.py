"""Label files of predictions, for training and annotation tools.

To add a format, add a file here and a line below.
"""

from typing import TYPE_CHECKING, Any

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.prediction.formats.base import Format

FORMATS = Registry(
    "label format",
    {
        "coco": "gc_net.prediction.formats.coco:Coco",
        "voc": "gc_net.prediction.formats.voc:Voc",
        "yolo": "gc_net.prediction.formats.yolo:Yolo",
        "yolo_obb": "gc_net.prediction.formats.yolo_obb:YoloObb",
        "label_studio": "gc_net.prediction.formats.label_studio:LabelStudio",
        "csv": "gc_net.prediction.formats.table:Table",
    },
)


def get(name: str, **options: Any) -> "Format":
    """Return the `Format` called `name`."""
    return FORMATS.get(name)(**options)
