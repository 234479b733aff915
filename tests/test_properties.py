"""Properties that hold for all shapes, boxes and label files, sought out by Hypothesis."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gc_net import metrics, parametrizations, shapes
from gc_net.datasets.annotations import read_boxes
from gc_net.parametrizations import PARAMETRIZATIONS
from gc_net.prediction import formats
from gc_net.prediction.prediction import ClassScore, Prediction
from gc_net.shapes.frame import principal_axes

# The same examples in every run; a failure here is one for everybody.
settings.register_profile(
    "gc_net",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("gc_net")

SHAPES = ("rectangle", "rotated_rectangle", "rotated_ellipse")
each_shape = pytest.mark.parametrize("name", SHAPES)


def reals(low, high):
    return st.floats(low, high, allow_nan=False)


def coefficients(name, low=1e-3):
    """Strategy of a batch of one to five shapes, as array [B, n]."""
    row = [reals(-0.5, 1.5), reals(-0.5, 1.5), reals(low, 1), reals(low, 1)]
    if shapes.get(name).rotates:
        row.append(reals(-1.57, 1.57))
    return st.lists(st.tuples(*row), min_size=1, max_size=5).map(
        lambda rows: np.array(rows, np.float32)
    )


# Shapes


each_parametrization = pytest.mark.parametrize("parametrization", PARAMETRIZATIONS.names)


@each_shape
@pytest.mark.parametrize("parametrization", ["seamless", "sigmoid"])
@given(data=st.data())
def test_encode_inverts_decode_and_keeps_within_the_range(name, parametrization, data):
    shape, parametrization = shapes.get(name), parametrizations.get(parametrization)
    raw = np.array(
        [data.draw(st.lists(reals(-4, 4), min_size=5, max_size=5))[: shape.num_coefficients]],
        np.float32,
    )
    decoded = np.asarray(parametrization.decode(raw, shape))
    assert np.all(decoded[:, :4] > 0) and np.all(decoded[:, :4] < 1)
    assert np.all(np.abs(decoded[:, 4:]) <= math.pi / 2 + 1e-6)
    # Off the circle by at most 0.2 %, see `seamless`.
    np.testing.assert_allclose(parametrization.encode(decoded, shape), raw, atol=1e-2)


@each_shape
@given(data=st.data())
def test_edges_are_found_again_in_what_they_are_decoded_to(name, data):
    shape, edges = shapes.get(name), parametrizations.get("edges")
    box = [data.draw(reals(0, 0.5)) for _ in range(2)]
    box += [start + data.draw(reals(0.02, 0.5)) for start in box]
    raw = np.array([[*box, data.draw(reals(-0.98, 0.98))]], np.float32)[:, : shape.num_coefficients]
    decoded = np.asarray(edges.decode(raw, shape))
    # Off the circle by at most 0.2 %, see `seamless`.
    encoded = np.asarray(edges.encode(decoded, shape))
    np.testing.assert_allclose(encoded[:, :-4], raw, atol=1e-2)
    assert not encoded[:, -4:].any()  # a shape that is given deviates by nothing


@each_shape
@each_parametrization
@given(data=st.data())
def test_any_outputs_give_finite_coefficients_boxes_and_masks(name, parametrization, data):
    shape, parametrization = shapes.get(name), parametrizations.get(parametrization)
    count = parametrization.num_outputs(shape)
    outputs = data.draw(st.lists(reals(-3e38, 3e38), min_size=count, max_size=count))
    decoded = parametrization.decode(np.array([outputs], np.float32), shape)
    for values in (decoded, shape.boxes(decoded), shape.masks(decoded, 5, 7)):
        assert np.isfinite(np.asarray(values)).all()


@each_shape
@given(data=st.data())
def test_the_box_holds_the_outline_and_touches_it_on_all_four_sides(name, data):
    shape = shapes.get(name)
    batch = data.draw(coefficients(name))
    boxes = np.asarray(shape.boxes(batch))
    outline = np.asarray(shape.outline(batch, 720))
    size = (boxes[:, 2:] - boxes[:, :2]).max()
    np.testing.assert_allclose(outline.min(axis=1), boxes[:, :2], atol=1e-4 * size + 1e-6)
    np.testing.assert_allclose(outline.max(axis=1), boxes[:, 2:], atol=1e-4 * size + 1e-6)


@each_shape
@given(data=st.data())
def test_the_level_set_is_zero_on_the_outline_and_changes_its_sign_there(name, data):
    shape = shapes.get(name)
    batch = data.draw(coefficients(name, low=0.05))
    center = batch[:, None, :2]
    outline = np.asarray(shape.outline(batch, 16))
    for factor, sign in ((0.9, -1), (1.1, 1)):
        points = center + factor * (outline - center)  # [B, P, 2]
        level = np.asarray(shape.level_set(batch, points[:, None, :, 0], points[:, None, :, 1]))
        assert np.all(np.sign(level) == sign)


@each_shape
@given(data=st.data())
def test_mirroring_twice_changes_nothing_and_once_mirrors_the_box(name, data):
    shape = shapes.get(name)
    batch = data.draw(coefficients(name))
    mirrored = shape.mirrored(batch)
    np.testing.assert_allclose(shape.mirrored(mirrored), batch, atol=1e-6)
    boxes, others = np.asarray(shape.boxes(batch)), np.asarray(shape.boxes(mirrored))
    np.testing.assert_allclose(others, np.stack(
        [1 - boxes[:, 2], boxes[:, 1], 1 - boxes[:, 0], boxes[:, 3]], axis=1
    ), atol=1e-5)  # fmt: skip


@given(batch=coefficients("rotated_ellipse", low=0.01), width=reals(1, 4000), height=reals(1, 4000))
def test_a_stretched_ellipse_keeps_its_area_in_proportion(batch, width, height):
    frame = shapes.get("rotated_ellipse").frame(batch).scaled(width, height)
    longer, shorter, angle = (np.asarray(value, np.float64) for value in principal_axes(frame))
    area = batch[:, 2].astype(np.float64) * batch[:, 3] * width * height
    assert np.all(longer >= shorter - 1e-3 * longer)
    # The shorter axis is a difference of two numbers as large as the longer one.
    np.testing.assert_allclose(longer * shorter, area, rtol=1e-2, atol=1e-5 * longer.max() ** 2)
    assert np.all((angle > -math.pi / 2 - 1e-6) & (angle <= math.pi / 2 + 1e-6))


# Metrics

boxes = st.tuples(*[reals(-100, 100)] * 4).map(
    lambda box: np.array([*np.minimum(box[:2], box[2:]), *np.maximum(box[:2], box[2:])], np.float64)
)
whole_boxes = st.tuples(*[st.integers(0, 12)] * 4).map(
    lambda box: (*np.minimum(box[:2], box[2:]), *np.maximum(box[:2], box[2:]))
)


@given(a=boxes, b=boxes, scale=reals(0.01, 100), shift=reals(-50, 50))
def test_iou_is_symmetric_bounded_and_the_same_at_any_place_and_scale(a, b, scale, shift):
    iou = metrics.box_iou(a, b)
    assert 0 <= iou <= 1
    assert iou == metrics.box_iou(b, a)
    assume(min((a[2:] - a[:2]).min(), (b[2:] - b[:2]).min()) > 1e-3)
    assert metrics.box_iou(a, a) == pytest.approx(1)
    assert metrics.box_iou(a * scale + shift, b * scale + shift) == pytest.approx(iou, abs=1e-6)


@given(a=whole_boxes, b=whole_boxes)
def test_iou_of_whole_boxes_is_counted_by_pixels(a, b):
    masks = np.zeros((2, 12, 12), bool)
    for mask, (x1, y1, x2, y2) in zip(masks, (a, b), strict=True):
        mask[y1:y2, x1:x2] = True
    union = np.count_nonzero(masks[0] | masks[1])
    expected = np.count_nonzero(masks[0] & masks[1]) / union if union else 0.0
    assert metrics.box_iou(a, b) == pytest.approx(expected)
    if union:
        assert metrics.mask_iou(*masks) == pytest.approx(expected)


@given(box=boxes, truth=st.lists(boxes, max_size=4), padding=boxes)
def test_the_best_of_several_true_boxes_counts_and_padding_does_not(box, truth, padding):
    padded = np.array([[*truth, padding, padding]]).reshape(1, len(truth) + 2, 4)
    best = metrics.best_iou(box[None], padded, [len(truth)])[0]
    if truth:
        assert best == max(metrics.box_iou(box, other) for other in truth)
    else:
        assert np.isnan(best)


@given(angles=st.tuples(reals(-10, 10), reals(-10, 10)), turns=st.integers(-3, 3))
def test_axes_have_no_direction(angles, turns):
    error = metrics.angle_error(*angles)
    assert 0 <= error <= math.pi / 2 + 1e-9
    assert metrics.angle_error(angles[0] + turns * math.pi, angles[1]) == pytest.approx(
        error, abs=1e-6
    )


@given(values=st.lists(reals(0, 1), min_size=1, max_size=30))
def test_the_bootstrap_interval_lies_within_the_values_around_their_mean(values):
    low, high = metrics.bootstrap_interval(np.array(values), num_resamples=200)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert low - 1e-9 <= np.mean(values) <= high + 1e-9


# Label formats

# Names of files and classes are nearly free on Linux: no NUL, and `/` only between folders.
characters = st.characters(codec="utf-8", exclude_characters="/\x00")
printable = st.characters(
    codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters="/"
)


def files_of(alphabet):
    # Hidden files are passed over when images and labels are looked for.
    names = st.text(alphabet, min_size=1, max_size=12).filter(lambda name: name[0] != ".")
    return st.lists(names, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + ".jpg")


class_names = st.lists(
    st.text(printable, min_size=1, max_size=9), min_size=1, max_size=4, unique=True
)


@st.composite
def results(draw):
    """Predictions of some files, and the names of the classes."""
    classes = draw(class_names)
    found = {}
    # Some formats refuse names with control characters, so half the time there are none.
    files = files_of(draw(st.sampled_from([printable, characters])))
    for file in draw(st.lists(files, min_size=1, max_size=3, unique=True)):
        height, width = draw(st.integers(2, 5000)), draw(st.integers(2, 5000))
        x1, y1 = draw(reals(0, width - 2)), draw(reals(0, height - 2))
        x2, y2 = draw(reals(x1 + 1, width)), draw(reals(y1 + 1, height))
        class_id = draw(st.integers(0, len(classes) - 1))
        found[file] = Prediction(
            size=(height, width),
            shape="rectangle",
            coefficients=(0.5, 0.5, 0.1, 0.1),
            box_xyxy=(x1, y1, x2, y2),
            corners=((x1, y1), (x2, y1), (x2, y2), (x1, y2)),
            ellipse=None,
            classes=(ClassScore(class_id, classes[class_id], draw(reals(0, 1))),),
        )
    return found, classes


@pytest.mark.parametrize("name", ["coco", "csv", "voc"])
@given(given_results=results())
def test_what_is_written_is_read_back_or_refused_beforehand(name, given_results, tmp_path_factory):
    found, classes = given_results
    label_format = formats.get(name)
    try:
        label_format.check(list(found))
    except ValueError:
        assume(False)
    folder = tmp_path_factory.mktemp(name)
    path = label_format.write(str(folder), found.items(), classes)
    records = {record.files[0]: record for record in read_boxes(path)}
    assert set(records) == set(found)
    for file, prediction in found.items():
        assert records[file].label == prediction.class_name
        tolerance = 1.01 if name == "voc" else 0.011
        np.testing.assert_allclose(records[file].box_xyxy, prediction.box_xyxy, atol=tolerance)


@given(given_results=results())
def test_yolo_lines_are_five_numbers_in_range_with_the_class_first(given_results, tmp_path_factory):
    found, classes = given_results
    label_format = formats.get("yolo")
    try:
        label_format.check(list(found))
    except ValueError:
        assume(False)
    folder = tmp_path_factory.mktemp("yolo")
    label_format.write(str(folder), found.items(), classes)
    for file, prediction in found.items():
        # Fewer than five of each class are all for training.
        text = (folder / "yolo" / "labels" / "train" / f"{file[:-4]}.txt").read_text()
        class_id, *numbers = text.split()
        assert int(class_id) == prediction.class_id
        assert len(numbers) == 4 and all(0 <= float(number) <= 1 for number in numbers)
    assert (folder / "yolo" / "classes.txt").read_text("utf-8").splitlines() == list(classes)
    text = (folder / "yolo" / "data.yaml").read_text("utf-8")
    lines = text.partition("names:\n")[2].splitlines()
    assert [json.loads(line.partition(": ")[2]) for line in lines] == list(classes)


@given(given_results=results())
def test_a_prediction_survives_json(given_results):
    for prediction in given_results[0].values():
        assert Prediction.from_json(json.loads(prediction.to_json())) == prediction
