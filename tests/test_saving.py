"""Folders of models: what is written is read back, and so is what earlier versions wrote."""

import json

import numpy as np
import pytest

import gc_net
from gc_net.generators.learned import LearnedGenerator
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.saving import load_localizer, load_model, model_folder, save_model
from gc_net.training_record import TrainingRecord
from gc_net.weights import read_weights_npz, save_weights_npz
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, IMAGE_SIZE, noise, varied_model

NAMES = ("a,", 'b"', "ü")
RECORD = TrainingRecord(
    settings={"data": {"dataset": "cub"}, "seed": 1},
    loss_weights={"area": 2.0, "object": 1.0},
    environment={"python": "3.11"},
)


def second_classifier():
    return gc_net.Classifier("tiny", 3, IMAGE_SIZE + 8, weights=None)


@pytest.mark.parametrize("generator", [ModelGenerator, LearnedGenerator])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 2e-2)])
def test_all_of_a_localizer_is_read_back(generator, dtype, tolerance, tmp_path):
    model = varied_model()
    localizer = Localizer(
        model.detector,
        generator("rotated_ellipse", IMAGE_SIZE),
        model.classifier,
        NAMES,
        resize_size=37,
        second_look=1.3,
        second_classifier=second_classifier(),
        record=RECORD,
    )
    localizer.save(tmp_path, dtype=dtype)
    loaded = Localizer.load(tmp_path)
    for name in ("class_names", "resize_size", "second_look", "record"):
        assert getattr(loaded, name) == getattr(localizer, name)
    (found,), (expected,) = (each.predict(noise(40, 60)) for each in (loaded, localizer))
    np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=tolerance)
    assert found.confidence == pytest.approx(expected.confidence, abs=tolerance)


def as_before(folder, info, namer=True):
    """Turn a folder into what was written before there were localizers."""
    path = folder / "model.json"
    content = json.loads(path.read_text())
    parts = content.pop("localizer")
    del content["record"]
    detector = parts["detector"]["config"]
    shape = detector.pop("shape")
    del detector["parametrization"]
    detector["num_coefficients"] = 5 if shape.startswith("rotated") else 4
    config = {
        **{name: parts[name] for name in ("detector", "generator", "classifier")},
        **{"alpha": 2.5, "beta": 1.0, "gamma": 1.0, "frozen_mode": "inference", "name": "gc_net"},
        "look": parts["second_look"],
        "namer": parts.get("second_classifier"),
    }
    content["model"] = {
        "module": "gc_net.model",
        "class_name": "GCNet",
        "config": config,
        "registered_name": "gc_net>GCNet",
    }
    path.write_text(json.dumps({**content, "info": info}))
    arrays = read_weights_npz(folder / "weights.npz")
    renamed = {key.replace("second_classifier/", "namer/"): arrays[key] for key in arrays}
    save_weights_npz(folder / "weights.npz", renamed, dtype="float32")


@pytest.mark.parametrize("resize_size", [None, 37])
def test_a_folder_from_before_localizers_is_read(resize_size, tmp_path):
    model = varied_model()
    detector = gc_net.Detector(
        "tiny", "rotated_ellipse", IMAGE_SIZE, parametrization="sigmoid", weights=None
    )
    detector.set_weights(model.detector.get_weights())
    parts = detector, model.generator, model.classifier
    options = {"second_look": 1.3, "second_classifier": second_classifier()}
    localizer = Localizer(*parts, NAMES, resize_size=resize_size, **options)
    localizer.save(tmp_path)
    info = {"config": RECORD.settings, "environment": RECORD.environment}
    as_before(tmp_path, info | ({"resize_size": resize_size} if resize_size else {}))
    loaded = gc_net.load(tmp_path)
    assert loaded.detector.parametrization.name == "sigmoid"
    assert loaded.shape.name == "rotated_ellipse"
    # Without one, the networks see all of an image, in prediction and in evaluation alike.
    assert loaded.resize_size == (resize_size or IMAGE_SIZE)
    assert loaded.record.settings == RECORD.settings
    assert loaded.record.loss_weights == {"area": 2.5, "object": 1.0, "background": 1.0}
    assert loaded.predict(noise(40, 60)) == localizer.predict(noise(40, 60))


