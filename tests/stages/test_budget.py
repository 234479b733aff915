"""A budget picks image size and steps; no training is needed to see which, only a speed."""

import json

import pytest

from gc_net.settings import read_duration
from gc_net.stages import STAGES, budget, run_folder, runner
from gc_net.stages.budget import Budget, Images, pick, seconds_of
from gc_net.stages.classifier import ClassifierConfig
from gc_net.stages.config import DataConfig, TrainConfig, with_flags
from gc_net.stages.detector import DetectorConfig
from gc_net.stages.run_folder import RunError
from gc_net.stages.warmup import WarmupConfig
from gc_net.training import estimate
from gc_net.training.estimate import Speed
from tests.training.samples import FLAGS, run_tool, small_config, small_options

IMAGES = Images(train=280, test=70)
SPEED = Speed(pass_seconds=0.02, call_seconds=0.03, start_seconds=2.0, image_size=224)


def photos(**data):
    """As recipes/photos.flags."""
    return TrainConfig(
        data=DataConfig(image_size=224, **data),
        classifier=ClassifierConfig(epochs=8, min_steps=300),
        warmup=WarmupConfig(
            epochs=3,
            min_steps=300,
            max_steps=750,
            batch_size=48,
            train_from="head",
            teacher="committee",
        ),
        detector=DetectorConfig(epochs=0, head="edges", shape="rectangle"),
    )


def picked(text, fixed=(), config=None, speed=SPEED):
    config = config or photos()
    return pick(config, Budget(text, frozenset(fixed)), units_of(config), IMAGES, speed)


def units_of(config):
    return [unit for name in STAGES for unit in STAGES.get(name).units(config)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1.5H", 5400)]
)
def test_times_have_a_unit(text, seconds):
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["15", "0m", "-1h", "15 minutes", "1e3s", "nanh", ""])
def test_what_is_no_time_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"e\.g\. 90s, 15m or 2h"):
        Budget(text)


def test_a_training_that_fits_is_left_as_it_is():
    found = picked("10h")
    assert not found.flags
    assert found.seconds == found.whole_seconds


def test_steps_are_cut_before_images():
    whole = picked("10h").whole_seconds
    flags = picked(f"{0.8 * whole}s").flags
    assert "image_size" not in flags
    assert 150 <= flags["classifier_steps"] < 300
    assert flags["classifier_steps"] == flags["warmup_steps"]


