"""One file, one answer: of a prediction, an evaluation, a SavedModel and the client of a server."""

import cv2
import numpy as np
import pytest
import tensorflow as tf

from gc_net.datasets.folder import Folder
from gc_net.evaluation.evaluate import evaluate
from gc_net.export.saved_model import export_saved_model
from gc_net.prediction.prediction import Prediction
from gc_net.serving import Client
from tests.models import localizer_of
from tests.prediction.models import noise, varied_model
from tests.serving.servers import rest_server

RESIZE_SIZE = 40


@pytest.mark.parametrize("second_look", [0.0, 1.2])
@pytest.mark.parametrize("shape", ["rectangle", "rotated_ellipse"])
def test_four_ways_lead_to_the_same_box_and_class(shape, second_look, tmp_path):
    for number, name in enumerate("ab"):
        (tmp_path / "photos" / "test" / name).mkdir(parents=True)
        # As large as the model squashes images to, so that no two resizers differ.
        picture = noise(RESIZE_SIZE, RESIZE_SIZE, number + 1)[..., ::-1]
        cv2.imwrite(str(tmp_path / "photos" / "test" / name / "0.png"), picture)
        (tmp_path / "photos" / "train" / name).mkdir(parents=True)
        cv2.imwrite(str(tmp_path / "photos" / "train" / name / "1.png"), picture)
    (tmp_path / "photos" / "boxes.csv").write_text(
        "path,xmin,ymin,xmax,ymax\n" + "".join(f"test/{name}/0.png,4,5,30,32\n" for name in "ab")
    )
    dataset = Folder(tmp_path / "photos")
    model = varied_model(shape, num_classes=2)
    options = {"resize_size": RESIZE_SIZE, "second_look": second_look}
    localizer = localizer_of(model, dataset.class_names, **options)
    localizer.save(tmp_path / "model")
    files = [str(tmp_path / "photos" / file) for file in ("test/a/0.png", "test/b/0.png")]

    predicted = localizer.predict(files)
    boxes = np.array([prediction.box_xyxy for prediction in predicted])
    assert np.ptp(boxes, axis=0).max() > 1, "each image has a box of its own"

    evaluated = evaluate(localizer, dataset, methods=[])
    np.testing.assert_allclose(
        evaluated.boxes_in_images(evaluated.boxes_rel_xyxy), boxes, atol=1e-3
    )
    assert evaluated.top_classes[:, 0].tolist() == [each.class_id for each in predicted]
    confidences = [each.confidence for each in predicted]
    np.testing.assert_allclose(evaluated.confidence, confidences, atol=1e-4)

    # A close-up is resized in the graph by other code, within a grey level or two.
    tolerance = 0.03 if second_look else 1e-4
    folder, _ = export_saved_model(tmp_path / "model", tmp_path / "served")
    served = tf.saved_model.load(folder)
    contents = [open(file, "rb").read() for file in files]  # noqa: SIM115
    outputs = served.signatures["serve_bytes"](tf.constant(contents))
    outputs = {name: value.numpy() for name, value in outputs.items()}
    for row, expected in enumerate(predicted):
        found = {name: value[row] for name, value in outputs.items()}
        for name in ("shapes", "outline_kinds"):
            found[name] = found[name].decode()
        assert_same(Prediction.from_outputs(found), expected, tolerance)
    with rest_server("birds", served) as (address, _), Client(address, "birds") as client:
        for found, expected in zip(client.predict(files), predicted, strict=True):
            assert_same(found, expected, tolerance)


def assert_same(found, expected, tolerance):
    np.testing.assert_allclose(found.box_xyxy, expected.box_xyxy, atol=1e-3)
    np.testing.assert_allclose(found.polygon(), expected.polygon(), atol=1e-2)
    assert found.class_id == expected.class_id
    assert found.class_probability == pytest.approx(expected.class_probability, abs=tolerance)
    assert found.confidence == pytest.approx(expected.confidence, abs=tolerance)
