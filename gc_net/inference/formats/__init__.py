"""Label files of predictions, as training and annotation tools read them.

Adding a format is adding a file here and a line below.
"""

from gc_net.registry import Registry

FORMATS = Registry(
    "label format",
    {
        "coco": "gc_net.inference.formats.coco:Coco",
        "voc": "gc_net.inference.formats.voc:Voc",
        "yolo": "gc_net.inference.formats.yolo:Yolo",
        "yolo_obb": "gc_net.inference.formats.yolo_obb:YoloObb",
        "label_studio": "gc_net.inference.formats.label_studio:LabelStudio",
        "csv": "gc_net.inference.formats.table:Table",
    },
)


def get(name, **options):
    """Return the `Format` called `name`."""
    return FORMATS.get(name)(**options)
