"""Finding the images to predict on: a folder, a file, a pattern, or a list."""

import functools
import glob
import os
from typing import TYPE_CHECKING

from gc_net.data.decode import IMAGE_EXTENSIONS
from gc_net.data.listing import list_folder
from gc_net.data.splits import DataError
from gc_net.datasets.image_files import read_lines

if TYPE_CHECKING:
    from gc_net.data.loading import Unreadable


def find_images(
    images: str,
    output_dir: str | None = None,
    unreadable: "Unreadable | None" = None,
) -> tuple[str, list[str]]:
    """Return the common folder of images, and their names in it.

    A warning names skipped files of a folder, as for a dataset.

    Args:
        images: A folder, which is searched at any depth; an image file; a pattern such as
            `photos/**/*.jpg`; or a `.txt` file with one path a line, relative to its own folder.
        output_dir: Folder that results are written to. Its content, such as drawings of earlier
            results, is left out, even if links lead to it.
        unreadable: An `Unreadable` that collects files in a folder whose names are not UTF-8.

    Returns:
        root: Absolute path: the folder itself, or the deepest one that holds all images.
        files: Names relative to `root`, with `/`, without repeats.
    """
    images = os.path.expanduser(os.fspath(images))
    if os.path.isdir(images):
        listing = list_folder(images, IMAGE_EXTENSIONS)
        listing.warn_of_left_out(stacklevel=2)
        if not len(listing.files):
            raise DataError(f"The folder {images} holds no images: {listing.other_files()}.")
        if unreadable is not None:
            for name in listing.undecodable:
                unreadable.add(name, "the name is not UTF-8; rename it")
        files = [name.decode("utf-8") for name in listing.files.tolist()]
        return listing.root, _outside(output_dir, listing.root, files)
    if os.path.isfile(images):
        paths = _listed(images) if images.lower().endswith(".txt") else [images]
        return _below(_outside(output_dir, "", paths))
    if not glob.has_magic(images):
        raise DataError(f"{images} does not exist. Expected a folder, a file or a pattern.")
    # Folders are often called "photos [2024]": if no pattern fits, a bracket is a bracket.
    for pattern in (images, images.replace("[", "[[]")):
        found = [path for path in sorted(glob.glob(pattern, recursive=True)) if _is_image(path)]
        if found:
            break
    else:
        raise DataError(f"The pattern {images} matches no image files. Quote it for the shell.")
    return _below(_outside(output_dir, "", found))


def _outside(folder, root, files):
    """Return the files, named from `root`, that do not lie in `folder`."""
    if folder is None:
        return files
    inside = os.path.join(os.path.realpath(folder), "")

    @functools.cache  # images are many, the folders that hold them few
    def is_inside(parent):
        return os.path.join(os.path.realpath(parent), "").startswith(inside)

    outside = [file for file in files if not is_inside(os.path.join(root, os.path.dirname(file)))]
    if not outside:
        raise DataError(
            f"All {len(files):,} images lie in the output folder {folder}. Choose a new folder "
            "for the output."
        )
    return outside


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
