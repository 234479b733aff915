"""Finding the images to predict on: a folder, a file, a pattern, or a list."""

import glob
import os

from gc_net.datasets.base import DataError
from gc_net.datasets.files import read_lines
from gc_net.datasets.images import IMAGE_EXTENSIONS
from gc_net.datasets.listing import list_folder


def find_images(images):
    """Return the folder that images are named from, and their names in it.

    Args:
        images: A folder, which is searched at any depth; an image file; a pattern such as
            `photos/**/*.jpg`; or a `.txt` file with one path a line, relative to its own folder.

    Returns:
        root: Absolute path: the folder itself, or the deepest one that holds all images.
        files: Names relative to `root`, with `/`, without repeats.
    """
    images = os.path.expanduser(os.fspath(images))
    if os.path.isdir(images):
        listing = list_folder(images, IMAGE_EXTENSIONS)
        if not len(listing.files):
            raise DataError(f"The folder {images} holds no images: {listing.other_files()}.")
        return listing.root, [name.decode("utf-8") for name in listing.files.tolist()]
    if os.path.isfile(images):
        return _below(_listed(images) if images.lower().endswith(".txt") else [images])
    if not glob.has_magic(images):
        raise DataError(f"{images} does not exist. Expected a folder, a file or a pattern.")
    found = [path for path in sorted(glob.glob(images, recursive=True)) if _is_image(path)]
    if not found:
        raise DataError(f"The pattern {images} matches no image files. Quote it for the shell.")
    return _below(found)


def _is_image(path):
    return os.path.splitext(path)[1].lower() in IMAGE_EXTENSIONS and os.path.isfile(path)


def _listed(path):
    folder = os.path.dirname(os.path.abspath(path))
    paths = [os.path.join(folder, os.path.expanduser(line)) for _, line in read_lines(path)]
    if not paths:
        raise DataError(f"The list {path} is empty.")
    return paths


def _below(paths):
    paths = list(dict.fromkeys(os.path.abspath(path) for path in paths))
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    files = [os.path.relpath(path, root).replace(os.sep, "/") for path in paths]
    for file in files:
        try:
            file.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"The name {file!r} is not UTF-8. Rename the file.") from None
    return root, files
