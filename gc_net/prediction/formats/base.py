"""The base classes of label formats."""

import abc
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gc_net.atomic_files import replaced_folder

if TYPE_CHECKING:
    from gc_net.prediction.prediction import Prediction

# Control characters, line ends of all kinds, and code points that are no characters. XML cannot
# hold most of them.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class Format(abc.ABC):
    """Writes predictions to files that other tools read.

    Boxes are those of the part of a shape inside the image, in the tool's own units.
    """

    @abc.abstractmethod
    def write(
        self,
        folder: str,
        results: "Iterable[tuple[str, Prediction]]",
        class_names: Sequence[str],
        root: str | None = None,
    ) -> str:
        """Write label files into `folder`, which exists, in place of earlier ones.

        Args:
            results: Iterable of (file, `Prediction`), which may be iterated more than once. Files
                are named relative to the folder of the images, with `/`. The results need not fit
                into memory. All `Prediction.objects` of an image are written.
            class_names: Names in label order.
            root: Folder of the images, for formats that keep images and labels together; None to
                write only labels.

        Returns:
            Path of the written file or folder.
        """

    def check(self, files: Sequence[str]) -> None:
        """Raise a `ValueError` if the format cannot distinguish some of `files`."""
        del files


class FilePerImage(Format):
    """A format with a small text file for each image, in a tree like that of the images."""

    folder_name: str
    suffix: str

    @abc.abstractmethod
    def text(self, file: str, prediction: "Prediction") -> str:
        """Return the content of one image's file, or the part of it for one object."""

    def all_text(self, file: str, prediction: "Prediction") -> str:
        """Return the content of the file of an image that may have several objects."""
        return "".join(self.text(file, found) for found in prediction.objects)

    def write(self, folder, results, class_names, root=None):
        del class_names, root
        path = os.path.join(folder, self.folder_name)
        with replaced_folder(path) as temporary:
            for file, prediction in results:
                label_file = os.path.join(temporary, self.label_file(file))
                os.makedirs(os.path.dirname(label_file), exist_ok=True)
                with open(label_file, "w", encoding="utf-8", newline="") as output:
                    output.write(self.all_text(file, prediction))
        return path

    def label_file(self, file: str) -> str:
        return os.path.splitext(file)[0] + self.suffix

    def check(self, files):
        first = {}
        for file in files:
            other = first.setdefault(self.label_file(file), file)
            if other != file:
                raise ValueError(
                    f"{other!r} and {file!r} would share one label file, "
                    f"{self.label_file(file)!r}. Rename one of them, or choose a format that "
                    "writes one file for all, such as coco or csv."
                )


def check_plain_names(files: Iterable[str]) -> None:
    """Raise a `ValueError` for a name that readers of text files would change."""
    for file in files:
        name = os.path.basename(file)
        if UNPRINTABLE.search(file) or file != file.strip() or name != name.strip():
            raise ValueError(
                f"The name {file!r} has control characters, or spaces around it. This format "
                "does not keep them. Rename the file, or choose another format, such as coco."
            )


def pixels(value: float) -> float:
    """Round to hundredths of a pixel."""
    return round(float(value), 2)
