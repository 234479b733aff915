"""What the stages of a run have in common: its folder, devices, data, and how each is kept.

work_dir/
    config.json               all settings, versions and the seed
    classifier/               config.json, log.csv, tensorboard/, model/
    classifier_fold0/ …       the same, with cross-fitting
    generator/                config.json, log.csv, <shape>_<network>.npz
    warmup/                   config.json, log.csv, tensorboard/, targets.npz, model/
    detector/                 config.json, log.csv, tensorboard/
    namer/                    config.json, log.csv, tensorboard/, boxes.npz, model/
    model/                    the result, see gc_net.saving
"""

import contextlib
import dataclasses
import os
import sys
import zlib

import keras

from gc_net.classifier import Classifier
from gc_net.record import Record
from gc_net.saving import MODEL_FILE, load_model, save_model
from gc_net.stages import run_folder
from gc_net.stages.config import ClassifierConfig
from gc_net.stages.detector import parametrization
from gc_net.stages.run_folder import RunError
from gc_net.training import devices, loop, monitoring
from gc_net.training.data import TrainingData, cache_folder, open_dataset


def classifier_folder(run_dir, fold=None):
    """Return the folder of a run's classifier: of all images, or of all but those of a fold."""
    return os.path.join(run_dir, "classifier" if fold is None else f"classifier_fold{fold}")


def trained_with(run_dir):
    """Return the settings that the classifier of a run was trained with."""
    path = os.path.join(classifier_folder(run_dir), run_folder.CONFIG_FILE)
    record = run_folder.read_json(path)
    if record is None:
        raise RunError(
            f"There is no classifier in {run_dir}: {path} does not exist. Train one with "
            "`gc-net train_classifier`, or give the folder of a run that has one."
        )
    return record["config"]


