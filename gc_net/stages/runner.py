"""Runs stages: from labelled images to a localizer, in one folder that can be resumed.

work_dir/
    config.json          all settings, versions and the seed
    training_images.npz  sizes and times of the images' files
    <stage>/             config.json, log.csv, tensorboard/, checkpoints/ while it is trained, and
                         its result: mostly model/, see gc_net.saving
    model/               the localizer, made of the results of the stages; the classifier, if
                         --method names another method than GC-Net

A stage depends on the settings that it `reads`, and on those of the stages that it `needs`. That
decides the order of stages, the settings that are recorded in a stage's folder and compared, and
the results of other runs that can be used.
"""

import contextlib
import functools
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from gc_net.classifier import Classifier
from gc_net.data.splits import Dataset
from gc_net.datasets import open_dataset
from gc_net.localizer import Localizer
from gc_net.methods import GC_NET
from gc_net.run_files import RunError, explained_write_errors
from gc_net.saving import MODEL_FILE, save_model
from gc_net.stages import STAGES, run_folder
from gc_net.stages.base import Stage, num_steps
from gc_net.stages.budget import Budget, Images, described, pick
from gc_net.stages.config import RunOptions, TrainConfig, with_flags
from gc_net.stages.dependencies import asked_for, in_order, needed, reads_images, recorded_settings
from gc_net.stages.image_record import ImageRecord, check_images
from gc_net.stages.stage_run import StageRun
from gc_net.training import devices, estimate, loop
from gc_net.training.callbacks import CsvLog, ProgressBar, Scalars
from gc_net.training.data import TrainingData, cache_folder
from gc_net.training_record import TrainingRecord

REQUIRED_PARTS = {"classifier", "detector", "generator"}
# Of another method than GC-Net, which finds objects by its classifier.
REQUIRED_PARTS_OF_METHODS = {"classifier"}
# If a training is given in steps, its log has about this many lines, or more if it is long.
LOGGED_LINES, MOST_LOGGED_STEPS = 10, 250


def train(
    config: TrainConfig,
    options: RunOptions,
    stages: Iterable[str] | None = None,
    dataset: Dataset | None = None,
    budget: Budget | None = None,
) -> str:
    """Train a localizer.

    Args:
        config: Settings of the training.
        options: Output folder, and other settings that do not affect the weights.
        stages: Which of `STAGES` to run, with the stages they need; all if None.
        dataset: The `Dataset`; the one that `config` names if None.
        budget: How long it may take; image size and steps are picked for that, see
            `gc_net.stages.budget`. None to use those of `config`.

    Returns:
        The folder of the model.
    """
    with Runner(config, options, dataset, budget) as runner:
        return runner.train(stages)


