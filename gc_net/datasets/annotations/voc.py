"""Pascal VOC: a folder of XML files, one for each image, at any depth.

VOC counts pixels from 1 and includes the last one. So the box of a whole image is 1, 1, width,
height, and its left and top edge lie at xmin − 1 and ymin − 1. Many tools write the same files with
pixels counted from 0. VOC itself never writes a 0, so if any box of the folder has one, all boxes
are taken as edges counted from 0, unchanged.
"""

import os
from xml.etree import ElementTree

from gc_net.data.splits import DataError
from gc_net.datasets.annotations.annotation import Record, make_box, make_corners

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def read(path: str | os.PathLike) -> list[Record]:
    """Return the `Record`s of the XML files below the folder `path`, or of one XML file."""
    found = []
    for xml in [path] if os.path.isfile(path) else _xml_files(path):
        file, objects = read_file(xml)
        folder = "" if xml == path else os.path.relpath(os.path.dirname(xml), path)
        # If images share names, the XML's own folder identifies the image.
        mirrored = "" if folder in ("", ".") else f"{folder.replace(os.sep, '/')}/{file}"
        files = (mirrored, file) if mirrored else (file,)
        found.extend((place, files, label, corners) for place, label, corners in objects)
    first = 0 if any(min(corners[:2]) < 1 for *_, corners in found) else 1
    return [
        Record(place, files, make_box(place, x1 - first, y1 - first, x2, y2), label)
        for place, files, label, (x1, y1, x2, y2) in found
    ]


def read_file(path: str | os.PathLike) -> tuple[str, list[tuple]]:
    """Return one XML's image name and its `(place, label, corners)`, the corners as written.

    The image's name is `<filename>`, or the XML's own without its suffix.
    """
    root = _parse(path)
    file = (root.findtext("filename") or "").strip()
    objects = []
    for number, element in enumerate(root.iter("object"), start=1):
        place = f"{path}, object {number}"
        label = (element.findtext("name") or "").strip() or None
        corners = [element.findtext(f"bndbox/{corner}") for corner in _CORNERS]
        objects.append((place, label, make_corners(place, *corners)))
    return file or os.path.splitext(os.path.basename(path))[0], objects


class _Builder(ElementTree.TreeBuilder):
    """Refuses document types, which could define entities that expand without limit."""

    def doctype(self, name, pubid, system):
        raise DataError("it has a DOCTYPE, which annotations do not need")


def _parse(path):
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        with open(path, "rb") as file:
            return ElementTree.parse(file, parser).getroot()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (ElementTree.ParseError, DataError, ValueError, LookupError) as error:
        raise DataError(f"{path} is not a VOC annotation: {error}.") from error


def _xml_files(folder):
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found.extend(
            os.path.join(parent, name)
            for name in names
            if name.lower().endswith(".xml") and not name.startswith(".")
        )
    if not found:
        raise DataError(f"{folder} holds no .xml files.")
    return sorted(found)