def test_a_network_of_a_stage_is_read_back_and_so_is_one_from_before_records(tmp_path):
    detector = gc_net.Detector("tiny", "rotated_ellipse", IMAGE_SIZE, weights=None)
    record = TrainingRecord({"detector": {"shape": "rotated_ellipse"}})
    save_model(tmp_path, detector, NAMES, record)
    assert load_model(tmp_path).record == record
    path = tmp_path / "model.json"
    content = json.loads(path.read_text())
    config = content["model"]["config"]
    del config["shape"], config["parametrization"], content["record"]
    config["num_coefficients"] = 5
    path.write_text(json.dumps({**content, "info": {"config": dict(record.settings)}}))
    loaded = load_model(tmp_path)
    assert (loaded.model.shape.name, loaded.model.parametrization.name) == (
        "rotated_ellipse",
        "sigmoid",
    )
    assert loaded.class_names == NAMES and loaded.record == record
    for one, other in zip(loaded.model.get_weights(), detector.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_folder_without_a_model_or_with_a_damaged_one_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"has no model\.json"):
        gc_net.load(tmp_path)
    damaged = (b"{", b"\xff\xfe{}", b'{"a":' * 100_000, b'{"a": ' + b"9" * 5_000 + b"}")
    for content in damaged:
        (tmp_path / "model.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.json' is damaged"):
            gc_net.load(tmp_path)
    for content in ("{}", "[]"):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(ValueError, match="does not describe a model"):
            gc_net.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"second_look": -1.0}, "`second_look` must be 0, for no second look"),
        ({"resize_size": 8}, "`resize_size` must be at least the image size, 32"),
        ({"resize_size": 0}, "`resize_size` must be a whole number from 1"),
        ({"resize_size": 10**12}, "`resize_size` must be a whole number from 1"),
        ({"resize_size": 33.5}, "`resize_size` must be a whole number from 1"),
        ({"classifier": None}, "the classifier is a NoneType"),
        ({"taste": 1}, "taste"),
    ],
)
def test_a_description_that_makes_no_sense_says_what_does_not(change, message, tmp_path):
    localizer_of(varied_model(), CLASS_NAMES).save(tmp_path)
    path = tmp_path / "model.json"
    content = json.loads(path.read_text())
    content["localizer"].update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"model\.json.*cannot be built: .*{message}"):
        load_localizer(tmp_path)


@pytest.mark.parametrize("names", ["abc", [1, 2, 3], ["a", "b", None], None])
def test_class_names_are_a_list_of_texts(names, tmp_path):
    localizer_of(varied_model(), CLASS_NAMES).save(tmp_path)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "class_names": names}))
    with pytest.raises(ValueError, match=r"model\.json.*`class_names` must be a list of texts"):
        load_localizer(tmp_path)


def test_a_grid_that_is_unknown_is_refused_when_the_generator_is_built(tmp_path):
    localizer_of(varied_model(), CLASS_NAMES).save(tmp_path)
    path = tmp_path / "model.json"
    content = json.loads(path.read_text())
    content["localizer"]["generator"]["config"]["grid"] = "hexagons"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"model\.json.*`grid` must be .centers. or"):
        load_localizer(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path):
    localizer_of(varied_model(), CLASS_NAMES).save(tmp_path)
    arrays = read_weights_npz(tmp_path / "weights.npz")
    save_weights_npz(tmp_path / "weights.npz", {**arrays, "judge/kernel": np.zeros(3)})
    with pytest.raises(ValueError, match="found judge/kernel"):
        gc_net.load(tmp_path)


def test_each_kind_of_folder_is_told_from_the_other(tmp_path):
    localizer_of(varied_model(), CLASS_NAMES).save(tmp_path)
    with pytest.raises(ValueError, match=r"describes a localizer.*gc_net\.load"):
        load_model(tmp_path)


def test_a_record_says_what_it_does_not_know():
    with pytest.raises(
        ValueError, match=r"settings, loss_weights, environment, stages. Received: seed"
    ):
        TrainingRecord.from_dict({"seed": 1})
    with pytest.raises(ValueError, match="`settings` of a model's record must be a dict"):
        TrainingRecord(settings=3)


def test_what_was_exported_is_no_model_to_load(tmp_path):
    """A .tflite file, a folder of some, a SavedModel, or the folder of its versions."""
    (tmp_path / "model_int8.tflite").write_bytes(b"")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "model_int8.tflite").write_bytes(b"")
    (tmp_path / "birds" / "1").mkdir(parents=True)
    (tmp_path / "birds" / "1" / "saved_model.pb").write_bytes(b"")
    for name, kind in (
        ("model_int8.tflite", "a file"),
        ("small", "an export"),
        ("birds", "an export"),
        ("birds/1", "an export"),
    ):
        with pytest.raises(ValueError, match=f"is {kind}\\. Expected the folder of a model"):
            load_localizer(model_folder(tmp_path / name))
