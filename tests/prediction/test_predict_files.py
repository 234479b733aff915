import itertools
import json
import os
import subprocess
import sys

import cv2
import numpy as np
import pytest

from gc_net import localizer as localizer_module
from gc_net.data.decode import read_image
from gc_net.data.splits import DataError
from gc_net.datasets.annotations import read_boxes
from gc_net.datasets.folder import Folder
from gc_net.figures.drawing import BLUE, GAP
from gc_net.localizer import load
from gc_net.prediction import formats
from gc_net.prediction.find_images import find_images
from gc_net.prediction.log import PredictionLog
from gc_net.prediction.predict_files import predict_files
from gc_net.prediction.prediction import ClassScore, Prediction
from gc_net.prediction.previews import draw
from tests.models import localizer_of
from tests.prediction.models import CLASS_NAMES, noise, varied_model
from tests.processes import run_tool

NAMES = ("a.png", "b c/ä, x.png", "b c/d.jpg", "e.png", "z.jpg")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "model"
    localizer_of(varied_model(), CLASS_NAMES).save(folder)
    return folder


@pytest.fixture(scope="module")
def _loaded(model_dir):
    return load(model_dir)


@pytest.fixture(autouse=True)
def load_once(_loaded, monkeypatch):
    """Build the model once for all tests; counts the images that go through it."""
    counts = []
    first_look = type(_loaded).first_look

    def counting(self, images, *asked):
        counts.append(len(images))
        return first_look(self, images, *asked)

    monkeypatch.setattr(type(_loaded), "first_look", counting)
    monkeypatch.setattr(localizer_module, "load", lambda path, second_look=None: _loaded)
    return counts


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    for seed, name in enumerate(NAMES):
        write(root / name, noise(20 + 7 * seed, 60 - 9 * seed, seed))
    (root / "notes.txt").write_text("no image")
    return root


def write(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode(path.suffix, image[..., ::-1])[1].tobytes())


