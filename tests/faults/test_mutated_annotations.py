"""Malformed annotation files of every format give boxes that make sense, or a `DataError`."""

import contextlib
import copy
import html
import json
import pathlib
import random
import re
import shutil
import warnings

import numpy as np
import pytest

from gc_net.data.splits import DataError, ImageError
from gc_net.datasets.annotations import read_boxes
from gc_net.datasets.annotations.match import match_images, match_labels
from gc_net.datasets.cub import CUB
from gc_net.datasets.ilsvrc import ILSVRC
from gc_net.datasets.image_files import join_boxes
from tests.datasets import test_annotations, test_cub, test_ilsvrc
from tests.datasets.samples import write_image, write_text
from tests.faults import amount

NUM_FILES = amount(250, 4_000)
ODD_WORDS = ("", "nan", "inf", "-inf", "1e400", "1e39", "-1", "0", "9" * 500, "9" * 5000, "1_0")
ODD_WORDS += ("0x10", "٣", "é", "\x00", "\ufeff", "../a.jpg", "/etc/passwd", "a" * 70_000, "<", "&")
ODD_VALUES = (None, True, [], {}, [[]], "", "x", "3", 0, -1, 1.5, 10**400, 1e39, float("nan"))
ODD_VALUES += (float("inf"), "../a.jpg", "/etc/passwd", "\x00", "\ud800", {"a": [1]}, [1, 2, 3, 4])


def mutate_text(text, rng):
    """Return the bytes of a text with one to three things wrong."""
    data = bytearray(text.encode())
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.randrange(6)
        if kind == 0:
            words = data.decode("utf-8", "surrogateescape").split(" ")
            words[rng.randrange(len(words))] = rng.choice(ODD_WORDS)
            data = bytearray(" ".join(words).encode("utf-8", "surrogateescape"))
        elif kind == 1 and data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == 2 and data:
            data = data[: rng.randrange(len(data))]
        elif kind == 3 and data:
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(20)] = rng.choice(ODD_WORDS).encode()
        elif kind == 4:
            lines = data.split(b"\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            data = bytearray(b"\n".join(lines))
        else:
            lines = data.split(b"\n")
            lines.pop(rng.randrange(len(lines)))
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def mutate_xml(text, rng):
    """Return the bytes of an XML text with a value, a tag or anything else wrong."""
    if rng.random() < 0.3:
        return mutate_text(text, rng)
    parts = re.split("([<>])", text)
    for _ in range(rng.choice((1, 1, 2))):
        word = rng.choice((*ODD_WORDS, *map(str, range(20))))
        parts[rng.randrange(0, len(parts), 2)] = word if rng.random() < 0.3 else html.escape(word)
    return "".join(parts).encode()


def mutate_json(text, rng):
    """Return the bytes of a JSON text with one to three of its values replaced or missing."""
    content = json.loads(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(content))
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD_VALUES))
    return json.dumps(content).encode()


def _places(value):
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def check_truth(truth, num_images):
    if truth is None:
        return
    boxes = truth.boxes
    assert len(truth.starts) == num_images + 1 and truth.starts[-1] == len(boxes)
    assert np.isfinite(boxes).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def check_split(split):
    assert len(split.files) == len(split.labels) > 0
    assert split.labels.min() >= 0 and split.labels.max() < len(split.class_names)
    root = pathlib.Path(split.root).resolve()
    for index in range(len(split)):
        assert (root / split.file(index)).resolve().is_relative_to(root)
        with contextlib.suppress(ImageError):
            split.read(index)


def open_boxes(path):
    records = read_boxes(path)
    indices = match_images(records, ["cats/a.jpg", "cats/b.jpg"], "/data")
    match_labels(records, np.zeros(len(records), int), ("cat",))
    check_truth(join_boxes(indices, [record.box_xyxy for record in records], 2), 2)


def open_dataset(dataset):
    for name in ("train", "test"):
        split = dataset.split(name)
        check_split(split)
        check_truth(dataset.truth(name), len(split))


def write_boxes(name):
    def write(folder):
        path = test_annotations.write_format(folder, name)
        return path / "a.xml" if path.is_dir() else path

    return write


def write_cub(name):
    def write(folder):
        for list_name, text in test_cub.LISTS.items():
            write_text(folder / list_name, text)
        for line in test_cub.LISTS["images.txt"].splitlines():
            write_image(folder / "images" / line.partition(" ")[2])
        return folder / name

    return write


def write_ilsvrc(name):
    def write(folder):
        for wnid in ("n01", "n02", "n03", "n04"):
            write_image(folder / f"Data/CLS-LOC/train/{wnid}/{wnid}_1.JPEG")
        for image in test_ilsvrc.SOLUTION:
            write_image(folder / f"Data/CLS-LOC/val/{image}.JPEG")
        write_text(folder / "LOC_synset_mapping.txt", test_ilsvrc.MAPPING)
        if name.endswith(".xml"):
            test_ilsvrc.write_xmls(folder)
        else:
            write_text(folder / "LOC_val_solution.csv", test_ilsvrc.solution_text())
        return folder / name

    return write


CUB_LISTS = {name: (write_cub(name), mutate_text, "cub") for name in test_cub.LISTS}
ILSVRC_LISTS = {
    name: (write_ilsvrc(name), mutate_xml if name.endswith(".xml") else mutate_text, "ilsvrc")
    for name in (
        "LOC_synset_mapping.txt",
        "LOC_val_solution.csv",
        "Annotations/CLS-LOC/val/val_2.xml",
    )
}
FORMATS = {
    "coco": (write_boxes("coco"), mutate_json, "boxes"),
    "coco as text": (write_boxes("coco"), mutate_text, "boxes"),
    "voc": (write_boxes("voc"), mutate_xml, "boxes"),
    "csv": (write_boxes("csv"), mutate_text, "boxes"),
    **CUB_LISTS,
    **ILSVRC_LISTS,
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_malformed_file_is_an_error_that_says_where_or_harmless(tmp_path, name):
    write, mutate, kind = FORMATS[name]
    path = write(tmp_path)
    whole = path.read_text()
    rng = random.Random(name)
    outcomes = {"read": 0, "refused": 0}
    for number in range(NUM_FILES if kind == "boxes" else NUM_FILES // 2):
        data = mutate(whole, rng)
        path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a class or image is missing
                if kind == "boxes":
                    open_boxes(path)
                else:
                    open_dataset({"cub": CUB, "ilsvrc": ILSVRC}[kind](tmp_path))
            outcomes["read"] += 1
        except DataError as error:
            assert str(error).strip()
            outcomes["refused"] += 1
        except Exception as error:
            raise AssertionError(f"file {number}: {data[:300]!r} gave {error!r:.300}") from error
    print(f"\n{name}: {outcomes}")
    assert min(outcomes.values()) > 0
    shutil.rmtree(tmp_path)
