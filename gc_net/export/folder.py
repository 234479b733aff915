"""Export to a folder of this package, in half precision: small enough to keep beside the code."""

import os

from gc_net.atomic_files import replaced_folder
from gc_net.evaluation.files import METRICS_FILE, write_json, write_text
from gc_net.export.card import CARD_FILE, find_metrics, model_card, without_folders
from gc_net.export.parity import largest_differences, localized, random_images
from gc_net.localizer import load
from gc_net.saving import model_folder
from gc_net.training_record import TrainingRecord

_USAGE = """
A folder of gc_net, weights in half precision:

```sh
gc-net predict --model={folder} --images=photos --output=labels --format=coco
```
"""


def export_folder(
    model_dir: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    version: int | None = None,
    license_text: str | None = None,
    second_look: float | None = None,
) -> tuple[str, dict[str, float]]:
    """Write a model's folder with half the bytes, its card and its metrics.

    Args:
        model_dir: Folder of a model, see `gc_net.load`.
        output_dir: Folder to make.
        version: Must be None: such a folder has no versions.
        license_text: Licence of the weights, for the model card.
        second_look: See `gc_net.load`; the model's own if None.

    Returns:
        `output_dir`, and the largest difference of each output due to half precision.
    """
    if version is not None:
        raise ValueError("A folder has no versions: leave out --export_version.")
    output_dir = os.path.normpath(os.fspath(output_dir))
    if os.path.exists(output_dir):
        raise FileExistsError(f"{output_dir} exists. Name another folder, or delete it.")
    localizer = load(model_dir, second_look)
    record = TrainingRecord.from_dict(without_folders(localizer.record.to_dict()))
    localizer = localizer.replace(record=record)
    metrics = without_folders(find_metrics(model_folder(model_dir)))
    usage = _USAGE.format(folder=without_folders(output_dir))
    with replaced_folder(output_dir) as temporary:
        localizer.save(temporary, dtype="float16")
        if metrics:
            write_json(os.path.join(temporary, METRICS_FILE), metrics)
        name = os.path.basename(output_dir)
        card = model_card(name, localizer, metrics, license_text, usage)
        write_text(os.path.join(temporary, CARD_FILE), card)
        images = random_images(localizer.resize_size)
        differences = largest_differences(
            localized(localizer, images), localized(load(temporary), images)
        )
    return output_dir, differences
