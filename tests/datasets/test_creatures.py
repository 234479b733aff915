"""The embedded dataset: what it promises of its images, boxes, masks and angles."""

import subprocess
import sys
import time

import cv2
import numpy as np
import pytest

from gc_net import datasets
from gc_net.data.splits import DataError
from gc_net.datasets.creatures import Creatures, anatomy, canvas, things
from gc_net.datasets.creatures.dataset import main_axis, tight_box
from gc_net.datasets.creatures.heads import HEADS
from gc_net.datasets.creatures.scenes import SCENES, paint_scene

COUNT = 60


@pytest.fixture(scope="module")
def creatures():
    return Creatures(seed=3, num_train=COUNT, num_test=COUNT)


@pytest.fixture(scope="module")
def masks(creatures):
    return [creatures.mask("test", index) for index in range(COUNT)]


def angle_between(first, second):
    """Return the angle between two lines, which have no direction: at most π/2."""
    return np.abs((first - second + np.pi / 2) % np.pi - np.pi / 2)


def test_an_image_depends_on_seed_split_and_index_alone(creatures):
    again = Creatures(seed=3, num_train=COUNT, num_test=COUNT)
    forward = [creatures.split("test").read(index) for index in range(8)]
    backward = [again.split("test").read(index) for index in reversed(range(8))]
    for one, other in zip(forward, reversed(backward), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_seed_gives_other_images(creatures):
    other = Creatures(seed=4, num_train=COUNT, num_test=COUNT)
    assert creatures.split("test").read(0).tobytes() != other.split("test").read(0).tobytes()


def test_no_image_occurs_twice_in_or_across_splits(creatures):
    images = [
        creatures.split(name).read(index).tobytes()
        for name in ("train", "test")
        for index in range(COUNT)
    ]
    assert len(set(images)) == 2 * COUNT


def test_a_larger_split_begins_with_the_smaller_one(creatures):
    larger = Creatures(seed=3, num_train=2 * COUNT + 3, num_test=1)
    np.testing.assert_array_equal(
        larger.split("train").labels[:COUNT], creatures.split("train").labels
    )
    for index in (0, 41, COUNT - 1):
        np.testing.assert_array_equal(
            larger.split("train").read(index), creatures.split("train").read(index)
        )


def test_images_are_rgb_bytes_of_the_size_asked_for(creatures):
    shapes = [creatures.split("train").read(index).shape for index in range(COUNT)]
    assert {max(shape) for shape in shapes} == {160}
    assert min(min(shape[:2]) for shape in shapes) >= 100
    wide = sum(shape[1] > shape[0] for shape in shapes)
    tall = sum(shape[1] < shape[0] for shape in shapes)
    assert wide > 5 and tall > 5 and COUNT - wide - tall > 5
    image = creatures.split("train").read(0)
    assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
    assert image.std() > 10


@pytest.mark.parametrize("image_size", [32, 96, 301])
def test_every_image_size_gives_a_creature_inside_the_image(image_size):
    dataset = Creatures(image_size=image_size, num_train=1, num_test=6)
    truth = dataset.truth("test")
    for index in range(6):
        height, width = dataset.split("test").read(index).shape[:2]
        assert max(height, width) == image_size
        assert truth.mask(index).shape == (height, width)
        left, top, right, bottom = truth.boxes_of(index)[0]
        assert 0 <= left < right <= width and 0 <= top < bottom <= height


@pytest.mark.parametrize("num_classes", [2, 7, 10])
def test_classes_are_balanced_and_named(num_classes):
    dataset = Creatures(num_classes=num_classes, num_train=70, num_test=35)
    for name in ("train", "test"):
        split = dataset.split(name)
        counts = np.bincount(split.labels, minlength=num_classes)
        assert len(counts) == num_classes and counts.max() - counts.min() <= 1
        assert split.class_names == tuple(HEADS)[:num_classes]
        assert split.labels.dtype == np.int32 and len(split) == len(split.files)
        assert len(set(split.files.tolist())) == len(split)
        for index in (0, 17, 34):
            assert split.file(index) == (
                f"{name}/{index:05d}-{split.class_names[split.labels[index]]}.png"
            )


def test_labels_are_in_no_simple_order(creatures):
    labels = creatures.split("train").labels
    assert np.any(labels != np.sort(labels))
    assert np.any(labels != np.arange(COUNT) % 10)


def test_boxes_are_tight_on_the_masks(creatures, masks):
    truth = creatures.truth("test")
    assert truth.boxes.dtype == np.float32
    np.testing.assert_array_equal(truth.starts, np.arange(COUNT + 1))
    for index, mask in enumerate(masks):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        expected = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        np.testing.assert_array_equal(truth.boxes_of(index), [expected])


def test_boxes_end_at_the_far_edge_of_the_last_pixel():
    mask = np.zeros((6, 8), bool)
    mask[2:4, 3:8] = True
    np.testing.assert_array_equal(tight_box(mask), [3, 2, 8, 4])


def test_the_mask_is_where_the_creature_is_drawn(creatures):
    """Against the same scene without the creature: inside, nearly every pixel changes."""
    for index in range(8):
        image = creatures.split("test").read(index).astype(int)
        rng = creatures._rng("test", index, 1)
        light = np.exp(1j * rng.uniform(-0.8, -0.2) * np.pi)
        empty = paint_scene(rng, *image.shape[:2], light).astype(int)
        changed = np.abs(image - empty).max(axis=-1)
        mask = creatures.mask("test", index)
        assert np.mean(changed[mask] > 3) > 0.95
        far = cv2.dilate(mask.astype(np.uint8), np.ones((61, 61))) == 0
        assert not changed[far].any()


@pytest.mark.parametrize("degrees", [-89, -60, -30, 0, 30, 60, 89, 90])
def test_the_main_axis_turns_clockwise_on_screen(degrees):
    mask = np.zeros((200, 200), np.uint8)
    cv2.ellipse(mask, (100, 100), (80, 30), degrees, 0, 360, 1, cv2.FILLED)
    angle = main_axis(mask)
    assert -np.pi / 2 < angle <= np.pi / 2
    assert angle_between(angle, np.deg2rad(degrees)) < np.deg2rad(0.5)


def test_a_vertical_axis_is_plus_half_pi():
    mask = np.zeros((9, 9), bool)
    mask[:, 4] = True
    assert main_axis(mask) == np.pi / 2


def test_angles_follow_the_body_and_the_tightest_rectangle(creatures, masks):
    angles = creatures.truth("test").angles
    assert angles.dtype == np.float32 and angles.shape == (COUNT,)
    assert np.ptp(angles) > 2.5, "all directions occur"
    rectangles = []
    for mask in masks:
        points = np.argwhere(mask)[:, ::-1].astype(np.float32)
        corners = cv2.boxPoints(cv2.minAreaRect(points))
        sides = np.diff(corners[:3], axis=0)
        longer = sides[np.argmax(np.hypot(*sides.T))]
        rectangles.append(np.arctan2(longer[1], longer[0]))
    difference = angle_between(angles, np.array(rectangles))
    assert np.median(difference) < np.deg2rad(9) and difference.max() < np.deg2rad(25)
    bodies = [np.angle(creatures._view("test", index).scale) for index in range(COUNT)]
    assert angle_between(angles, np.array(bodies)).max() < np.deg2rad(12)


def test_creatures_are_elongated_and_of_moderate_size(creatures, masks):
    boxes = creatures.truth("test").boxes
    for mask, (left, top, right, bottom) in zip(masks, boxes, strict=True):
        height, width = mask.shape
        assert 0.5 < max((right - left) / width, (bottom - top) / height) < 0.95
        sides = cv2.minAreaRect(np.argwhere(mask).astype(np.float32))[1]
        assert 1.6 < max(sides) / min(sides) < 4


def test_a_constant_box_is_a_poor_localizer(creatures, masks):
    sizes = np.array([mask.shape[::-1] for mask in masks])
    boxes = creatures.truth("test").boxes / np.tile(sizes, 2)
    best = 0.0
    for width in np.arange(0.3, 1.0, 0.1):
        for height in np.arange(0.3, 1.0, 0.1):
            low = np.maximum(boxes[:, :2], (0.5 - width / 2, 0.5 - height / 2))
            high = np.minimum(boxes[:, 2:], (0.5 + width / 2, 0.5 + height / 2))
            overlap = np.prod(np.maximum(high - low, 0), axis=1)
            areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
            best = max(best, np.mean(overlap / (areas + width * height - overlap) > 0.5))
    assert best < 0.6


def test_the_head_is_a_small_part_of_the_creature(creatures, masks):
    shares = []
    for index, mask in enumerate(masks):
        head = creatures.part_mask("test", index)
        assert head.any() and not np.any(head & ~mask)
        shares.append(head.sum() / mask.sum())
    assert max(shares) < 0.5 and np.mean(shares) < 0.3


@pytest.mark.parametrize("evidence, low, high", [(0.0, 0.0, 0.35), (1.0, 1.0, 1.0)])
def test_the_body_follows_the_class_as_often_as_the_evidence_says(monkeypatch, evidence, low, high):
    """The tail fin is the only place outside the head with exactly a class's colour."""
    monkeypatch.setattr(anatomy, "BODY_EVIDENCE", evidence)
    names, right = tuple(HEADS), 0
    for number in range(40):
        creature, _ = anatomy.grow(np.random.default_rng(number), number % 10, names)
        colour = HEADS[names[number % 10]].colour
        fins = [row for chunk in creature._colours[:-1] for row in chunk if tuple(row) == colour]
        right += bool(fins)
    assert low <= right / 40 <= high


@pytest.mark.parametrize("label", range(10))
def test_every_head_is_symmetric_and_points_forward(label):
    sketch = list(HEADS.values())[label].sketch()
    low, high = sketch.bounds()
    assert low.imag == pytest.approx(-high.imag, abs=1e-9)
    assert high.real > 0.9


def test_heads_have_clearly_different_colours():
    colours = np.array([head.colour for head in HEADS.values()], float)
    distances = np.linalg.norm(colours[:, None] - colours[None], axis=-1)
    assert distances[~np.eye(len(colours), dtype=bool)].min() > 50


def test_the_body_hints_at_the_class_all_along(monkeypatch):
    """Colours of the marking lie between the skin's and the class's, so they tell classes apart."""
    monkeypatch.setattr(anatomy, "BODY_EVIDENCE", 1.0)
    names = tuple(HEADS)
    means = []
    for label in range(10):
        grown = [anatomy.grow(np.random.default_rng(n), label, names)[0] for n in range(30)]
        # The last chunk is the head, the one before it the marking.
        means.append(np.mean([creature._colours[-2][0] for creature in grown], axis=0))
    colours = np.array([head.colour for head in HEADS.values()], float)
    for label, mean in enumerate(means):
        shift = mean - np.mean(means, axis=0)
        away = colours[label] - colours.mean(axis=0)
        assert shift @ away > 0.4 * (away @ away)


def test_things_have_no_colour_of_a_class():
    """Far less colourful than any head: what lies around may tempt the eye, not the classifier."""

    def chroma(colours):
        colours = np.asarray(colours, float)
        return colours.max(axis=-1) - colours.min(axis=-1)

    heads = chroma([head.colour for head in HEADS.values()])
    laid = {lay for scene in SCENES.values() for lay in scene.things}
    for lay in laid - {things.pads, things.sticks}:  # which are as the ground around them
        sketch = canvas.Sketch()
        for number in range(10):
            lay(sketch, np.random.default_rng(number), 1 + 1j)
        found = np.clip(np.concatenate(sketch._colours), 0, 255)
        assert chroma(found).mean() < 0.5 * heads.min()


def test_scenes_say_nothing_of_the_class():
    """The scene's random numbers come from a generator that has not seen the label."""
    dataset = Creatures(num_train=400, num_test=1)
    labels = dataset.split("train").labels
    scenes = [dataset._rng("train", index, 1) for index in range(400)]
    for rng in scenes:
        rng.uniform()  # the light comes first
    scenes = np.array([rng.integers(len(SCENES)) for rng in scenes])
    table = np.zeros((10, len(SCENES)))
    np.add.at(table, (labels, scenes), 1)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / 400
    chi_square = np.sum((table - expected) ** 2 / expected)
    assert chi_square < 67.99  # 0.1 % of a chi-square with 36 degrees of freedom lies above


def test_negative_indices_count_from_the_end_and_others_fail(creatures):
    split = creatures.split("test")
    np.testing.assert_array_equal(split.read(-1), split.read(COUNT - 1))
    with pytest.raises(IndexError):
        split.read(COUNT)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"num_classes": 1}, "num_classes must be from 2 to 10"),
        ({"num_classes": 11}, "Received: num_classes=11"),
        ({"num_train": 0}, "num_train must be an integer of at least 1"),
        ({"num_test": 2.5}, "Received: num_test=2.5"),
        ({"image_size": 8}, "image_size must be an integer of at least 32"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"data_dir": "photos"}, "use the dataset 'folder'"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(DataError, match=words):
        Creatures(**arguments)


