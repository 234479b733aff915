"""Metrics against brute force, hand-computed cases and properties they must have."""

import itertools

import numpy as np
import pytest

from gc_net import metrics


def iou_by_cells(a, b):
    """Count unit cells: an oracle for boxes with whole corners."""

    def cells(box):
        left, top, right, bottom = box
        return set(itertools.product(range(left, right), range(top, bottom)))

    union = cells(a) | cells(b)
    return len(cells(a) & cells(b)) / len(union) if union else 0.0


def random_boxes(rng, count, size=12):
    x, y = (np.sort(rng.integers(0, size, (count, 2)), axis=1) for _ in range(2))
    return np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)


class TestBoxIoU:
    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            pytest.param((0, 0, 2, 2), (0, 0, 2, 2), 1.0, id="same"),
            pytest.param((0, 0, 2, 2), (2, 0, 4, 2), 0.0, id="touching at an edge"),
            pytest.param((0, 0, 2, 2), (2, 2, 4, 4), 0.0, id="touching at a corner"),
            pytest.param((0, 0, 1, 1), (3, 3, 4, 4), 0.0, id="disjoint both ways"),
            pytest.param((0, 0, 4, 4), (1, 1, 3, 3), 4 / 16, id="nested"),
            pytest.param((0, 0, 2, 2), (1, 0, 3, 2), 2 / 6, id="half"),
            pytest.param((0, 0, 3, 1), (1, -1, 2, 2), 1 / 5, id="cross"),
            pytest.param((1, 1, 1, 1), (0, 0, 2, 2), 0.0, id="a point"),
            pytest.param((1, 1, 1, 1), (1, 1, 1, 1), 0.0, id="two points"),
            pytest.param((0, 1, 2, 1), (0, 1, 2, 1), 0.0, id="two lines"),
            pytest.param((2, 2, 0, 0), (0, 0, 2, 2), 0.0, id="inverted"),
            pytest.param((-1, -1, 1, 1), (0, 0, 1, 1), 1 / 4, id="beyond the frame"),
        ],
    )
    def test_gives_the_hand_computed_value_either_way_round(self, a, b, expected):
        assert metrics.box_iou(a, b) == pytest.approx(expected)
        assert metrics.box_iou(b, a) == pytest.approx(expected)

    def test_equals_counting_cells(self):
        rng = np.random.default_rng(1)
        a, b = random_boxes(rng, 300), random_boxes(rng, 300)
        expected = [iou_by_cells(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        np.testing.assert_allclose(metrics.box_iou(a, b), expected)
        assert 0 < np.mean(expected) < 1

    def test_with_a_pixel_counts_cells_up_to_and_including_the_last(self):
        rng = np.random.default_rng(2)
        a, b = random_boxes(rng, 100), random_boxes(rng, 100)
        grown = [np.add(box, (0, 0, 1, 1)).tolist() for box in (a, b)]
        expected = [iou_by_cells(*pair) for pair in zip(*grown, strict=True)]
        np.testing.assert_allclose(metrics.box_iou(a, b, pixel=1), expected)

    def test_does_not_change_when_axes_are_stretched(self):
        rng = np.random.default_rng(3)
        a, b = random_boxes(rng, 50), random_boxes(rng, 50)
        scale = np.array([3.5, 0.2, 3.5, 0.2])
        np.testing.assert_allclose(metrics.box_iou(a * scale, b * scale), metrics.box_iou(a, b))


class TestBestIoU:
    def test_takes_the_best_of_an_images_boxes_and_ignores_padding(self):
        boxes = np.array([[0, 0, 2, 2], [0, 0, 2, 2], [0, 0, 2, 2.0]])
        truth = np.array(
            [[[5, 5, 6, 6], [0, 0, 2, 1]], [[5, 5, 6, 6], [0, 0, 2, 2]], [[0] * 4] * 2]
        )
        result = metrics.best_iou(boxes, truth, [2, 1, 0])
        assert result[0] == pytest.approx(0.5)
        assert result[1] == 0.0  # the second is padding, however well it fits
        assert np.isnan(result[2])

    def test_with_candidates_equals_one_candidate_at_a_time(self):
        rng = np.random.default_rng(4)
        boxes = random_boxes(rng, 60).reshape(10, 6, 4)
        truth, count = random_boxes(rng, 30).reshape(10, 3, 4), rng.integers(0, 4, 10)
        expected = [metrics.best_iou(boxes[:, place], truth, count) for place in range(6)]
        np.testing.assert_array_equal(
            metrics.best_iou(boxes, truth, count), np.stack(expected, axis=1)
        )


class TestClasses:
    def test_top_k_orders_by_score_and_gives_ties_to_the_lower_class(self):
        classes, scores = metrics.top_k(np.array([[0.1, 0.4, 0.4, 0.0], [0.7, 0.1, 0.2, 0.0]]), 3)
        assert classes.tolist() == [[1, 2, 0], [0, 2, 1]]
        np.testing.assert_allclose(scores, [[0.4, 0.4, 0.1], [0.7, 0.2, 0.1]])

    def test_a_label_counts_up_to_the_rank_that_is_asked_for(self):
        scores = np.tile([0.05, 0.3, 0.1, 0.02, 0.25, 0.12, 0.16], (3, 1))
        labels = [1, 2, 0]  # first, fifth and sixth
        classes, _ = metrics.top_k(scores, 7)
        assert classes[0].tolist() == [1, 4, 6, 5, 2, 0, 3]
        for k, right in ((1, [1, 0, 0]), (4, [1, 0, 0]), (5, [1, 1, 0]), (6, [1, 1, 1])):
            assert metrics.in_top(classes, labels, k).tolist() == right
            assert metrics.in_top(metrics.top_k(scores, k)[0], labels, k).tolist() == right

    def test_fewer_classes_than_k_are_all_in_the_top(self):
        classes, _ = metrics.top_k(np.array([[0.1, 0.9]]), 5)
        assert metrics.in_top(classes, [0], 5).tolist() == [True]
        assert metrics.in_top(classes, [0], 1).tolist() == [False]


class TestMasks:
    def test_iou_counts_pixels(self):
        a, b = np.zeros((2, 4, 4), bool), np.zeros((2, 4, 4), bool)
        a[0, :2], b[0, 1:3] = True, True
        np.testing.assert_allclose(metrics.mask_iou(a, b), [4 / 12, 1.0])


class TestAngles:
    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            (0, 0, 0),
            (0, 180, 0),
            (89, -89, 2),
            (10, -30, 40),
            (0, 90, 90),
            (45, -45, 90),
            (-1, 1, 2),
        ],
    )
    def test_an_axis_has_no_direction(self, a, b, expected):
        error = metrics.angle_error(np.radians(a), np.radians(b))
        assert np.degrees(error) == pytest.approx(expected, abs=1e-9)


