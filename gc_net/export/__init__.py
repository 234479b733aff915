"""Exporting a trained model: a SavedModel for TF Serving, or TFLite files for devices."""

from gc_net.registry import Registry

EXPORTS = Registry(
    "export format",
    {
        "saved_model": "gc_net.export.saved_model:export_saved_model",
        "tflite": "gc_net.export.tflite:export_tflite",
    },
)