class Runner:
    """The stages of one run, on its devices and with its data.

    A context manager: within it the folder is locked.

    Args:
        config, options, dataset, budget: See `train`.

    Attributes:
        units: The trainings that the settings ask for, by name.

    Example:
        with Runner(TrainConfig(data=DataConfig(dataset="creatures")), RunOptions()) as runner:
            model_dir = runner.train()
    """

    def __init__(
        self,
        config: TrainConfig,
        options: RunOptions,
        dataset: Dataset | None = None,
        budget: Budget | None = None,
    ):
        self.config = config.resolved()
        self.options = options
        self.budget = budget
        self.work_dir = _full_path(options.work_dir)
        self.model_dir = os.path.join(self.work_dir, "model")
        self.reused = [_full_path(path) for path in options.reuse.split(",") if path]
        self._is_gc_net = self.config.classifier.method == GC_NET
        self._required_parts = REQUIRED_PARTS if self._is_gc_net else REQUIRED_PARTS_OF_METHODS
        self.units = asked_for(self.config)
        self._folders = {}
        self._picked, self._announced = None, False
        self._given_dataset = dataset
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            # Before any other operation, as tf.distribute requires for several machines.
            strategy = devices.make_strategy(self.options.devices)
            stack.enter_context(strategy.scope())
            devices.set_up(self.config.seed, self.config.mixed_precision, self.config.deterministic)
            self._check_train_from()
            self.chief = devices.is_chief()
            if self.chief:
                stack.enter_context(run_folder.locked(self.work_dir))
            if self.budget is not None:
                self._fit_budget()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The dataset; opened on first use."""
        return self._given_dataset or open_dataset(self.config.data)

    @functools.cached_property
    def cache_dir(self) -> str | None:
        """Folder for decoded images, or None."""
        return cache_folder(self.options, self.dataset.split("train"), self.config.data)

    @functools.cached_property
    def data(self) -> TrainingData:
        """The training images."""
        split = self.dataset.split("train")
        return TrainingData(split, self.config.data, self.config.seed, self.cache_dir)

    def train(self, stages: Iterable[str] | None = None) -> str:
        """Train `stages` and the stages they need; finished stages are used as they are.

        Returns:
            The folder of the model.
        """
        asked = self._asked(stages)
        plan = in_order(asked, self.units)
        self._check_records(plan)
        pending = self._pending(plan, asked)
        with self._readable(pending):
            expected = self._check(pending)
            # Only now, because settings of a refused run must not replace the recorded ones.
            if self.chief:
                self._record(plan)
                self._clear_left_overs(plan)
            self._announce(pending, expected)
            spent = []
            for unit in pending:
                start = time.monotonic(), time.process_time()
                self._train(unit, plan, expected)
                if unit.provides:
                    self._put_together(plan, anew=True)
                end = time.monotonic(), time.process_time()
                spent.append((unit.title, end[0] - start[0], end[1] - start[1]))
            self._put_together(plan, anew=False)
        if spent and self.chief and self.options.verbose:
            print(f"\n{_minutes(spent)}", flush=True)
        return self.model_dir

    def has_model(self, stages: Iterable[str] | None = None) -> bool:
        """Return whether these stages, and those they need, have made a model of the method."""
        plan = in_order(self._asked(stages), self.units)
        provided = {name for unit in plan for name in unit.provides}
        return provided >= self._required_parts and _is_file(self.model_dir, MODEL_FILE)

    def folder(self, unit: Stage) -> str:
        """Return the folder of a stage's result: in this run, or in a run that is reused."""
        if unit.name not in self._folders:
            self._folders[unit.name] = self._find_folder(unit)
        return self._folders[unit.name]

    def is_done(self, unit: Stage) -> bool:
        """Return whether the result of a stage exists."""
        return _agreed_exists(os.path.join(self.folder(unit), unit.result(self.config)))

    def settings_of(self, unit: Stage) -> dict[str, Any]:
        """Return the settings that the result of a stage depends on, for its record."""
        found = recorded_settings(self.config, type(unit))
        if reads_images(unit):
            found["training_images"] = self._fingerprint
        return unit.recorded({**found, **unit.record()})

    @functools.cached_property
    def _fingerprint(self):
        return self.data.split.fingerprint()

    @functools.cached_property
    def _images(self):
        return ImageRecord.of(self.data.split)

    # Before training.

    def _fit_budget(self):
        """Pick image size and steps for the budget, or use those of the first start."""
        if not devices.is_one_process():
            raise RunError(
                "A budget is measured on one machine, and TF_CONFIG names several. Leave out "
                "--budget, and give --image_size and the steps of the stages."
            )
        recorded = run_folder.read_budget(self.work_dir)
        if recorded is None:
            text = self._pick()
        elif recorded["given"] != self.budget.text:
            raise RunError(
                f"{self.work_dir} holds a run that was fitted to --budget={recorded['given']}. "
                f"Received: --budget={self.budget.text}. Give the same to resume it, or choose "
                "another --work_dir."
            )
        else:
            picked = recorded["picked"].items()
            self._picked = {name: value for name, value in picked if name not in self.budget.fixed}
            self.config = with_flags(self.config, self._picked)
            text = "as picked when it was first started."
        if self.options.verbose:
            print(f"Budget of {self.budget.text}: {text}", flush=True)

    def _pick(self):
        """Pick image size and steps; return a text about them and about the whole training."""
        images = Images(*(len(self.dataset.split(name)) for name in ("train", "test")))
        speed = estimate.measure(self.config.network.backbone, self.config.data.image_size)
        speed = speed._replace(pass_seconds=speed.pass_seconds / devices.num_replicas())
        whole, units = self.config, list(self.units.values())
        found = pick(whole, self.budget, units, images, speed)
        self._picked, self.config = found.flags, with_flags(whole, found.flags)
        self._announced = True
        takes = f"{described(self.config, units, images)}, about {estimate.in_words(found.seconds)}"
        if not found.flags:
            return f"the whole training fits: {takes}."
        return (
            f"{takes}. The whole training, {described(whole, units, images)}, would take about "
            f"{estimate.in_words(found.whole_seconds)}."
        )

    def _asked(self, stages):
        stages = list(STAGES) if stages is None else list(stages)
        kinds = {name: STAGES.get(name) for name in stages}
        asked = [unit for unit in self.units.values() if type(unit) in kinds.values()]
        if not asked:
            flags = " or ".join(f"--{kind.section}_epochs" for kind in kinds.values())
            raise RunError(
                f"There is nothing to train: the settings ask for no {', '.join(stages)}. Give "
                f"{flags}, e.g. 6 (see its other flags in --help), or leave out --stage."
            )
        return asked

    def _check_records(self, plan):
        """Refuse a folder with other settings before anything is written."""
        recorded = run_folder.read_budget(self.work_dir)
        for unit in plan:
            try:
                run_folder.check_settings(self._own_folder(unit), self.settings_of(unit))
            except RunError as error:
                if recorded is None or self.budget is not None:
                    raise
                given = recorded["given"]
                raise RunError(f"{error} It was started with --budget={given}.") from None
            self._refuse_former_result(unit)
        if self._has_begun(plan):
            check_images(self.work_dir, self._images, self.data.split)

    def _has_begun(self, plan):
        """Return whether a stage that reads images has been started in this folder."""
        return any(
            reads_images(unit) and _is_file(self._own_folder(unit), run_folder.CONFIG_FILE)
            for unit in plan
        )

    def _record(self, plan):
        """Record the settings and the images of the run, or keep those of its first start."""
        run_folder.write_settings(self.work_dir, self.config.to_dict(), self._budget_record())
        known = self._has_begun(plan) and ImageRecord.read(self.work_dir) is not None
        if any(map(reads_images, plan)) and not known:
            self._images.write(self.work_dir)

    def _budget_record(self):
        if self.budget is None:
            return run_folder.read_budget(self.work_dir)
        return {"given": self.budget.text, "picked": self._picked}

    def _clear_left_overs(self, plan):
        """Delete checkpoints of stages that were killed after they wrote their result."""
        for unit in plan:
            # Not with `is_done`, which all processes must call together.
            if _is_file(self._own_folder(unit), unit.result(self.config)):
                loop.clear_checkpoints(self._own_folder(unit))

    def _refuse_former_result(self, unit):
        path = os.path.join(self._own_folder(unit), run_folder.CONFIG_FILE)
        record = run_folder.read_json(path)
        former = record is not None and record.get("layout") != run_folder.LAYOUT
        finished = _is_file(self.model_dir, MODEL_FILE)
        if former and finished and not self.is_done(unit):
            raise RunError(
                f"{self.work_dir} holds a run that an earlier version has finished. Its model in "
                f"{self.model_dir} can be used as it is, by all tools. To train on, choose another "
                f"--work_dir and add --reuse={self.work_dir}: what was trained there with the same "
                "settings is then not repeated."
            )

    def _pending(self, plan, asked):
        """Return the units to train: not finished ones, nor those that only finished ones need."""
        wanted = {unit.name for unit in asked}
        for unit in reversed(plan):
            if unit.name in wanted and not self.is_done(unit):
                wanted |= {other.name for other in needed(unit, self.units)}
        if self.chief and self.options.verbose:
            for unit in plan:
                if self.folder(unit) != self._own_folder(unit):
                    print(f"{unit.title}: taken from {self.folder(unit)}.", flush=True)
        return [unit for unit in plan if unit.name in wanted and not self.is_done(unit)]

    def _readable(self, pending):
        return self.data.readable() if any(map(reads_images, pending)) else contextlib.nullcontext()

    def _check(self, pending):
        """Let each stage check its settings; return the number of images that each will take."""
        expected = {}
        for unit in pending:
            run = StageRun(self, unit)
            if reads_images(unit) and len(self.dataset.class_names) < 2:
                raise RunError(
                    f"The dataset has one class, {self.dataset.class_names[0]!r}, and a classifier "
                    "of one class gives the same answer for every image, so nothing can be learned "
                    "from it. Add images of something else as a second class."
                )
            expected[unit.name] = unit.check(run) * getattr(run.settings, "batch_size", 1)
        return expected

    def _announce(self, pending, expected):
        """Print what will be trained and, if that takes long, an estimate of the time."""
        # Several processes would have to make the network together.
        if not (self.chief and self.options.verbose and devices.is_one_process()):
            return
        if self._announced:
            return
        of_images = [unit for unit in pending if reads_images(unit)]
        total = sum(expected[unit.name] for unit in of_images)
        if total < estimate.LEAST_IMAGES:
            return
        size = self.config.data.image_size
        # Made only to be timed; the stages make their own.
        network = Classifier(self.config.network.backbone, 2, size, weights=None)
        seconds = estimate.pass_seconds(network, size) / devices.num_replicas()
        passes = 0.0
        for unit in of_images:
            cost = unit.cost(self.config, len(self.data.split))
            batch_size = getattr(unit.own_settings(self.config), "batch_size", 1)
            passes += cost.once + expected[unit.name] / batch_size * cost.step
        stages = f"{len(pending)} stage{'s' * (len(pending) != 1)}"
        print(
            f"To train: {stages}, {total:,} images in all. Roughly "
            f"{estimate.in_words(passes * seconds)}, as busy as the machine is now; the time left "
            "is shown with the first steps.",
            flush=True,
        )

    def _check_train_from(self):
        """Refuse a layer that does not exist, before the folder records it."""
        sections = vars(self.config).values()
        asked = {getattr(section, "train_from", None) for section in sections} - {None, "head"}
        if asked:
            # Made only for the names of its layers, so its variables get no values.
            size = self.config.data.image_size
            with keras.StatelessScope(initialize_variables=False):
                network = Classifier(self.config.network.backbone, 1, size, weights=None)
            for layer in sorted(asked):
                self.freeze(network, layer)

    def freeze(self, network: keras.Model, train_from: str | None = None) -> None:
        """Freeze the layers before `train_from`, or else before --train_from."""
        train_from = train_from or self.config.network.train_from
        if train_from:
            try:
                network.freeze_before(train_from)
            except ValueError as error:
                raise RunError(f"--train_from={train_from} cannot be used: {error}") from error

    def _own_folder(self, unit):
        return os.path.join(self.work_dir, unit.name)

    def _find_folder(self, unit):
        own = self._own_folder(unit)
        if self.reused and not _is_file(own, run_folder.CONFIG_FILE):
            given = self.settings_of(unit)
            for run_dir in self.reused:
                folder = os.path.join(run_dir, unit.name)
                recorded = run_folder.read_settings(folder)
                done = _is_file(folder, unit.result(self.config))
                if recorded is None or not done:
                    continue
                found = run_folder.differences(recorded, given)
                found = found or self._changed_images(unit, run_dir)
                if not found:
                    return folder
                if self.chief and self.options.verbose:
                    print(f"{folder} is not reused: {'; '.join(found)}.", flush=True)
        return own

    def _changed_images(self, unit, run_dir):
        """Return a list with a text about images that differ from another run's; empty if none."""
        if not reads_images(unit):
            return []
        split, before = self.data.split, ImageRecord.read(run_dir)
        if before is None or len(before.sizes) != len(split):
            return []
        changes = before.changes(self._images, split)
        return [f"training images have changed:\n{changes}"] if changes else []

    # Training.

    def _train(self, unit, plan, expected):
        run = StageRun(self, unit)
        if self.chief:
            run_folder.write_settings(run.folder, self.settings_of(unit))
        number = f"Stage {plan.index(unit) + 1} of {len(plan)}"
        batches = unit.batches(run)
        count = "" if batches is None or batches.count is None else f", {batches.count:,} images"
        if self.chief and self.options.verbose:
            print(f"\n{number}: {unit.title}{count}", flush=True)
        steps = 0 if batches is None else num_steps(run.settings, batches.steps_per_epoch)
        run.set_seed()
        model = unit.build(run, steps)
        if batches is not None:
            done = list(expected).index(unit.name) + 1
            later = sum(list(expected.values())[done:]) / getattr(run.settings, "batch_size", 1)
            progress = ProgressBar(stage=number, later_steps=later)
            loop.train(
                model,
                batches.make,
                num_steps=steps,
                steps_per_pass=batches.steps_per_epoch,
                steps_per_epoch=_logged_steps(
                    run.settings, steps, batches.steps_per_epoch, unit.least_logged_steps
                ),
                folder=run.folder,
                checkpoint_steps=self.options.checkpoint_steps,
                checkpoint_minutes=self.options.checkpoint_minutes,
                callbacks=self._callbacks(unit, run, model, progress),
                verbose=self.options.verbose if self.chief else 0,
            )
        with explained_write_errors(run.folder):
            unit.finish(run, model)
        if self.chief:
            loop.clear_checkpoints(run.folder)
        # Other processes must not look for the result before it exists.
        devices.barrier()

    def _callbacks(self, unit, run, model, progress):
        own = unit.callbacks(run, model)
        if not self.chief:
            return own
        # First callbacks that add to the logs, then those that show them, then those that report.
        first = [callback for callback in own if getattr(callback, "adds_to_logs", False)]
        own = [callback for callback in own if callback not in first]
        shown = [progress, CsvLog(run.path("log.csv"))]
        if self.options.tensorboard and not any(isinstance(c, Scalars) for c in own):
            shown.append(Scalars(run.path("tensorboard")))
        return [*first, *shown, *own]

    def _put_together(self, plan, anew):
        """Write the model, if all of its parts are finished and it differs from the one on disk.

        It can differ in settings without training, such as the second look. For a method other than
        GC-Net, it is the classifier.
        """
        done = [unit for unit in plan if unit.provides and self.is_done(unit)]
        provided = {name for unit in done for name in unit.provides}
        if not provided >= self._required_parts:
            return
        path = os.path.join(self.model_dir, MODEL_FILE)
        recorded = (run_folder.read_json(path) or {}).get("record", {})
        given = {"settings": self.config.to_dict(), "stages": [unit.name for unit in done]}
        # Through JSON, so that tuples compare as the lists they are read back as.
        same = all(recorded.get(name) == json.loads(json.dumps(given[name])) for name in given)
        if _agreed(f"record in {path}", same) and not anew:
            return
        if self._is_gc_net:
            save = self.localizer(done).save
        else:
            save = functools.partial(self._save_classifier, units=done)
        if self.chief:
            with explained_write_errors(self.model_dir):
                save(self.model_dir)
        devices.barrier()

    def _save_classifier(self, folder, units):
        record = self.record(stages=[unit.name for unit in units])
        save_model(folder, self._parts(units)["classifier"], self.dataset.class_names, record)

    def _parts(self, units):
        """Return the parts of a localizer that some stages have made, by name."""
        parts = {}
        for unit in units:
            parts |= unit.parts(StageRun(self, unit))
        return parts

    def localizer(self, units: Iterable[Stage]) -> Localizer:
        """Return the localizer made of the parts of some stages."""
        units = list(units)
        parts = self._parts(units)
        class_names = self.dataset.class_names
        weights = self.config.detector.term_weights(parts["generator"].kind, len(class_names))
        return Localizer(
            **parts,
            class_names=class_names,
            resize_size=self.data.resize_size,
            second_look=self.config.second_look,
            mirror=self.config.mirror,
            record=self.record(weights, [unit.name for unit in units]),
        )

    def record(
        self, loss_weights: Mapping[str, float] | None = None, stages: Iterable[str] = ()
    ) -> TrainingRecord:
        """Return the record for a model of this run."""
        return TrainingRecord(
            self.config.to_dict(), loss_weights or {}, run_folder.environment(), list(stages)
        )


def _minutes(spent):
    """Return a line on the seconds, and seconds of processor time, that each stage has taken."""
    stages = (
        f"{title} {seconds / 60:.1f} ({processor / 60:.1f})" for title, seconds, processor in spent
    )
    return f"Minutes by stage, in brackets those of all processors together: {', '.join(stages)}."


def _full_path(path):
    return os.path.abspath(os.path.expanduser(path))


def _is_file(*path):
    return os.path.exists(os.path.join(*path))


def _logged_steps(settings, num_steps, steps_per_epoch, least):
    """Return the steps of a line of the log: a pass, or several if the length is in steps."""
    if not settings.steps and num_steps == settings.epochs * steps_per_epoch:
        return steps_per_epoch
    steps = min(max(num_steps // LOGGED_LINES, least), MOST_LOGGED_STEPS)
    return steps_per_epoch * math.ceil(steps / steps_per_epoch)


def _agreed(what, value):
    devices.check_agreement(what, value)
    return value


def _agreed_exists(path):
    return _agreed(f"existence of {path}", os.path.exists(path))
