"""The protocols, against hand-computed boxes and another reading of the evaluator's rules."""

import cv2
import numpy as np
import pytest

from gc_net import heat_maps, shapes
from gc_net.evaluation import protocols, wsoleval

ONE = np.ones(1, int)


def iou(name, box, truth, size=(100, 100)):
    """IoU of a relative box with one true box in pixels of an image of height and width `size`."""
    protocol = protocols.get(name)
    truth = np.array([[truth]], np.float64)
    sizes = np.array([size])
    relative = truth / (np.array([*size[::-1], *size[::-1]]))
    boxes = protocol.truth_boxes(relative, truth, sizes)
    return protocol.box_iou(np.array([box]), boxes, ONE)[0]


class TestPaper:
    def test_does_not_clip_what_reaches_beyond_the_crop(self):
        assert iou("paper", (-0.5, 0, 0.5, 1), (0, 0, 50, 100)) == pytest.approx(0.5)

    def test_half_is_not_enough(self):
        protocol = protocols.get("paper")
        assert protocol.hits(np.array([0.5, 0.5001, np.nan])).tolist() == [False, True, False]


class TestFull:
    def test_clips_the_predicted_box_to_the_image(self):
        assert iou("full", (-0.5, 0, 0.5, 1), (0, 0, 50, 100)) == pytest.approx(1.0)


class TestWSOLEval:
    def test_half_is_enough(self):
        protocol = protocols.get("wsoleval")
        assert protocol.hits(np.array([0.4999, 0.5, np.nan])).tolist() == [False, True, False]

    def test_cuts_true_boxes_to_whole_pixels_twice(self):
        protocol = protocols.get("wsoleval")
        boxes = protocol.truth_boxes(
            None, np.array([[[10.9, 0, 50.9, 99]]]), np.array([[100, 200]])
        )
        # 10 · 224 / 200 = 11.2, 50 · 224 / 200 = 56, 99 · 224 / 100 = 221.76
        assert boxes.tolist() == [[[11, 0, 56, 221]]]

    def test_a_box_ends_one_after_its_last_pixel_and_at_most_at_223(self):
        protocol = protocols.get("wsoleval")
        boxes = np.array([[10, 20, 30, 40], [0, 0, 224, 224], [5, 5, 5, 9]]) / 224
        assert protocol.compared(boxes).tolist() == [
            [10, 20, 30, 40],
            [0, 0, 223, 223],
            [0, 0, 0, 0],
        ]

    def test_reads_a_shapes_box_off_its_pixels(self):
        shape = shapes.get("rectangle")
        protocol = protocols.get("wsoleval")
        coefficients = np.array([[0.5, 0.5, 0.5, 0.25]], np.float32)
        truth = np.array([[[56.0, 84, 168, 140]]])
        located, v2 = protocol.shape_iou(shape, coefficients, truth, ONE)
        assert located.tolist() == v2.tolist() == [1.0]

    def test_the_best_outline_counts_only_for_v2(self):
        small = np.zeros((1, 224, 224), np.float32)
        small[0, :100, :100] = 1.0
        small[0, 150:200, 150:200] = 1.0
        truth = np.array([[[150.0, 150, 200, 200]]])
        located, v2 = protocols.get("wsoleval").map_iou(small, truth, ONE, 224)
        assert located.shape == v2.shape == (1, 255)
        assert located[0, 128] == 0.0
        assert v2[0, 128] == pytest.approx(1.0)

    def test_a_constant_map_gives_the_corner_pixel(self):
        maps = np.full((1, 7, 7), 3.0)
        located, _ = protocols.get("wsoleval").map_iou(maps, np.array([[[0.0] * 4]]), ONE, 224)
        assert (located == 1.0).all()

    def test_equals_following_the_evaluators_steps_one_by_one(self):
        rng = np.random.default_rng(0)
        maps = rng.random((4, 5, 5)).astype(np.float32)
        truth = np.array([[[20, 30, 120, 150], [100, 10, 223, 90]]] * 4, np.float64)
        count = np.array([2, 1, 2, 0])
        located, v2 = protocols.get("wsoleval").map_iou(maps, truth, count, 224)
        assert np.isnan(located[3]).all() and np.isnan(v2[3]).all()
        for row in range(3):
            # Its own thousand thresholds, of which many fall on the same 8-bit level.
            for threshold in np.arange(0, 1, 0.001)[rng.integers(0, 1000, 25)]:
                level = int(threshold * 255)
                largest, best = step_by_step(maps[row], threshold, truth[row, : count[row]])
                assert located[row, level] == pytest.approx(largest, abs=1e-12)
                assert v2[row, level] == pytest.approx(best, abs=1e-12)


