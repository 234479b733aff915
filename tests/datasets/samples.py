"""Small datasets that tests write to disk, and the folder of the real ones."""

import os
import pathlib

import cv2
import numpy as np
import pytest


def write_image(path, height=12, width=16, seed=0):
    """Write a noisy image; files of different seeds have different contents."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    _, encoded = cv2.imencode(path.suffix.lower(), pixels)
    path.write_bytes(encoded.tobytes())
    return path


def write_text(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_photos(root, counts, suffix=".png"):
    """Write `counts[name]` images of each class below `root`; no two have the same contents."""
    seed = sum(map(ord, str(root)))
    for name, count in counts.items():
        for number in range(count):
            seed += 1
            write_image(pathlib.Path(root, name, f"{number:03d}{suffix}"), seed=seed)
    return pathlib.Path(root)


def real_data(name):
    """Return the folder of a real dataset, or skip the test where it is not there."""
    folder = pathlib.Path(os.environ.get("GC_NET_DATA", "")) / name
    if "GC_NET_DATA" not in os.environ or not folder.is_dir():
        pytest.skip(f"needs the real images: set GC_NET_DATA to the folder that holds {name}")
    return folder
