"""The notebook, cell by cell, with fewer images and epochs."""

import json
import pathlib

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "quickstart.ipynb"
FEWER = {
    "num_images = 1200": "num_images = 60",
    "classifier_epochs = 15": "classifier_epochs = 1",
    "detector_epochs = 25": "detector_epochs = 1",
    '"small", None, 64': '"tiny", None, 32',
}


@pytest.fixture(scope="module")
def cells():
    content = json.loads(NOTEBOOK.read_text("utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_it_goes_from_a_folder_to_drawn_boxes(cells, tmp_path, monkeypatch, capsys):
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    code = ["".join(cell["source"]) for cell in cells]
    for full, fewer in FEWER.items():
        assert sum(full in text for text in code) == 1
        code = [text.replace(full, fewer) for text in code]
    names = {}
    for number, text in enumerate(code, start=1):
        exec(compile(text, f"cell {number}", "exec"), names)
    folders = [path.name for path in (tmp_path / "my_photos").iterdir()]
    assert sorted(folders) == sorted(names["train"].class_names) and len(folders) == 4
    assert len(names["predictions"]) == 8
    assert capsys.readouterr().out.count("confidence") == 8
    drawn = [axis.get_images()[0].get_array() for axis in names["axes"].flat]
    for image, prediction in zip(drawn, names["predictions"], strict=True):
        assert image.shape[0] > 200 and len(prediction.box_xyxy) == 4
    assert (tmp_path / "quickstart_model" / "model.json").exists()


def test_it_is_short_and_kept_without_outputs(cells):
    assert len(cells) == 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
