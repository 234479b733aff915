"""Export to a SavedModel in the tree that TF Serving reads: `<output>/<version>/`."""

import os
import tempfile

import tensorflow as tf

from gc_net.evaluation.files import write_text
from gc_net.export.card import CARD_FILE, find_metrics, model_card
from gc_net.export.parity import compare_saved_model
from gc_net.export.signatures import ServingModule
from gc_net.export.versions import new_version
from gc_net.export.warmup import warmup_requests, write_warmup
from gc_net.localizer import load
from gc_net.saving import model_folder

CLASS_NAMES_FILE = "class_names.txt"

_USAGE = """
A SavedModel for TF Serving or `tf.saved_model.load`, with three signatures:

| signature | input | |
|---|---|---|
| `serving_default` | `images` float32 [B, H, W, 3] | RGB in 0–255, any size |
| `serve_uint8` | `images` uint8 [B, H, W, 3] | the same, a quarter of the bytes |
| `serve_bytes` | `image_bytes` string [B] | JPEG or PNG files; sizes may differ |

Outputs: `boxes` [B, 4] as x1, y1, x2, y2, `coefficients` [B, n] and `outlines` [B, P, 2], relative
to the image; `outline_kinds` and `shapes` [B]; `class_ids`, `class_names` and
`class_probabilities` [B, k], the likeliest first; `confidence` [B], that of the localization;
`image_sizes` [B, 2], height and width. The class names are also in `assets/class_names.txt`.
"""


def export_saved_model(
    model_dir: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    version: int | None = None,
    top_k: int | None = 5,
    license_text: str | None = None,
    second_look: float | None = None,
    compare_images: str | None = None,
) -> tuple[str, dict[str, float]]:
    """Write the next version of a served model.

    The version's folder appears at once, complete, and one that exists is never changed.

    Args:
        model_dir: Folder of a model, see `gc_net.load`.
        output_dir: Folder of the model's versions; its name is the model's.
        version: Number of the version; the next one if None.
        top_k: Number of classes to return; all if None.
        license_text: Licence of the weights, for the model card.
        second_look: See `gc_net.load`; as the model says if None.
        compare_images: Photos on which to compare the boxes with those of `Localizer.predict`, see
            `find_images`; drawn ones if None.

    Returns:
        The folder of the version, and the largest difference of each output from Keras' own.
    """
    name = os.path.basename(os.path.abspath(output_dir))
    with tempfile.TemporaryDirectory() as scratch, new_version(output_dir, version) as folders:
        temporary, final = folders
        localizer = load(model_dir, second_look)
        class_names_file = os.path.join(scratch, CLASS_NAMES_FILE)
        write_text(class_names_file, "".join(f"{name}\n" for name in localizer.class_names))
        module = ServingModule(localizer, top_k, class_names_file)
        tf.saved_model.save(module, temporary, signatures=module.signatures())
        write_warmup(temporary, name, warmup_requests())
        metrics = find_metrics(model_folder(model_dir))
        card = model_card(name, localizer, metrics, license_text, _USAGE)
        write_text(os.path.join(temporary, CARD_FILE), card)
        differences = compare_saved_model(localizer, temporary, photos=compare_images)
    return final, differences