@pytest.mark.parametrize("method", ["split", "truth"])
def test_unknown_splits_are_named(creatures, method):
    with pytest.raises(DataError, match=r"Unknown split 'val'.*train, test"):
        getattr(creatures, method)("val")


def test_it_is_the_registered_default_and_needs_no_tensorflow():
    program = (
        "import sys; from gc_net import datasets; "
        "dataset = datasets.get('creatures', data_dir=None, seed=0, num_train=2, num_test=2); "
        "dataset.split('train').read(0); dataset.truth('test'); "
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert next(iter(datasets.DATASETS)) == "creatures"


def test_drawing_is_fast(creatures):
    read = creatures.split("train").read
    read(0)
    times = []
    for index in range(30):
        start = time.perf_counter()
        read(index)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 0.03  # about 2 ms on an idle core; loose for busy machines


def test_a_fingerprint_tells_images_of_another_seed_and_a_part_apart():
    def images(seed):
        return Creatures(num_train=2, num_test=20, seed=seed).split("test")

    first, second = images(0), images(1)
    assert first.fingerprint() == images(0).fingerprint()
    assert first.fingerprint() != second.fingerprint()
    assert first.fingerprint([0, 1]) != first.fingerprint([0, 2])
    assert first.fingerprint([4, 9, 7]).startswith("3 images, ")