def logged(output):
    lines = (output / "predictions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["file"] for line in lines[1:]]


def test_a_folder_becomes_a_label_file_with_every_image(model_dir, photos, tmp_path, _loaded):
    output = tmp_path / "out"
    summary = predict_files(model_dir, photos, output, batch_size=2)
    assert (summary.num_images, summary.num_new, summary.num_labelled) == (5, 5, 5)
    records = {record.files[0]: record for record in read_boxes(summary.path)}
    assert set(records) == set(NAMES)
    predictions = _loaded.predict([photos / name for name in NAMES])
    for name, prediction in zip(NAMES, predictions, strict=True):
        assert records[name].box_xyxy == pytest.approx(prediction.visible_box_xyxy(), abs=0.02)
        assert records[name].label == prediction.class_name


def test_an_interrupted_run_goes_on_without_predicting_again(
    model_dir, photos, tmp_path, monkeypatch, load_once
):
    output = tmp_path / "out"
    append = PredictionLog.append
    calls = itertools.count()

    def interrupted(self, *result):
        if next(calls) == 3:
            # As if killed while writing: half of a line is left.
            with open(self.path, "ab") as file:
                file.write(b'{"file": "e.p')
            raise KeyboardInterrupt
        append(self, *result)

    monkeypatch.setattr(PredictionLog, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        predict_files(model_dir, photos, output, batch_size=1)
    assert not (output / "coco.json").exists()
    monkeypatch.setattr(PredictionLog, "append", append)
    load_once.clear()
    summary = predict_files(model_dir, photos, output, batch_size=1)
    assert sum(load_once) == 2
    assert (summary.num_new, summary.num_labelled) == (2, 5)
    whole = predict_files(model_dir, photos, tmp_path / "whole", batch_size=1)
    with open(summary.path) as first, open(whole.path) as second:
        assert first.read() == second.read()
    # A third run has nothing to do but to write another format.
    load_once.clear()
    assert predict_files(model_dir, photos, output, "csv").num_new == 0
    assert not load_once


def test_files_that_cannot_be_read_are_listed_and_tried_again(model_dir, photos, tmp_path):
    output = tmp_path / "out"
    good = (photos / "e.png").read_bytes()
    (photos / "e.png").write_bytes(good[: len(good) // 2])
    (photos / "loop.png").symlink_to("loop.png")
    summary = predict_files(model_dir, photos, output)
    assert [file for file, _ in summary.unreadable] == ["e.png", "loop.png"]
    assert (output / "unreadable.txt").read_text().startswith("e.png\t")
    assert "e.png" in summary.text() and "loop.png" in summary.text()
    assert summary.num_labelled == len(read_boxes(summary.path)) == 4
    (photos / "e.png").write_bytes(good)
    (photos / "loop.png").unlink()
    summary = predict_files(model_dir, photos, output)
    assert (summary.num_new, summary.unreadable) == (1, ())
    assert not (output / "unreadable.txt").exists()


@pytest.mark.parametrize("label_format", ["coco", "csv"])
def test_a_file_that_has_changed_is_predicted_again_and_once(
    model_dir, photos, tmp_path, load_once, label_format
):
    output = tmp_path / "out"
    predict_files(model_dir, photos, output, label_format, min_confidence=0.0, previews=None)
    write(photos / "e.png", noise(80, 120, 9))
    load_once.clear()
    again = predict_files(model_dir, photos, output, label_format, previews=None)
    assert sum(load_once) == again.num_new == 1
    assert (again.num_images, again.num_labelled) == (5, 5)
    whole = predict_files(model_dir, photos, tmp_path / "whole", label_format, previews=None)
    records, expected = (
        sorted((record.files[0], record.box_xyxy) for record in read_boxes(summary.path))
        for summary in (again, whole)
    )
    assert records == expected and len(records) == 5
    for file in ("e.png", "a.png"):
        preview = tmp_path / "whole" / "previews" / f"{file}.jpg"
        assert (output / "previews" / f"{file}.jpg").read_bytes() == preview.read_bytes()
    # Nor is it a third time.
    assert predict_files(model_dir, photos, output, label_format).num_new == 0
    assert logged(output).count("e.png") == 2


def test_a_file_that_can_no_longer_be_read_has_no_prediction(model_dir, photos, tmp_path):
    predict_files(model_dir, photos, tmp_path / "out")
    (photos / "e.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    summary = predict_files(model_dir, photos, tmp_path / "out")
    assert [file for file, _ in summary.unreadable] == ["e.png"]
    records = read_boxes(summary.path)
    assert {record.files[0] for record in records} == set(NAMES) - {"e.png"}
    assert summary.num_labelled == len(records) == 4


def test_a_log_that_does_not_say_how_large_files_were_is_gone_on_with(model_dir, photos, tmp_path):
    output = tmp_path / "out"
    predict_files(model_dir, photos, output)
    path = output / "predictions.jsonl"
    header, *lines = path.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["file"]: record.pop("bytes") for record in records} == {
        name: (photos / name).stat().st_size for name in NAMES
    }
    older = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("\n".join([header, *older]) + "\n", "utf-8")
    write(photos / "e.png", noise(80, 120, 9))
    summary = predict_files(model_dir, photos, output)
    assert (summary.num_new, summary.num_labelled) == (0, 5)


def test_doubtful_images_go_to_the_review_list_instead(model_dir, photos, tmp_path, _loaded):
    confidences = {
        name: prediction.confidence
        for name, prediction in zip(
            NAMES, _loaded.predict([photos / name for name in NAMES]), strict=True
        )
    }
    threshold = float(np.median(list(confidences.values())))
    sure = {name for name in NAMES if confidences[name] >= threshold}
    summary = predict_files(
        model_dir, photos, tmp_path / "out", "yolo", min_confidence=threshold - 1e-6
    )
    assert (summary.num_labelled, summary.num_review) == (3, 2)
    folder = tmp_path / "out" / "yolo" / "labels" / "train"
    labels = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.txt")}
    assert labels == {os.path.splitext(name)[0] for name in sure}
    review = [record.files[0] for record in read_boxes(str(tmp_path / "out" / "review.csv"))]
    # The most doubtful first.
    assert review == sorted(set(NAMES) - sure, key=confidences.get)
    # Without the threshold none is doubtful, and nothing of the list stays behind.
    assert predict_files(model_dir, photos, tmp_path / "out", "yolo").num_review == 0
    assert not (tmp_path / "out" / "review.csv").exists()


def test_as_many_previews_are_drawn_as_are_asked_for(model_dir, photos, tmp_path):
    summary = predict_files(model_dir, photos, tmp_path / "out", previews=2)
    assert f"Previews are in {tmp_path / 'out' / 'previews'}." in summary.text()
    drawn = sorted(path for path in (tmp_path / "out" / "previews").rglob("*") if path.is_file())
    assert len(drawn) == 2
    assert read_image(drawn[0]).shape[1] == 224 + 2 * GAP
    predict_files(model_dir, photos, tmp_path / "out", previews=None)
    drawn = [path for path in (tmp_path / "out" / "previews").rglob("*") if path.is_file()]
    assert len(drawn) == 5


def test_previews_take_the_classes_in_turn_or_the_most_doubtful(model_dir, tmp_path, _loaded):
    images = [noise(30, 40, seed) for seed in range(24)]
    for seed, image in enumerate(images):
        write(tmp_path / "photos" / f"{seed:02}.png", image)
    found = _loaded.predict(images)
    classes = {prediction.class_id for prediction in found}
    assert len(classes) > 1

    def drawn(which):
        predict_files(
            model_dir,
            tmp_path / "photos",
            tmp_path / "out",
            previews=len(classes),
            previews_of=which,
        )
        return {int(path.name[:2]) for path in (tmp_path / "out" / "previews").iterdir()}

    assert {found[place].class_id for place in drawn("classes")} == classes
    order = np.argsort([prediction.confidence for prediction in found])
    assert drawn("doubtful") == set(order[: len(classes)].tolist())


def test_classes_that_are_known_by_their_folders_are_kept(model_dir, tmp_path, _loaded):
    images = [noise(30, 40, seed) for seed in range(6)]
    free = _loaded.predict(images, evidence=True)
    for seed, image in enumerate(images):
        name = CLASS_NAMES[(free[seed].class_id + 1) % 3]  # never the one it would have taken
        write(tmp_path / "photos" / name / "deeper" / f"{seed}.png", image)
    options = {"labels": "folders", "evidence": True}
    summary = predict_files(model_dir, tmp_path / "photos", tmp_path / "out", "csv", **options)
    records = {os.path.basename(each.files[0]): each for each in read_boxes(summary.path)}
    with PredictionLog(tmp_path / "out", {}) as log:
        kept = {os.path.basename(file): prediction for file, prediction in log}
    for seed, prediction in enumerate(free):
        known = kept[f"{seed}.png"]
        probability = {score.id: score.probability for score in prediction.classes}
        assert known.class_id == (prediction.class_id + 1) % 3
        assert known.class_probability == pytest.approx(probability[known.class_id], abs=1e-4)
        assert known.box_xyxy == pytest.approx(prediction.box_xyxy, abs=1e-3)
        assert known.object_probability != pytest.approx(prediction.object_probability)
        assert records[f"{seed}.png"].label == known.class_name
    with pytest.raises(ValueError, match="labels was 'folders', now None"):
        predict_files(model_dir, tmp_path / "photos", tmp_path / "out", evidence=True)


def test_a_folder_that_is_no_class_is_an_error_before_anything_is_written(model_dir, tmp_path):
    write(tmp_path / "photos" / CLASS_NAMES[0] / "1.png", noise(9, 9))
    write(tmp_path / "photos" / "wasp" / "2.png", noise(9, 9))
    with pytest.raises(DataError, match=r"'wasp' \(wasp/2.png\).*It knows 'ant, red'"):
        predict_files(model_dir, tmp_path / "photos", tmp_path / "out", labels="folders")
    assert not (tmp_path / "out").exists()
    # A folder of one class alone is that class.
    alone = tmp_path / "photos" / CLASS_NAMES[0]
    assert predict_files(model_dir, alone, tmp_path / "out", labels="folders").num_new == 1


def test_a_preview_shows_the_box_where_it_lies():
    corners = ((100.0, 60.0), (300.0, 60.0), (300.0, 160.0), (100.0, 160.0))
    prediction = Prediction(
        (200, 400), "rectangle", (), (100.0, 60.0, 300.0, 160.0), corners, None,
        (ClassScore(0, "a", 0.5),),
    )  # fmt: skip
    # An image that was decoded at half its size is drawn on all the same.
    for scale in (1, 2):
        picture = draw(np.zeros((200 // scale, 400 // scale, 3), np.uint8), prediction)
        pixels = 400 / (picture.shape[1] - 2 * GAP)  # of the image, a pixel of the preview
        picture = picture[GAP:, GAP:]
        blue = np.argwhere((picture == BLUE).all(axis=-1))  # rows of (y, x)
        assert blue.min(axis=0) * pixels == pytest.approx((60, 100), abs=6)
        assert blue.max(axis=0) * pixels == pytest.approx((160, 300), abs=6)


@pytest.mark.parametrize("label_format", ["coco", "voc", "csv"])
def test_label_files_are_true_boxes_of_a_folder_once_their_classes_are(label_format, tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("train/cat/0", "train/dog/0", "val/cat/1", "val/dog/2"):
        write(tmp_path / "data" / f"{name}.png", noise(100, 200, len(name)))
    corners = ((10.0, 20.0), (60.0, 20.0), (60.0, 80.0), (10.0, 80.0))

    def truth(**class_of):
        results = [
            (
                f"val/{folder}/{number}.png",
                Prediction(
                    (100, 200), "rectangle", (), (10.0, 20.0, 60.0, 80.0), corners, None,
                    (ClassScore(("cat", "dog").index(class_of[folder]), class_of[folder], 0.9),),
                ),
            )
            for folder, number in (("cat", 1), ("dog", 2))
        ]  # fmt: skip
        path = formats.get(label_format).write(str(tmp_path / "out"), results, ("cat", "dog"))
        return Folder(tmp_path / "data", boxes=path).truth("test")

    assert truth(cat="cat", dog="dog").boxes.tolist() == [[10, 20, 60, 80]] * 2
    with pytest.raises(
        DataError, match=r"the label 'cat' of '.*2.png'.*folder, 'dog'\. Correct the"
    ):
        truth(cat="cat", dog="cat")


def test_images_are_found_by_pattern_list_and_name(photos, tmp_path):
    folder = str(photos)
    assert find_images(folder) == (folder, ["a.png", "e.png", "z.jpg", "b c/d.jpg", "b c/ä, x.png"])
    assert find_images(f"{folder}/**/*.jpg") == (folder, ["b c/d.jpg", "z.jpg"])
    assert find_images(f"{folder}/*")[1] == ["a.png", "e.png", "z.jpg"]  # no notes.txt
    assert find_images(photos / "b c" / "d.jpg") == (f"{folder}/b c", ["d.jpg"])
    listing = photos / "list.txt"
    listing.write_text("z.jpg\n\nb c/ä, x.png\nz.jpg\n", "utf-8")
    assert find_images(listing) == (folder, ["z.jpg", "b c/ä, x.png"])


def test_a_bracket_is_one_where_it_is_no_pattern(tmp_path):
    for name in ("photos [2024]/a.png", "one/1.png", "one/2.png"):
        write(tmp_path / name, noise(20, 30))
    assert find_images(tmp_path / "photos [2024]" / "*.png")[1] == ["a.png"]
    assert find_images(tmp_path / "one" / "[12].png")[1] == ["1.png", "2.png"]


@pytest.mark.parametrize("images", ["missing", "*.gif", "empty", "empty.txt"])
def test_no_images_at_all_are_an_error_that_says_so(images, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match=images.replace("*", r"\*")):
        find_images(tmp_path / images)


def test_a_log_of_another_model_or_another_folder_is_refused(model_dir, photos, tmp_path):
    predict_files(model_dir, photos, tmp_path / "out")
    localizer_of(varied_model(seed=1), CLASS_NAMES).save(tmp_path / "other")
    with pytest.raises(ValueError, match="model was"):
        predict_files(tmp_path / "other", photos, tmp_path / "out")
    with pytest.raises(ValueError, match="images was"):
        predict_files(model_dir, photos / "b c", tmp_path / "out")
    with pytest.raises(ValueError, match="confidence was 'expected IoU', now False"):
        predict_files(model_dir, photos, tmp_path / "out", confidence=False)


def test_a_folder_with_other_things_in_it_is_left_alone(model_dir, photos):
    (photos / "labels").mkdir()
    (photos / "labels" / "mine.txt").write_text("by hand")
    with pytest.raises(ValueError, match="not empty"):
        predict_files(model_dir, photos, photos / "labels", "yolo")
    with pytest.raises(DataError, match="All 5 images lie in the output folder"):
        predict_files(model_dir, photos, photos, "yolo")
    assert (photos / "labels" / "mine.txt").read_text() == "by hand"
    assert os.listdir(photos / "labels") == ["mine.txt"]


@pytest.mark.parametrize("linked", [None, "output", "images"])
@pytest.mark.parametrize("pattern", ["", "/**/*.*"])
def test_an_output_folder_among_the_images_is_not_predicted_on(
    model_dir, photos, tmp_path, load_once, linked, pattern
):
    (tmp_path / "link").symlink_to(photos)
    images = f"{tmp_path / 'link' if linked == 'images' else photos}{pattern}"
    output = (tmp_path / "link" if linked == "output" else photos) / "out"
    first = predict_files(model_dir, images, output, "csv", previews=None)
    assert len(list((photos / "out" / "previews").rglob("*.jpg"))) == 5
    load_once.clear()
    second = predict_files(model_dir, images, output, "csv", previews=None)
    assert (second.num_images, second.num_new, second.unreadable) == (5, 0, ())
    assert not load_once
    assert {record.files[0] for record in read_boxes(second.path)} == set(NAMES)
    assert first.num_new == 5


def test_what_a_folder_of_images_holds_and_is_not_read_is_named(model_dir, photos, tmp_path):
    (photos / "x.PSD").write_text("x")
    (photos / "again").symlink_to(photos / "b c")
    with pytest.warns(UserWarning, match=r"again = b c; .*convert to JPEG or PNG first: 1 \.psd"):
        summary = predict_files(model_dir, photos, tmp_path / "out", "csv")
    assert (summary.num_images, summary.unreadable) == (5, ())


def test_images_whose_names_are_not_utf8_count_as_unreadable(model_dir, photos, tmp_path):
    try:
        for name in (b"caf\xe9.png", b"caf\xe9.txt"):
            with open(os.path.join(os.fsencode(photos), name), "wb") as file:
                file.write((photos / "a.png").read_bytes())
        os.mkdir(os.path.join(os.fsencode(photos), b"\xe9t\xe9"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.warns(UserWarning, match="names that are not UTF-8"):
        summary = predict_files(model_dir, photos, tmp_path / "out", "csv")
    assert (summary.num_images, summary.num_labelled) == (7, 5)
    listed = (tmp_path / "out" / "unreadable.txt").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in listed] == [r"\udce9t\udce9", r"caf\udce9.png"]
    assert all("not UTF-8" in line for line in listed)


HOLD = """
import sys
from gc_net.prediction.log import PredictionLog
with PredictionLog(sys.argv[1], {}) as log:
    print("at work", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that writes predictions to `out` and does not come to an end."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"at work\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_until_the_first_is_gone(holder, tmp_path):
    path = tmp_path / "out" / "predictions.jsonl"
    with open(path, "ab") as file:
        file.write(b'{"file": "a.png"}\n{"file": "b')
    written = path.read_bytes()
    with pytest.raises(ValueError, match=r"out is in use: another process.*Wait.*another output"):
        PredictionLog(tmp_path / "out", {})
    # The last line is one that the first process is at work on, not a remnant to cut off.
    assert path.read_bytes() == written
    # Nor is a file that it has not finished.
    unfinished = tmp_path / "out" / f"boxes.json.{holder.pid}.partial"
    unfinished.write_text("[")
    with pytest.raises(ValueError, match="in use"):
        PredictionLog(tmp_path / "out", {})
    assert unfinished.exists()
    holder.kill()
    holder.wait()
    with PredictionLog(tmp_path / "out", {}) as log:
        assert log.files() == {"a.png": None}
    assert not unfinished.exists()


def test_a_refused_log_leaves_the_folder_free(tmp_path):
    with PredictionLog(tmp_path, {"model": "a"}):
        pass
    with pytest.raises(ValueError, match="model was 'a', now 'b'") as refused:
        PredictionLog(tmp_path, {"model": "b"})
    with PredictionLog(tmp_path, {"model": "a"}) as log:
        assert log.files() == {}
    del refused  # until here its traceback kept the refused log alive


def test_the_tool_refuses_a_folder_in_use_and_changes_nothing(holder, model_dir, photos, tmp_path):
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    flags = [f"--model={model_dir}", f"--images={photos}", f"--output={tmp_path}/out"]
    ended = run_tool("predict", *flags)
    assert ended.returncode == 2
    assert f"{tmp_path}/out is in use" in ended.stderr and "Traceback" not in ended.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_names_that_the_format_cannot_tell_apart_are_refused_before_any_work(
    model_dir, photos, tmp_path, load_once
):
    write(photos / "a.jpg", noise(9, 9))
    with pytest.raises(ValueError, match="share one label file"):
        predict_files(model_dir, photos, tmp_path / "out", "voc")
    assert not load_once


def test_the_tool_writes_files_and_its_exit_status_tells_of_unreadable_images(
    model_dir, photos, tmp_path
):
    (photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    command = ["predict", f"--model={model_dir.parent}", f"--output={tmp_path}/out", "--format=csv"]
    ended = run_tool(*command, f"--images={photos}/**/*.png")
    assert ended.returncode == 3, ended.stderr
    assert "broken.png" in ended.stdout
    assert len(read_boxes(str(tmp_path / "out" / "predictions.csv"))) == 3
    ended = run_tool(*command, f"--images={tmp_path}/none")
    assert ended.returncode == 2
    assert f"{tmp_path}/none" in ended.stderr and "Traceback" not in ended.stderr
    mistyped = run_tool(*command, f"--images={photos}", "--fromat=csv")
    assert mistyped.returncode == 1


def test_a_folder_without_a_model_is_an_error_that_says_so(photos, tmp_path):
    with pytest.raises(ValueError, match="No model in"):
        predict_files(tmp_path / "none", photos, tmp_path / "out")