def test_less_time_never_means_a_longer_training():
    whole = picked("10h").whole_seconds
    parts = [0.95, 0.8, 0.6, 0.5]
    for part in parts:
        found = picked(f"{part * whole}s")
        assert found.seconds <= part * whole
        # Nor one that leaves most of the time unused.
        assert found.seconds > 0.8 * part * whole
    sizes = [picked(f"{part * whole}s").flags.get("image_size", 224) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 224


def test_a_machine_of_twice_the_speed_trains_longer():
    whole = picked("10h").whole_seconds
    fast = SPEED._replace(pass_seconds=0.01, call_seconds=0.015, start_seconds=1.0)
    assert picked(f"{0.6 * whole}s").flags
    assert not picked(f"{0.6 * whole}s", speed=fast).flags


def test_what_was_given_by_hand_stays():
    text = f"{0.75 * picked('10h').whole_seconds}s"
    assert "image_size" not in picked(text, fixed=["image_size"]).flags
    flags = picked(text, fixed=["classifier_epochs"]).flags
    assert "classifier_steps" not in flags
    assert flags["image_size"] < 224


def test_the_part_of_an_image_that_is_seen_stays_the_same():
    config = photos(resize_size=224)
    text = f"{0.5 * picked('10h', config=config).whole_seconds}s"
    flags = picked(text, config=config).flags
    assert flags["resize_size"] == flags["image_size"] < 224


def test_too_short_a_budget_is_refused_with_one_that_is_not():
    with pytest.raises(
        RunError, match=r"budget of 10s is too short.*images of 128 pixels"
    ) as error:
        picked("10s")
    least = str(error.value).partition("--budget=")[2].split()[0]
    flags = picked(least).flags
    assert flags["image_size"] == 128
    assert flags["classifier_steps"] >= 100


def test_a_classifier_that_is_taken_as_it_is_costs_no_steps():
    config = photos()
    taken = with_flags(config, {})
    taken = TrainConfig(**{**vars(taken), "classifier": ClassifierConfig(recipe="none")})
    times = [seconds_of(each, units_of(each), IMAGES, SPEED) for each in (config, taken)]
    assert times[0] - times[1] == pytest.approx(
        300 * (32 * 3 * SPEED.pass_seconds + 5 * SPEED.call_seconds)
    )


def test_the_teacher_is_part_of_the_time_however_small_images_are():
    config = photos()
    warmup = STAGES.get("warmup")()
    large = warmup.cost(config, 280).once * SPEED.at(224)
    small = warmup.cost(with_flags(config, {"image_size": 128}), 280).once * SPEED.at(128)
    assert large > small > 0.8 * large


class Slow:
    """Counts how often the speed was measured; a pass takes so long that nothing fits a minute."""

    def __init__(self, monkeypatch):
        self.measured = 0
        monkeypatch.setattr(estimate, "measure", self)

    def __call__(self, backbone, image_size):
        self.measured += 1
        return Speed(0.01, 0.01, 0.1, image_size)


def longer_config():
    return small_config(classifier={"steps": 400}, detector={"steps": 1})


def start(work_dir, monkeypatch, given="30s", **options):
    """Begin a run as far as its record."""
    monkeypatch.setattr(runner.Runner, "_train", lambda *arguments: None)
    monkeypatch.setattr(runner.Runner, "_put_together", lambda *arguments, **named: None)
    monkeypatch.setattr(budget, "_LEAST_STEPS", 10)
    limit = given and Budget(given)
    options = small_options(work_dir, **options)
    with runner.Runner(longer_config(), options, budget=limit) as run:
        run.train()
    return run.config


def test_a_resumed_run_takes_what_was_picked_and_measures_no_more(tmp_path, monkeypatch, capsys):
    slow = Slow(monkeypatch)
    first = start(tmp_path, monkeypatch, verbose=1)
    assert 10 <= first.classifier.steps < 400
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("Budget of 30s: "))
    assert f"{first.classifier.steps} steps of the classifier" in line
    assert "The whole training, images of 32 pixels, 400 steps" in line
    recorded = json.loads((tmp_path / "config.json").read_text())
    assert recorded["budget"]["picked"] == {"classifier_steps": first.classifier.steps}
    assert recorded["config"]["classifier"]["steps"] == first.classifier.steps
    assert start(tmp_path, monkeypatch) == first
    assert slow.measured == 1


def test_another_budget_is_refused_in_the_same_folder(tmp_path, monkeypatch):
    Slow(monkeypatch)
    start(tmp_path, monkeypatch)
    with pytest.raises(RunError, match=r"fitted to --budget=30s\. Received: --budget=2h"):
        start(tmp_path, monkeypatch, "2h")


def test_who_forgets_the_budget_is_told_of_it(tmp_path, monkeypatch):
    Slow(monkeypatch)
    config = start(tmp_path, monkeypatch)
    stage = runner.Runner(config, small_options(tmp_path))
    run_folder.write_settings(
        str(tmp_path / "classifier"), stage.settings_of(stage.units["classifier"])
    )
    with pytest.raises(RunError, match="It was started with --budget=30s"):
        start(tmp_path, monkeypatch, None)


@pytest.mark.slow
def test_a_training_keeps_to_its_budget_beside_a_recipe(tmp_path):
    recipe = tmp_path / "long.flags"
    recipe.write_text(
        "--classifier_steps=150\n--classifier_batch_size=6\n--detector_steps=150\n--detector_batch_size=6\n"
    )
    work_dir = tmp_path / "run"

    def train(given):
        by_hand = ("--detector_steps=3", f"--work_dir={work_dir}", f"--budget={given}")
        return run_tool("train", f"--flagfile={recipe}", *FLAGS, *by_hand, timeout=600)

    refused = train("1s")
    assert refused.returncode == 2
    assert "budget of 1s is too short" in refused.stderr
    # Twice the least: the machine may be busier when it is measured again.
    given = f"{2 * read_duration(refused.stderr.partition('--budget=')[2].split()[0]):.0f}s"
    for said in ("whole training", "as picked"):  # the second finds all done
        done = train(given)
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if line.startswith("Budget of"))
        assert said in line
    recorded = json.loads((work_dir / "config.json").read_text())["config"]
    assert 100 <= recorded["classifier"]["steps"] <= 150
    assert recorded["detector"]["steps"] == 3  # by hand against the recipe's
    assert (work_dir / "evaluation" / "report.html").exists()
