"""Descriptors: what is cut out of their maps."""

import cv2
import numpy as np

from gc_net.heat_maps import largest_parts


def test_only_the_largest_part_above_zero_is_kept():
    maps = np.full((1, 8, 8), -1.0)
    maps[0, 1:3, 1:3] = 1.0
    maps[0, 4:8, 4:8] = 1.0
    mask = largest_parts(maps, 8)[0]
    assert mask[4:8, 4:8].all() and mask.sum() == 16


def test_a_map_without_anything_above_zero_gives_an_empty_mask():
    maps = np.stack([np.full((4, 4), -1.0), np.ones((4, 4))])
    masks = largest_parts(maps, 16)
    assert not masks[0].any() and masks[1].all()


def test_maps_are_enlarged_before_they_are_cut():
    maps = np.random.default_rng(0).normal(size=(1, 5, 5)).astype(np.float32)
    large = cv2.resize(maps[0], (40, 40), interpolation=cv2.INTER_LINEAR)
    mask = largest_parts(maps, 40)[0]
    assert mask.any() and (large[mask] > 0).all()
