"""Image files to measure with, drawn and written in seconds."""

import contextlib
import os
import tempfile

import cv2

from gc_net import datasets
from gc_net.prediction.find_images import find_images

NUM_DIFFERENT = 200  # the rest are links to these
NUM_CLASSES = 10


def write_images(folder, num_images, image_size=64, seed=0):
    """Write a folder of creatures as JPEG files, a folder a class, and their boxes as a CSV.

    Most are hard links: a file system, a decoder and a network cannot tell them from copies.

    Args:
        folder: Folder to make.
        num_images: How many files.
        image_size: Longer side of the images; at least 32.
        seed: Of the creatures.
    """
    creatures = datasets.get(
        "creatures",
        num_classes=NUM_CLASSES,
        num_train=min(num_images, NUM_DIFFERENT),
        num_test=1,
        image_size=image_size,
        seed=seed,
    )
    split, truth = creatures.split("train"), creatures.truth("train")
    for name in split.class_names:
        os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, "boxes.csv"), "w", encoding="utf-8") as file:
        file.write("path,xmin,ymin,xmax,ymax\n")
        for number in range(num_images):
            index = number % len(split)
            name = _name(split, number)
            path = os.path.join(folder, name)
            if number < len(split):
                _, encoded = cv2.imencode(".jpg", split.read(index)[..., ::-1])
                encoded.tofile(path)
            else:
                os.link(os.path.join(folder, _name(split, index)), path)
            edges = (f"{edge:.2f}" for edge in truth.boxes_of(index)[0])
            file.write(f"{name},{','.join(edges)}\n")


def _name(split, number):
    label = split.labels[number % len(split)]
    return f"{split.class_names[label]}/{number:07d}.jpg"


@contextlib.contextmanager
def image_files(images, num_images, image_size=256, seed=0):
    """Give the folder and names of up to `num_images` files: of `images`, or drawn for the block.

    Args:
        images: See `find_images`; None for drawn ones.
        image_size: Longer side of drawn ones.
        seed: Of drawn ones.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if images is None:
            images = os.path.join(scratch, "images")
            write_images(images, num_images, image_size, seed)
        root, files = find_images(images)
        yield root, files[:num_images]
