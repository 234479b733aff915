"""Export of a trained model: for TF Serving, for devices, or to keep beside the code."""

from gc_net.registry import Registry

EXPORTS = Registry(
    "export format",
    {
        "saved_model": "gc_net.export.saved_model:export_saved_model",
        "folder": "gc_net.export.folder:export_folder",
        "tflite": "gc_net.export.tflite:export_tflite",
    },
)
