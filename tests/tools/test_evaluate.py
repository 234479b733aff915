"""The command lines of evaluation."""

import json
import os
import subprocess
import sys

import pytest

from gc_net.datasets import get
from gc_net.training_record import TrainingRecord
from tests.evaluation.models import localizer_of, tiny_model
from tests.processes import run_tool


@pytest.mark.parametrize("tool", ["evaluate", "compare", "sweep"])
def test_help_needs_no_tensorflow(tool):
    code = f"import sys, tools.{tool}; print({{'tensorflow', 'keras'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr


def test_sweep_refuses_a_setting_that_is_varied_twice(tmp_path):
    flags = ["--vary=warmup_epochs=1", "--vary=detector_head=native", "--vary=warmup_epochs=2,3"]
    result = run_tool("sweep", *flags, f"--work_dir={tmp_path}", "--data_dir=nowhere")
    assert result.returncode == 1
    said = "--vary=warmup_epochs is given twice. Say --vary=warmup_epochs=1,2,3."
    assert said in result.stdout + result.stderr


@pytest.mark.slow
def test_evaluate_takes_the_dataset_from_the_model_and_compare_reads_what_it_wrote(tmp_path):
    data = {
        "dataset": "creatures",
        "data_dir": None,
        "dataset_options": "num_train=4,num_test=6,num_classes=2,image_size=64",
    }
    names = get("creatures", num_classes=2).class_names
    model_dir = tmp_path / "run" / "model"
    localizer_of(tiny_model(num_classes=2), names, record=TrainingRecord({"data": data})).save(
        model_dir
    )
    result = run_tool("evaluate", f"--model={model_dir}", "--methods=constant,ddt")
    assert result.returncode == 0, result.stderr
    assert "6 images of creatures (test), protocol paper" in result.stdout
    folder = tmp_path / "run" / "evaluation"
    assert {"metrics.json", "predictions.json", "report.html"} <= set(os.listdir(folder))
    assert json.loads((folder / "metrics.json").read_text())["num_images"] == 6
    result = run_tool("compare", str(tmp_path / "run"), "--methods")
    assert result.returncode == 0, result.stderr
    assert "| run |" in result.stdout and "| DDT |" in result.stdout
    # Measured otherwise, it must not take the place of what is there.
    otherwise = ["evaluate", f"--model={model_dir}", "--methods=", "--protocol=full"]
    result = run_tool(*otherwise)
    assert result.returncode == 2
    assert "protocol was 'paper', now 'full'" in result.stderr and "--output" in result.stderr
    result = run_tool(*otherwise, f"--output={folder}")
    assert result.returncode == 0, result.stderr
    assert json.loads((folder / "metrics.json").read_text())["protocol"] == "full"


@pytest.mark.slow
def test_evaluate_says_in_one_line_what_does_not_fit(tmp_path):
    localizer_of(tiny_model()).save(tmp_path / "model")
    result = run_tool(
        "evaluate", f"--model={tmp_path / 'model'}", "--dataset=creatures", "--limit=2"
    )
    assert result.returncode == 2
    assert "The model has 3 classes, the dataset 'creatures' has 10." in result.stderr
    assert "Traceback" not in result.stderr
