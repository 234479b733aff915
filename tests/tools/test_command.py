"""The command `gc-net`, and what all tools have in common."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import program
from tools.__main__ import NAMES, summary

ROOT = Path(__file__).parent.parent.parent


def run(*arguments, cwd=ROOT, **environment):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    variables = {name: value for name, value in variables.items() if value is not None}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


def test_every_tool_with_a_main_is_a_command():
    programs = {
        path.stem
        for path in (ROOT / "tools").glob("[a-z]*.py")
        if "def main" in path.read_text("utf-8")
    }
    assert programs == set(NAMES)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",)])
def test_alone_it_lists_the_commands_with_a_line_each(arguments):
    done = run("tools", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        assert re.search(rf"^  {name} +{re.escape(summary(name))}$", done.stdout, re.M)
        assert len(summary(name)) <= 82  # so that a line fits


@pytest.mark.parametrize("word", ["trian", "pedict", "--model=x", "nonsense"])
def test_an_unknown_command_is_refused_with_the_known_ones_close_ones_first(word):
    done = run("tools", word)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    known = re.search(r"Known commands: (.*)\. See", done.stderr)[1].split(", ")
    assert sorted(known) == sorted(NAMES)
    meant = {"trian": "train", "pedict": "predict"}.get(word)
    if meant:
        assert known[0] == meant and f"Did you mean {meant}?" in done.stderr


@pytest.mark.parametrize("name", ["train-generator", "train_generator"])
def test_a_command_takes_the_flags_of_its_tool(name):
    done = run("tools", name, "--help")
    assert done.returncode == 0
    assert done.stdout == run("tools.train_generator", "--help").stdout
    assert done.stdout == run("tools", "help", name).stdout


def test_the_version_is_told():
    assert re.fullmatch(r"gc-net \d+\.\d+.*\n", run("tools", "--version").stdout)


def test_the_help_of_train_opens_with_what_matters_and_groups_the_rest():
    done = run("tools.train", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    titles = re.findall(r"^(\w.*):$", done.stdout, re.M)
    assert titles[0] == "Most used" and len(titles) > 6
    first = done.stdout.partition("Most used:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  --(\w+)", first, re.M)
    assert names == ["flagfile", "data_dir", "work_dir", "budget", "detector_shape"]
    everything = re.findall(r"^  --(?:\[no\])?(\w+)", done.stdout, re.M)
    assert len(everything) == len(set(everything))
    classifier = done.stdout.partition("How the classifier is fine-tuned:\n")[2].partition("\n\n")[
        0
    ]
    assert (
        "  --classifier_recipe=fast|paper|none: " in classifier and "(default: fast)" in classifier
    )
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "my_photos"], "Unexpected argument: my_photos. Write --data_dir=my_photos."),
        (["compare"], "Give at least one run."),
        (["predict", "--fromat=voc"], "Unknown command line flag 'fromat'. Did you mean: format?"),
        (["evaluate"], "--model is missing. Folder of the model"),
        (["predict", "--images=x", "--output=y"], "--model is missing. Folder of the model"),
        (
            ["predict", "--model=x", "--images=a.jpg", "--output=y", "b.jpg", "c.jpg"],
            "quote patterns",
        ),
    ],
)
def test_a_wrong_call_is_answered_in_one_line_that_says_what_to_write(arguments, message):
    done = run("tools", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ") and message in line
    assert line.endswith(f"See python -m tools {arguments[0]} --help.")


# Their flags are those of a training.
TRAINING = {"train", "check", "train_generator", "sweep", "compare"}


@pytest.mark.parametrize("command", NAMES)
def test_every_command_takes_a_recipe_but_no_flag_by_hand_that_it_does_not_know(command):
    code = f"""
import importlib
from absl import flags
from tools import program
importlib.import_module("tools.{command}")
recipe = "--flagfile=recipes/photos.flags"
names = program.given_by_hand(program.without_foreign(["gc-net", recipe])[1:])
assert all(name in flags.FLAGS for name in names), names
assert ("warmup_teacher" in names) == {command in TRAINING}, names
by_hand = ["--warmup_teacher=a", "--nomirror", "--no_such_flag"]
words = program.without_foreign(["gc-net", recipe, *by_hand])
assert set(by_hand) <= set(words), words
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_failure_is_one_line_and_a_traceback_only_where_it_is_asked_for(tmp_path):
    done = run("tools.compare", str(tmp_path))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "no metrics.json" in done.stderr
    assert "Traceback" in run("tools.compare", str(tmp_path), "--verbosity=1").stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "out/labels"), "Choose another folder, or"),
        (OSError(30, "Read-only file system", "out/labels"), "Choose another folder, or"),
        (NotADirectoryError(20, "Not a directory", "out/labels"), "expected a folder"),
    ],
)
def test_an_output_that_cannot_be_written_is_told_in_words(error, message, capsys):
    with pytest.raises(SystemExit) as ended, program.ending_plainly():
        raise error
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith(f"Error: out/labels: {error.strerror}.") and message in told


TALKING = """
import logging
from absl import logging as absl_logging
from tools import program

@program.tool()
def main(_):
    absl_logging.info("of a library")
    logging.info("of a library")
    logging.getLogger("gc_net").info("of this package")
    absl_logging.warning("a warning")

program.run(main)
"""


def test_libraries_say_nothing_but_warnings_unless_asked_to():
    def written(*arguments):
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", TALKING, *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return [line.partition("] ")[2] for line in done.stderr.splitlines()]

    assert written() == ["of this package", "a warning"]
    assert written("--verbosity=0").count("of a library") == 2


WARNING = """
import warnings
from tools import program

@program.tool()
def main(_):
    warnings.warn("Look at it.")

program.run(main)
"""


def test_a_warning_is_one_line_without_the_code_that_said_it():
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WARNING]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stderr == "Warning: Look at it.\n"


QUIET = """
import os, tools
import tensorflow as tf
tf.config.list_physical_devices()
os.write(2, b"written later")
"""


def test_tensorflow_says_nothing_of_drivers_however_a_tool_is_started():
    def written(**environment):
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        if not environment:
            variables.pop("TF_CPP_MIN_LOG_LEVEL", None)
        command = [sys.executable, "-c", QUIET]
        return subprocess.run(command, env=variables, capture_output=True, check=True).stderr

    assert written() == b"written later"
    assert written(TF_CPP_MIN_LOG_LEVEL="0").endswith(b"written later")


def test_what_is_written_right_before_a_crash_is_not_lost(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import os\nos.write(2, b'Could not find cuda drivers\\nno AVX')\nos.abort()"
    )
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    variables.pop("TF_CPP_MIN_LOG_LEVEL", None)
    command = [sys.executable, "-c", "import tools, tensorflow"]
    ended = subprocess.run(command, env=variables, capture_output=True)
    assert ended.returncode != 0 and ended.stderr == b"no AVX"