class TestBootstrap:
    def test_agrees_with_the_normal_interval_of_a_large_sample(self):
        values = np.random.default_rng(6).random(4000) < 0.3
        low, high = metrics.bootstrap_interval(values)
        half = 1.96 * np.sqrt(values.mean() * (1 - values.mean()) / len(values))
        assert low == pytest.approx(values.mean() - half, abs=0.003)
        assert high == pytest.approx(values.mean() + half, abs=0.003)

    def test_equals_resampling_in_a_loop(self):
        values = np.random.default_rng(7).random(30)
        draws = np.random.default_rng(0).integers(30, size=(1000, 30))
        expected = np.quantile([values[draw].mean() for draw in draws], [0.025, 0.975])
        np.testing.assert_allclose(metrics.bootstrap_interval(values), expected)

    def test_is_set_by_its_seed(self):
        values = np.random.default_rng(8).random((50, 3))
        first = metrics.bootstrap_interval(values, seed=1)
        np.testing.assert_array_equal(first, metrics.bootstrap_interval(values, seed=1))
        assert not np.array_equal(first, metrics.bootstrap_interval(values, seed=2))

    def test_leaves_out_what_is_unknown(self):
        values = np.array([[1.0, np.nan], [1.0, 5.0], [1.0, 5.0]])
        intervals = metrics.bootstrap_interval(values)
        np.testing.assert_allclose(intervals, [[1, 1], [5, 5]])

    def test_of_nothing_is_unknown(self):
        assert np.isnan(metrics.bootstrap_interval(np.zeros((0, 2)))).all()

    def test_parts_that_bound_the_memory_do_not_change_the_result(self, monkeypatch):
        values = np.random.default_rng(9).random((40, 2))
        whole = metrics.bootstrap_interval(values)
        monkeypatch.setattr(metrics, "_BOOTSTRAP_NUMBERS", 100)
        np.testing.assert_allclose(metrics.bootstrap_interval(values), whole)