class Workspace:
    """The folder of one run, on its devices and with its data.

    A context manager: within it the folder is locked.

    Args:
        config: A `TrainConfig`.
        options: A `RunOptions`.
        dataset: The `Dataset`; opened as `config` says if None.
        classifier_dir: Folder of another run whose classifiers are used, with its settings.
        warmup_dir: Folder of another run whose warm-up is shared; it must have the same settings.
    """

    def __init__(self, config, options, dataset=None, classifier_dir=None, warmup_dir=None):
        self.classifier_dir = classifier_dir and os.path.expanduser(classifier_dir)
        self.warmup_dir = warmup_dir and os.path.expanduser(warmup_dir)
        self.classifier_seed = config.seed
        if classifier_dir is not None:
            record = trained_with(self.classifier_dir)
            self.classifier_seed = record["seed"]
            settings = ClassifierConfig.from_dict(record["classifier"])
            config = dataclasses.replace(config, classifier=settings)
        self.config = config
        self.options = options
        self.work_dir = os.path.abspath(os.path.expanduser(options.work_dir))
        self.model_dir = os.path.join(self.work_dir, "model")
        self._given_dataset = dataset
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            # Before any other operation, as tf.distribute wants it for several machines.
            strategy = devices.make_strategy(self.options.devices)
            stack.enter_context(strategy.scope())
            devices.set_up(self.config.seed, self.config.mixed_precision, self.config.deterministic)
            self._check_train_from()
            self.chief = devices.is_chief()
            if self.chief:
                stack.enter_context(run_folder.locked(self.work_dir))
            self.dataset = self._given_dataset or open_dataset(self.config.data)
            self.data = self._training_data()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)

    def _training_data(self):
        split = self.dataset.split("train")
        self.cache_dir = cache_folder(self.options, split, self.config.data)
        return TrainingData(split, self.config.data, self.config.seed, self.cache_dir)

    def _train(self, model, batches, epochs, steps, folder, epoch_logs=None, **watched):
        loop.train(
            model,
            batches,
            epochs=epochs,
            steps_per_epoch=steps,
            folder=folder,
            checkpoint_steps=self.options.checkpoint_steps,
            callbacks=self._callbacks(folder, **watched),
            epoch_logs=epoch_logs,
            verbose=self.options.verbose if self.chief else 0,
        )

    def _callbacks(self, folder, **watched):
        run_folder.make_folder(folder)
        return monitoring.stage_callbacks(folder, self.options.tensorboard, **watched)

    def _corloc_log(self, model):
        if not self.options.log_corloc or not self.chief:
            return None
        truth = self.dataset.truth("test")
        if truth is None:
            print("There are no test boxes, so --log_corloc has nothing to log.", file=sys.stderr)
            return None
        return monitoring.CorLocLog(
            model,
            self.dataset.split("test"),
            truth,
            self.data,
            self.options.log_corloc,
            self.cache_dir,
        )

    def _check_train_from(self):
        """Refuse a layer that does not exist before the folder records that it was asked for."""
        if self.config.network.train_from:
            # Made for its layers' names alone; the stages make their own.
            size = self.config.data.image_size
            self._freeze(Classifier(self.config.network.backbone, 1, size, weights=None))

    def _freeze(self, network):
        if self.config.network.train_from:
            try:
                network.freeze_before(self.config.network.train_from)
            except ValueError as error:
                raise RunError(f"--train_from cannot be used: {error}") from error

    def _classifier_run(self):
        """Return what says which other run the classifiers come from, where they do."""
        # What is in this folder is its own, whichever tool has trained it.
        folders = {os.path.realpath(path) for path in (self.classifier_dir, self.work_dir) if path}
        if len(folders) == 1:
            return {}
        return {"classifier_run": trained_with(self.classifier_dir)}

    def _settings(self, *sections):
        """Return the settings that the result of a stage depends on."""
        config = self.config.to_dict()
        # None is the paper's, as in records from before there was a choice.
        chosen = parametrization(self.config.detector)
        config["detector"]["parametrization"] = None if chosen == "sigmoid" else chosen
        common = {name: config[name] for name in ("seed", "mixed_precision", "deterministic")}
        images = {"training_images": self.data.split.fingerprint()}
        return {**{name: config[name] for name in sections}, **common, **images}

    def _check(self, folder, settings):
        run_folder.check_config(folder, settings, write=self.chief)
        if self.chief:
            # Only now: the settings of a run that is refused must not replace those in force.
            record = {"config": self.config.to_dict(), "environment": run_folder.environment()}
            run_folder.write_json(os.path.join(self.work_dir, run_folder.CONFIG_FILE), record)

    def _is_done(self, model_dir):
        return self._agreed_exists(os.path.join(model_dir, MODEL_FILE))

    def _agreed_exists(self, path):
        exists = os.path.exists(path)
        devices.check_agreement(f"existence of {path}", exists)
        return exists

    def _set_seed(self, name):
        # Each stage has its own, so that it does not matter which ones ran in this process.
        keras.utils.set_random_seed((self.config.seed + zlib.crc32(name.encode())) % 2**32)

    def _load(self, model_dir, name):
        """Return a model that a stage has written, even if it was in this process.

        Dropout draws its seed when it is made and another one with every step, so a model would
        otherwise depend on what ran before.

        Args:
            name: Of the seed, see `_set_seed`.
        """
        self._set_seed(name)
        return load_model(model_dir, precision=None).model

    def _announce(self, what, indices=None):
        if self.chief and self.options.verbose:
            count = len(self.data.split) if indices is None else len(indices)
            print(f"\n{what}, {count:,} images", flush=True)

    def _save(self, folder, model_dir, model):
        if self.chief:
            with run_folder.writing(model_dir):
                save_model(model_dir, model, self.dataset.class_names, self._record())
            loop.clear_checkpoints(folder)
        # The others must not look for the result before it is there.
        devices.barrier()

    def _save_localizer(self, folder, localizer):
        if self.chief:
            with run_folder.writing(self.model_dir):
                localizer.save(self.model_dir)
            loop.clear_checkpoints(folder)
        devices.barrier()

    def _record(self, loss_weights=None):
        return Record(self.config.to_dict(), loss_weights or {}, run_folder.environment())
