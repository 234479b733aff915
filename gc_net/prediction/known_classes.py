"""Classes that are known before a prediction, from the names of folders."""

import os
from collections.abc import Sequence

from gc_net.data.names import some
from gc_net.data.splits import DataError


def folder_labels(root: str, files: Sequence[str], class_names: Sequence[str]) -> dict[str, int]:
    """Return the label of each file, {file: label}, from the names of its folders.

    The innermost folder with the name of a class counts. So `owl/summer/1.jpg` is an owl, and so is
    `1.jpg` if `root` itself is called `owl`.

    Args:
        root: Folder of the images.
        files: Names relative to it, with `/`.
        class_names: Names in label order.

    Raises:
        DataError: If an image is in no folder with the name of a class; it names some.
    """
    label_of = {name: label for label, name in enumerate(class_names)}
    own = os.path.basename(os.path.abspath(root))
    labels, unknown = {}, {}
    for file in files:
        folders = [own, *file.split("/")[:-1]]
        found = [label_of[folder] for folder in folders if folder in label_of]
        if found:
            labels[file] = found[-1]
        else:
            unknown.setdefault(folders[-1], file)
    if unknown:
        folders = some(f"{name!r} ({file})" for name, file in unknown.items())
        raise DataError(
            "The names of folders give the classes, but these are no classes of the "
            f"model: {folders}. It knows {some(map(repr, class_names))}. "
            "Name the folders by class, or leave out --labels."
        )
    return labels
