"""Readers of label files that are not gc_net's own: other tools, and their documented rules.

Other tools need packages that gc_net does without and that do not all agree with its own, so they
run in a Python of their own, which the environment variable GC_NET_READERS names, or in this one
where it has them.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).parent


def run_reader(script, package, *arguments):
    """Return what a script beside this file prints, or skip the test without its package."""
    if importlib.util.find_spec(package):
        python = sys.executable
    elif "GC_NET_READERS" in os.environ:
        python = os.environ["GC_NET_READERS"]
    else:
        pytest.skip(f"needs {package}: set GC_NET_READERS to a Python that has it")
    command = [python, str(HERE / script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        # Ultralytics writes its settings to the home folder otherwise.
        environment = {**os.environ, "YOLO_CONFIG_DIR": folder}
        process = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, timeout=300
        )
    assert process.returncode == 0, process.stderr
    # Packages may say something of their own before.
    return json.loads(process.stdout.splitlines()[-1])


def by_ultralytics(trees):
    """Return what Ultralytics reads of YOLO trees.

    Args:
        trees: [(`"detect"` or `"obb"`, path of its data.yaml)].

    Returns:
        For each of them, {split: {image: rows of numbers, the class first}}.
    """
    arguments = [f"{task}={data_yaml}" for task, data_yaml in trees]
    return [
        {split: _checked_rows(tree[split]) for split in ("train", "val")}
        for tree in run_reader("by_ultralytics.py", "ultralytics", *arguments)
    ]


def _checked_rows(entries):
    rows = {
        pathlib.Path(entry["image"]): [
            [class_id, *values]
            for class_id, values in zip(entry["classes"], entry["values"], strict=True)
        ]
        for entry in entries
    }
    # A training is given all of them.
    assert [entry["objects"] for entry in entries] == list(map(len, rows.values()))
    return rows


def by_rules_of_yolo(trees):
    """Return the same by the rules that Ultralytics documents."""
    found = []
    for task, data_yaml in trees:
        settings = {}
        for text in data_yaml.read_text("utf-8").splitlines():
            if not text.startswith(("#", " ", "names")):
                key, value = text.split(": ", 1)
                settings[key] = json.loads(value) if value.startswith('"') else value
        splits = {}
        for split in ("train", "val"):
            folder = pathlib.Path(settings["path"]) / settings[split]
            assert folder.is_absolute() and folder.is_dir()
            splits[split] = {image: _rows(image, task) for image in folder.rglob("*.*")}
        found.append(splits)
    return found


def _rows(image, task):
    # The last /images/ of the path becomes /labels/, and the suffix .txt.
    labels = "/labels/".join(str(image).rsplit("/images/", 1)).rsplit(".", 1)[0] + ".txt"
    text = pathlib.Path(labels).read_text("utf-8")
    rows = [list(map(float, line.split())) for line in text.splitlines()]
    for row in rows:
        assert len(row) == {"detect": 5, "obb": 9}[task]
        assert row[0] == int(row[0]) and all(0 <= value <= 1 for value in row[1:])
    return rows


YOLO_READERS = {"rules": by_rules_of_yolo, "ultralytics": by_ultralytics}
