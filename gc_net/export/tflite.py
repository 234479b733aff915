"""Export to TFLite: one image at a time, in float and with 8-bit integers."""

import logging
import os

import numpy as np
import tensorflow as tf

from gc_net.data.decode import read_image
from gc_net.data.splits import DataError, ImageError
from gc_net.data.transforms import LARGEST_BLUR, squash
from gc_net.evaluation.files import write_text
from gc_net.export.card import CARD_FILE, find_metrics, model_card
from gc_net.export.parity import largest_differences, random_images
from gc_net.export.saved_model import CLASS_NAMES_FILE
from gc_net.export.versions import new_version
from gc_net.localizer import load
from gc_net.metrics import box_iou
from gc_net.prediction.find_images import find_images
from gc_net.prediction.graph import localize
from gc_net.saving import model_folder

_NUM_COMPARED = 32

_USAGE = """
TFLite files with one signature: `images` float32 [1, {size}, {size}, 3], RGB in 0–255, upright, and
squashed to that size whatever the aspect ratio. Outputs of every file: `boxes` [1, 4] as x1, y1,
x2, y2 and `coefficients` [1, n], both relative to the image, `class_probabilities` [1, C] in the
order of `class_names.txt`, and `confidence` [1], that of the localization.{second_look}

Squash as the model was trained: a Gaussian blur, then bilinear interpolation, which together are
the antialiased bilinear filter of Pillow. With OpenCV, and exactly:

```python
{recipe}
```

Pillow's `image.resize(({size}, {size}), Image.Resampling.BILINEAR)` comes close. Interpolation
without the blur, which is what most `resize` functions do, moves the boxes of large photos.

Largest differences from the Keras model on {count} images:

{table}
"""

# Without gc_net, for users with only the TFLite file; a test compares it with `transforms.squash`.
_RECIPE = """
import math
import cv2
import numpy as np

def read_squashed(file, size={size}):
    image = cv2.imread(file)  # turned upright
    spare = min(image.shape[:2]) // (2 * size)
    for factor in (8, 4, 2):  # large JPEGs are decoded at a reduced size
        if spare >= factor and file.lower().endswith((".jpg", ".jpeg")):
            image = cv2.imread(file, getattr(cv2, f"IMREAD_REDUCED_COLOR_{{factor}}"))
            break
    height, width = image.shape[:2]
    if max(height, width) > {largest} * size:
        width, height = (min(side, {largest} // 2 * size) for side in (width, height))
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    (taps_x, sigma_x), (taps_y, sigma_y) = blur(width / size), blur(height / size)
    image = cv2.GaussianBlur(
        image, (taps_x, taps_y), sigmaX=sigma_x, sigmaY=sigma_y, borderType=cv2.BORDER_REPLICATE
    )
    image = cv2.resize(image, (size, size), interpolation=cv2.INTER_LINEAR)
    return image[None, ..., ::-1].astype(np.float32)  # BGR to RGB

def blur(scale):
    if scale <= 1:
        return 1, 1.0
    variance = (scale**2 - 1) / 6
    if scale > 2:
        return 2 * math.ceil(2 * math.sqrt(variance)) + 1, math.sqrt(variance)
    return 3, math.sqrt(-0.5 / math.log(variance / 2 / (1 - variance)))
"""

_SECOND_LOOK = """ The second look
of the model needs the original images and is left out: classes are those of the first look."""

_log = logging.getLogger("gc_net")


class TFLiteModule(tf.Module):
    """The part of a model that runs on a device."""

    def __init__(self, localizer):
        super().__init__(name="gc_net")
        size = localizer.resize_size
        self.model_variables = [variable.value for variable in localizer.variables]
        self.serve = tf.function(
            lambda images: localize(localizer, images),
            input_signature=[tf.TensorSpec([1, size, size, 3], tf.float32, "images")],
        )


