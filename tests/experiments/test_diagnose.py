"""Diagnosis: agreement tells a detector that looks from one that does not, and reads no box."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from gc_net import shapes
from gc_net.data.splits import DataError
from gc_net.detector import Detector
from gc_net.evaluation.agreement import verdict
from gc_net.experiments import diagnose
from tests.evaluation.models import CLASS_NAMES, SIZE, Blocks, tiny_model
from tests.models import localizer_of

RESIZE = 37


class Oracle:
    """Finds the bright block of `Blocks` by its pixels, or gives one answer for every image."""

    image_size = SIZE

    place, decode = Detector.place, Detector.decode
    windows, looks_twice = Detector.windows, Detector.looks_twice
    # Its outputs are coefficients already.
    parametrization = types.SimpleNamespace(decode=lambda raw, shape: raw, has_deviations=False)

    def __init__(self, looks):
        self.looks = looks
        self.shape = shapes.get("rectangle")

    def normalize(self, images):
        return images

    def from_normalized(self, images):
        def find(images):
            found = []
            for image in images.astype(np.float32):
                grey = np.abs(image - np.median(image, axis=(0, 1))).max(axis=-1) > 40
                inside = grey if self.looks and grey.any() else np.ones_like(grey)
                found.append(self.shape.fit(inside))
            return np.array(found, np.float32)

        outputs = tf.numpy_function(find, [images], tf.float32)
        outputs.set_shape([None, 4])
        return outputs


def measured(looks):
    return diagnose.agreement(Oracle(looks), Blocks().split("train"), RESIZE)


def test_a_detector_that_looks_agrees_with_itself_and_one_that_does_not_cannot():
    looking, blind = measured(True), measured(False)
    assert looking["agreement"] > 0.85
    assert blind["agreement"] < 0.75
    assert blind["agreement"] == pytest.approx(blind["constant"], abs=0.01)
    assert looking["num_images"] == 12
    assert looking["shuffled"] < looking["constant"] < looking["agreement"]
    assert "The shapes follow the images: " in verdict(looking)
    assert "The shapes hardly follow the images: " in verdict(blind)


def test_a_run_whose_boxes_were_no_better_than_a_centred_rectangle_is_told():
    said = verdict({"agreement": 0.697, "constant": 0.658})
    assert "hardly follow" in said and "Train longer" in said and "0.70" in said
    assert "agreed to 0.55" in verdict({"agreement": 0.9, "constant": 0.6, "committee": 0.55})


class TestLandscape:
    @pytest.fixture(scope="class")
    def losses(self):
        dataset = Blocks()
        keras.utils.set_random_seed(0)
        return diagnose.landscape(
            tiny_model().classifier, dataset.split("test"), dataset.truth("test"), RESIZE
        )

    def test_areas_are_those_of_the_boxes_and_of_the_image(self, losses):
        assert losses["whole image"]["area"] == 1.0
        exact = losses["exact boxes"]["area"]
        assert losses["boxes × 0.7"]["area"] == pytest.approx(0.49 * exact, rel=1e-5)
        assert losses["boxes, centred"]["area"] == pytest.approx(exact, rel=1e-6)

    def test_losses_are_within_their_bounds(self, losses):
        for terms in losses.values():
            assert terms["object"] > 0
            assert -np.log(len(CLASS_NAMES)) - 1e-5 <= terms["background"] <= 0

    def test_the_table_marks_the_lowest_total_of_each_alpha(self):
        losses = {
            "exact boxes": {"object": 1.0, "background": 0.0, "area": 0.2},
            "whole image": {"object": 0.0, "background": 0.0, "area": 1.0},
        }
        lines = diagnose.landscape_table(losses, alphas=(1.0, 2.0)).splitlines()
        exact, whole = lines[-2:]
        assert "1.20 " in exact and "1.40<" in exact
        assert "1.00<" in whole and "2.00" in whole and "2.00<" not in whole

    def test_images_with_several_boxes_or_none_are_not_used(self):
        dataset = Blocks(num_test=1, without_boxes=(0,))
        with pytest.raises(ValueError, match="exactly one box"):
            diagnose.landscape(
                tiny_model().classifier, dataset.split("test"), dataset.truth("test"), RESIZE
            )


def test_where_no_image_can_be_read_it_says_so(tmp_path):
    dataset = Blocks(num_test=4, bad=range(4))
    model = tiny_model()
    localizer_of(model, CLASS_NAMES, resize_size=RESIZE).save(tmp_path)
    expected = r"No image could be evaluated\. 4 unreadable images skipped:\n  test/0\.png: trunc"
    with pytest.raises(DataError, match=expected):
        diagnose.diagnose(tmp_path, dataset, split="test")
    with pytest.raises(DataError, match=expected):
        diagnose.landscape(model.classifier, dataset.split("test"), dataset.truth("test"), RESIZE)


def test_what_cannot_be_read_is_left_out_and_named_once(caplog):
    split = Blocks(num_test=4, bad=(1, 3)).split("test")
    found = diagnose.agreement(tiny_model().detector, split, RESIZE, batch_size=2)
    assert found["num_images"] == 2
    # TensorFlow may have a word on retracing, depending on what this process ran before.
    (record,) = (record for record in caplog.records if record.name.startswith("gc_net"))
    assert "2 unreadable images skipped:\n  test/1.png: truncated" in record.getMessage()


def test_without_the_landscape_no_box_is_read(tmp_path, monkeypatch, capsys):
    localizer_of(tiny_model(), CLASS_NAMES, resize_size=RESIZE).save(tmp_path)
    dataset = Blocks()
    monkeypatch.setattr(Blocks, "truth", lambda self, name: pytest.fail("boxes were read"))
    found = diagnose.diagnose(tmp_path, dataset)
    assert "No box was read" in capsys.readouterr().out
    assert 0 <= found["agreement"] <= 1 and "landscape" not in found


def test_the_landscape_says_that_it_reads_boxes(tmp_path, capsys):
    localizer_of(tiny_model(), CLASS_NAMES, resize_size=RESIZE).save(tmp_path)
    found = diagnose.diagnose(tmp_path, Blocks(), split="test", with_landscape=True)
    printed = capsys.readouterr().out
    assert "has read boxes" in printed and "exact boxes" in printed
    assert set(found["landscape"]) >= {"exact boxes", "whole image"}
