"""Checks of a server's answer before it is used."""

import numpy as np

# The parts of a `Prediction`: the shape of each image's entry, and whether it has numbers. None
# stands for any length; all entries of classes have the same length.
_OUTPUTS = {
    "boxes": ((4,), True),
    "coefficients": ((None,), True),
    "outlines": ((None, 2), True),
    "shapes": ((), False),
    "class_ids": ((None,), True),
    "class_names": ((None,), False),
    "class_probabilities": ((None,), True),
    "confidence": ((), True),
    "image_sizes": ((2,), True),
}
# Optional outputs, which models have that an earlier version exported.
_OPTIONAL = dict.fromkeys(
    ("object_probability", "background_probability", "background_entropy"), ((), True)
)
# An array pads every text to the longest: 20,000 names of 400 characters.
_MOST_CHARACTERS_AN_IMAGE = 8_000_000
_CLASSES = ("class_ids", "class_names", "class_probabilities")


def checked_outputs(outputs, count):
    """Return the outputs of a serving signature as arrays, one entry an image.

    Args:
        outputs: {name: nested list or array} from a server, or anything else that it sent.
        count: Number of images that were sent.

    Raises:
        ValueError: If a part is missing, superfluous or meaningless; the message continues "the
            answer".
    """
    if not isinstance(outputs, dict):
        raise ValueError(f"has outputs of type {type(outputs).__name__}, expected an object")
    missing = [name for name in _OUTPUTS if name not in outputs]
    if missing:
        raise ValueError(f"lacks {', '.join(missing)}")
    arrays = {}
    for name, value in outputs.items():
        _check_texts(name, value, count)
        try:
            arrays[name] = np.array(value)
        except ValueError:
            raise ValueError(f"has rows of different lengths in {name}") from None
        if arrays[name].ndim == 0 or len(arrays[name]) != count:
            rows = len(arrays[name]) if arrays[name].ndim else "no"
            raise ValueError(f"has {rows} rows of {name} for {count} images")
    for name, (shape, is_number) in {**_OUTPUTS, **_OPTIONAL}.items():
        if name in arrays:
            _check(name, arrays[name], shape, is_number)
    lengths = {arrays[name].shape[1] for name in _CLASSES}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"has different numbers of {', '.join(_CLASSES)}, or none")
    if (arrays["image_sizes"] < 1).any():
        raise ValueError("has image_sizes below 1")
    return arrays


def _check_texts(name, value, count):
    """Refuse nested lists that would take far more memory as an array than they take now."""
    found, longest, lists = 0, 0, [value]
    while lists:
        item = lists.pop()
        if isinstance(item, list):
            lists.extend(item)
        else:
            found += 1
            longest = max(longest, len(item) if isinstance(item, str) else 0)
    if found * longest > count * _MOST_CHARACTERS_AN_IMAGE:
        raise ValueError(
            f"has {found:,} values of up to {longest:,} characters in {name} for {count} images"
        )


def _check(name, array, shape, is_number):
    found = array.shape[1:]
    fits = len(found) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, found, strict=True)
    )
    if not fits:
        wanted = ", ".join("n" if length is None else str(length) for length in shape)
        raise ValueError(f"has {name} of shape {list(found)} an image, expected [{wanted}]")
    if is_number and (array.dtype.kind not in "iuf" or not np.isfinite(array).all()):
        raise ValueError(f"has {name} that are no finite numbers")
    if not is_number and array.dtype.kind not in "US":
        raise ValueError(f"has {name} that are no text")