def export_tflite(
    model_dir: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    version: int | None = None,
    calibration_images: str | None = None,
    num_calibration: int = 100,
    license_text: str | None = None,
    second_look: float | None = None,
) -> tuple[str, dict[str, float]]:
    """Write `model_float32.tflite` and, given images, `model_int8.tflite`.

    Args:
        model_dir: Folder of a model, see `gc_net.load`.
        output_dir: Folder of the model's versions.
        version: Number of the version; the next one if None.
        calibration_images: Typical images, which give the ranges of the model's values, see
            `find_images`; without them there is no int8 file.
        num_calibration: How many of them to use, spread over all.
        license_text: Licence of the weights, for the model card.
        second_look: Must be None or 0, because such a file sees only squashed images. The second
            look of a model is left out, with a warning.

    Returns:
        The folder of the version, and for each file the largest difference of each output from
        Keras', and the mean IoU of their boxes.
    """
    if second_look:
        raise ValueError(
            "A TFLite file sees squashed images only, and a second look needs the original ones: "
            f"leave out --second_look. Received: second_look={second_look}"
        )
    with new_version(output_dir, version) as (temporary, final):
        localizer = load(model_dir)
        own_look, localizer = localizer.second_look, localizer.replace(second_look=0.0)
        if own_look and second_look is None:
            _log.warning(
                "The model has a second look (%g), which needs the original images. A TFLite file "
                "sees only squashed images: its classes are those of the first look.",
                own_look,
            )
        compared = random_images(localizer.resize_size, _NUM_COMPARED)
        calibration = None
        if calibration_images is not None:
            calibration = read_squashed(calibration_images, num_calibration, localizer.resize_size)
            compared = calibration[:: max(1, len(calibration) // _NUM_COMPARED)][:_NUM_COMPARED]
        module = TFLiteModule(localizer)
        models = {"float32": convert(module)}
        if calibration is not None:
            models["int8"] = convert(module, calibration)
        differences = {name: compare(localizer, model, compared) for name, model in models.items()}
        os.mkdir(temporary)
        for name, content in models.items():
            with open(os.path.join(temporary, f"model_{name}.tflite"), "wb") as file:
                file.write(content)
        class_names = "".join(f"{name}\n" for name in localizer.class_names)
        write_text(os.path.join(temporary, CLASS_NAMES_FILE), class_names)
        usage = _USAGE.format(
            size=localizer.resize_size,
            recipe=_RECIPE.strip().format(size=localizer.resize_size, largest=LARGEST_BLUR),
            second_look=_SECOND_LOOK if own_look else "",
            count=len(compared),
            table=_table(differences),
        )
        name = os.path.basename(os.path.abspath(output_dir))
        metrics = find_metrics(model_folder(model_dir))
        card = model_card(name, localizer, metrics, license_text, usage)
        write_text(os.path.join(temporary, CARD_FILE), card)
    return final, {
        f"{name}, {output}": value
        for name, outputs in differences.items()
        for output, value in outputs.items()
    }


def convert(module, calibration=None):
    """Return the bytes of a TFLite file; with `calibration` images [N, S, S, 3], of integers.

    Images and outputs are floats in both kinds, so one can replace the other.
    """
    function = module.serve.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if calibration is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (
            [image[None].astype(np.float32)] for image in calibration
        )
    return converter.convert()


def run(content, images):
    """Return the outputs of a TFLite file for images [N, S, S, 3], joined."""
    runner = tf.lite.Interpreter(model_content=content).get_signature_runner()
    outputs = [runner(images=image[None].astype(np.float32)) for image in images]
    return {name: np.concatenate([output[name] for output in outputs]) for name in outputs[0]}


def compare(localizer, content, images):
    """Return how far a TFLite file is from the Keras model on `images`."""
    expected = {name: np.asarray(value) for name, value in localize(localizer, images).items()}
    found = run(content, images)
    overlaps = box_iou(expected["boxes"], found["boxes"])
    return {**largest_differences(expected, found), "mean IoU of boxes": float(np.mean(overlaps))}


def read_squashed(images, count, size):
    """Return up to `count` of the images that `images` stands for, uint8 [N, size, size, 3]."""
    root, files = find_images(images)
    chosen = np.unique(np.linspace(0, len(files) - 1, min(count, len(files))).astype(int))
    return squashed_files(root, [files[index] for index in chosen], size)


def squashed_files(root, files, size):
    """Return the images in `files`, named from `root`, uint8 [N, size, size, 3].

    Those that cannot be read are left out.
    """
    squashed = []
    for file in files:
        try:
            image = read_image(os.path.join(root, file), target=size)
        except ImageError:
            continue  # a range does not depend on a single image
        squashed.append(squash(image, size))
    if not squashed:
        raise DataError(f"None of the calibration images in {root} can be read.")
    return np.stack(squashed)


def _table(differences):
    outputs = next(iter(differences.values()))
    lines = [f"| file | {' | '.join(outputs)} |", "|---" * (len(outputs) + 1) + "|"]
    for name, values in differences.items():
        numbers = " | ".join(f"{value:.2g}" for value in values.values())
        lines.append(f"| `model_{name}.tflite` | {numbers} |")
    return "\n".join(lines)
