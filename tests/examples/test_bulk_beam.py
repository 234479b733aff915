"""Bulk prediction on Beam's local runner; needs the extra `bulk`."""

import json

import pytest

beam = pytest.importorskip("apache_beam", reason="Apache Beam is not installed")

from examples import bulk_beam  # noqa: E402
from gc_net.export.saved_model import export_saved_model  # noqa: E402
from gc_net.prediction.predict_files import predict_files  # noqa: E402
from tests.models import localizer_of  # noqa: E402
from tests.prediction.models import CLASS_NAMES, encode, noise, varied_model  # noqa: E402

NUM_IMAGES = 23


@pytest.mark.parametrize("shape", ["rotated_ellipse", "rotated_rectangle"])
def test_results_are_those_of_tools_predict(tmp_path, shape):
    # Squashed to more than the networks see, as images are in training.
    localizer_of(varied_model(shape), CLASS_NAMES, resize_size=37).save(tmp_path / "model")
    version, _ = export_saved_model(tmp_path / "model", tmp_path / "exported", top_k=None)
    photos = tmp_path / "photos"
    for number in range(NUM_IMAGES):
        folder = photos / ("cats", "dogs/small")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        suffix = (".jpg", ".png", ".webp")[number % 3]
        image = noise(40 + 7 * number, 90 - 2 * number, number)
        (folder / f"Küken {number}{suffix}").write_bytes(encode(image, suffix))
    (photos / "cats" / "broken.jpg").write_bytes(b"no image")

    with beam.Pipeline() as pipeline:
        bulk_beam.predict(
            pipeline, version, f"{photos}/**", str(tmp_path / "part"), batch_size=5, num_shards=3
        )

    parts = sorted(tmp_path.glob("part-*-of-*.jsonl"))
    assert len(parts) == 3
    lines = [json.loads(line) for part in parts for line in part.read_text("utf-8").splitlines()]
    found = {line.pop("file").removeprefix(f"{photos}/"): line for line in lines}
    predict_files(tmp_path / "model", photos, tmp_path / "labels")
    with open(tmp_path / "labels" / "predictions.jsonl", encoding="utf-8") as file:
        expected = [json.loads(line) for line in list(file)[1:]]
    expected = {line.pop("file"): line for line in expected}
    assert len(expected) == NUM_IMAGES and found.keys() == expected.keys()
    for file, prediction in expected.items():
        assert_equal(found[file], prediction)
    (unreadable,) = tmp_path.glob("part-unreadable-*.txt")
    assert unreadable.read_text().startswith(f"{photos}/cats/broken.jpg\tnot a JPEG")


def test_a_model_that_looks_twice_is_refused(tmp_path):
    localizer_of(varied_model(), CLASS_NAMES, second_look=1.3).save(tmp_path / "model")
    version, _ = export_saved_model(tmp_path / "model", tmp_path / "exported")
    with pytest.raises(ValueError, match=r"looks at its shapes a second time.*--second_look=0"):
        bulk_beam.predict(beam.Pipeline(), version, "photos/**", str(tmp_path / "part"))


def assert_equal(found, expected):
    """Assert that two predictions are the same, up to the last digits of float32."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=2e-3)
    else:
        assert found == expected