def step_by_step(heat_map, threshold, truth):
    """The evaluator's procedure, written down plainly for one map and one threshold."""
    large = cv2.resize(heat_map.astype(float), (224, 224), interpolation=cv2.INTER_CUBIC)
    return step_by_step_boxes((large - large.min()) / (large - large.min()).max(), threshold, truth)


def step_by_step_boxes(score_map, threshold, truth):
    """From a score map on: the IoU of the largest contour's box, and of the best one's."""
    grey = (score_map * 255).astype(np.uint8)
    _, black_and_white = cv2.threshold(grey, int(threshold * grey.max()), 255, cv2.THRESH_BINARY)
    contours, _ = cv2.findContours(black_and_white, cv2.RETR_TREE, cv2.CHAIN_APPROX_SIMPLE)
    scores = []
    for contour in contours:
        x, y, w, h = cv2.boundingRect(contour)
        a = (x, y, min(x + w, 223), min(y + h, 223))
        scores.append(max(inclusive_iou(a, b) for b in truth))
    areas = [cv2.contourArea(contour) for contour in contours]
    return scores[areas.index(max(areas))], max(scores)


def inclusive_iou(a, b):
    def pixels(box):
        return max(0, box[2] - box[0] + 1) * max(0, box[3] - box[1] + 1)

    overlap = pixels((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    return overlap / (pixels(a) + pixels(b) - overlap)


class TestHeatMaps:
    def test_the_box_surrounds_the_largest_part(self):
        heat_map = np.zeros((1, 8, 8), np.float32)
        heat_map[0, 1:3, 1:4] = 1.0  # six cells
        heat_map[0, 6, 4:7] = 1.0  # three
        boxes = heat_maps.boxes(heat_map, [0.5], 8)
        np.testing.assert_allclose(boxes[0, 0], np.array([1, 1, 4, 3]) / 8)

    def test_parts_that_touch_at_a_corner_are_one(self):
        heat_map = np.eye(4, dtype=np.float32)[None]
        np.testing.assert_allclose(heat_maps.boxes(heat_map, [0.5], 4)[0, 0], [0, 0, 1, 1])

    def test_equals_labelling_every_pixel(self):
        rng = np.random.default_rng(3)
        compared = 0
        for _ in range(300):
            mask = cv2.resize(rng.random((5, 6)), (30, 24)) > rng.uniform(0.3, 0.8)
            filled = mask.astype(np.uint8)
            cv2.drawContours(filled, cv2.findContours(filled, 0, 1)[0], -1, 1, cv2.FILLED)
            count, _, parts, _ = cv2.connectedComponentsWithStats(filled, connectivity=8)
            areas = parts[1:, cv2.CC_STAT_AREA]
            if count < 3 or (areas == areas.max()).sum() > 1:
                continue
            x, y, width, height, _ = parts[1 + areas.argmax()]
            assert heat_maps.largest_box(mask) == (x, y, x + width, y + height)
            compared += 1
        assert compared > 100

    def test_levels_lie_between_the_lowest_and_the_highest_value(self):
        heat_map = np.array([[[-4.0, -3.0, -2.0, 0.0]] * 4], np.float32)
        boxes = heat_maps.boxes(heat_map, [0.1, 0.3, 0.6], 4)[0]
        np.testing.assert_allclose(boxes[:, 0], [0.25, 0.5, 0.75])

    def test_a_cut_is_in_the_maps_own_units(self):
        heat_map = np.array([[[-4.0, -3.0, 1.0, 2.0]] * 4], np.float32)
        np.testing.assert_allclose(heat_maps.boxes(heat_map, [], 4, cut=0.0)[0, 0], [0.5, 0, 1, 1])

    @pytest.mark.parametrize("value", [0.0, 5.0])
    def test_a_constant_map_gives_the_whole_image(self, value):
        boxes = heat_maps.boxes(np.full((1, 3, 3), value), [0.2, 0.9], 6)
        np.testing.assert_allclose(boxes[0], [[0, 0, 1, 1]] * 2)

    def test_a_coarse_map_is_enlarged_about_pixel_centres(self):
        heat_map = np.zeros((1, 2, 2), np.float32)
        heat_map[0, :, 1] = 1.0
        # Halfway between the two cells' centres, at ½.
        np.testing.assert_allclose(heat_maps.boxes(heat_map, [0.5], 64)[0, 0], [0.5, 0, 1, 1])


def test_an_unknown_protocol_names_the_known_ones():
    with pytest.raises(ValueError, match="paper, full, wsoleval"):
        protocols.get("papers")


def test_score_maps_of_a_crop_are_refused():
    with pytest.raises(ValueError, match="'paper' sees only a crop"):
        wsoleval.check_frame(protocols.get("paper"))
