"""The chain of stages: from labelled images to a localizer, in one folder that can be resumed.

work_dir/
    config.json               all settings, versions and the seed
    classifier/               config.json, log.csv, tensorboard/, model/
    classifier_fold0/ …       the same, with cross-fitting
    generator/                config.json, log.csv, <shape>_<network>.npz
    warmup/                   config.json, log.csv, tensorboard/, targets.npz, model/
    detector/                 config.json, log.csv, tensorboard/
    model/                    the result, see gc_net.saving
"""

import contextlib
import dataclasses
import os
import zlib

import keras
import numpy as np

from gc_net import presets, shapes
from gc_net.generators.learned import LearnedGenerator, shipped_weights
from gc_net.generators.model import ModelGenerator
from gc_net.model import GCNet
from gc_net.saving import MODEL_FILE, load_model, save_model
from gc_net.training import classifier as classifier_stage
from gc_net.training import detector as detector_stage
from gc_net.training import devices, loop, run, watch
from gc_net.training import generator as generator_stage
from gc_net.training import warmup as warmup_stage
from gc_net.training.config import ClassifierConfig
from gc_net.training.data import TrainingData, cache_folder, open_dataset
from gc_net.training.folds import assign_folds, fold_batches
from gc_net.training.run import RunError
from gc_net.training.targets import find_targets
from gc_net.weights import save_weights_npz

STAGES = ("classifier", "generator", "warmup", "detector")


def train(config, options, stages=STAGES, evaluate=False, classifier_dir=None):
    """Train a localizer, and evaluate it where the dataset has boxes to compare with.

    Args:
        config: A `TrainConfig`.
        options: A `RunOptions`.
        stages: Which of `STAGES` to run.
        evaluate: Whether to write `<work_dir>/evaluation` once the detector is trained.
        classifier_dir: Folder of a run whose trained classifier is used, instead of one of the
            settings in `config`.

    Returns:
        The folder of the model.
    """
    with Chain(config, options, classifier_dir=classifier_dir) as chain:
        model_dir = chain.train(stages)
    if chain.chief and evaluate and "detector" in stages:
        evaluate_run(chain)
    return model_dir


def evaluate_run(chain):
    """Evaluate a finished run on the dataset's test images, if these have boxes."""
    from gc_net.evaluation.evaluate import run_evaluation

    if chain.dataset.truth("test") is None:
        print(f"The model is in {chain.model_dir}. There are no boxes to evaluate it on.")
        return
    output_dir = os.path.join(chain.work_dir, "evaluation")
    run_evaluation(chain.model_dir, chain.dataset, output_dir, cache=chain.cache_dir)
    print(f"\nThe model is in {chain.model_dir}, the report in {output_dir}/report.html.")


def trained_with(run_dir):
    """Return the settings that the classifier of a run was trained with."""
    path = os.path.join(run_dir, "classifier", run.CONFIG_FILE)
    record = run.read_json(path)
    if record is None:
        raise RunError(
            f"There is no classifier in {run_dir}: {path} does not exist. Train one with "
            "`python -m tools.train_classifier`, or give the folder of a run that has one."
        )
    return record["config"]


class Chain:
    """The stages of one run, on its devices and in its folder.

    A context manager: within it the folder is locked.

    Args:
        config: A `TrainConfig`.
        options: A `RunOptions`.
        dataset: The `Dataset`; opened as `config` says if None.
        classifier_dir: Folder of another run whose classifiers are used, with its settings.

    Example:
        with Chain(TrainConfig(data=DataConfig(dataset="creatures")), RunOptions()) as chain:
            model_dir = chain.train()
    """

    def __init__(self, config, options, dataset=None, classifier_dir=None):
        self.classifier_dir = classifier_dir
        self.classifier_seed = config.seed
        if classifier_dir is not None:
            record = trained_with(classifier_dir)
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
            for stage in ("classifier", "warmup", "detector"):
                devices.check_batch_size(stage, getattr(self.config, stage).batch_size)
            self.chief = devices.is_chief()
            if self.chief:
                stack.enter_context(run.locked(self.work_dir))
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

    def train(self, stages=STAGES):
        """Run `stages` in order; what is done already is taken as it is.

        Returns:
            The folder of the model.
        """
        for stage in stages:
            if stage not in STAGES:
                raise ValueError(f"Unknown stage {stage!r}. Known ones: {', '.join(STAGES)}.")
        for stage in STAGES:
            if stage in stages:
                getattr(self, f"train_{stage}")()
        return self.model_dir

    # The stages.

    def train_classifier(self):
        """Train the classifier, and those of the folds where there are any."""
        for fold in [None, *range(self.config.classifier.num_folds)]:
            self.classifier(fold)

    def classifier(self, fold=None):
        """Return the trained classifier: of all images, or of all but those of a fold."""
        name = "classifier" if fold is None else f"classifier_fold{fold}"
        folder = os.path.join(self.classifier_dir or self.work_dir, name)
        model_dir = os.path.join(folder, "model")
        settings = {**self._settings("data", "network", "classifier"), "fold": fold}
        if self.classifier_dir is None:
            self._check(folder, settings)
        else:
            # Made by another run, perhaps with another seed; the images must be the same.
            compared = ("data", "network", "training_images", "fold")
            run.check_config(folder, {name: settings[name] for name in compared}, write=False)
        if self._is_done(model_dir):
            return load_model(model_dir).model
        if self.classifier_dir is not None:
            raise RunError(f"The training of the classifier in {folder} is not finished.")
        indices = None if fold is None else np.flatnonzero(self.folds() != fold)
        self._announce(
            "Classifier" if fold is None else f"Classifier for images of fold {fold + 1}", indices
        )
        self._set_seed(name)
        classifier = classifier_stage.build_classifier(self.config, len(self.dataset.class_names))
        self._freeze(classifier)
        settings = self.config.classifier
        if settings.recipe != "none":
            steps = self.data.num_steps(
                settings.batch_size, None if indices is None else len(indices)
            )
            model = classifier_stage.trained_classifier(
                classifier, self.config, settings.epochs * steps
            )

            def batches(**position):
                return self.data.batches(settings.batch_size, indices, **position)

            self._train(model, batches, settings.epochs, steps, folder)
        self._save(folder, model_dir, classifier)
        return classifier

    def train_generator(self):
        """Make sure that there is a generator; most often there is nothing to do."""
        self.generator()

    def generator(self):
        """Return the generator that the detector is trained with."""
        settings = self.config.detector
        if settings.generator == "model":
            return ModelGenerator(
                settings.shape,
                self.config.data.image_size,
                epsilon=settings.epsilon,
                grid=presets.get(settings.preset).grid,
            )
        return LearnedGenerator(
            settings.shape,
            self.config.data.image_size,
            network=settings.generator_network,
            weights=self._generator_weights(),
        )

    def _generator_weights(self):
        """Return a path of weights for the learned generator, trained here where need be."""
        settings = self.config.detector
        if settings.generator_weights not in ("shipped", "own"):
            return settings.generator_weights
        shipped = shipped_weights(settings.shape, settings.generator_network)
        if shipped and settings.generator_weights == "shipped":
            return shipped
        folder = os.path.join(self.work_dir, "generator")
        config = self.generator_config()
        self._check(folder, {"generator": config.to_dict()})
        path = os.path.join(folder, f"{config.shape}_{config.network}.npz")
        if not self._agreed_exists(path):
            self._announce("Generator")
            generator = generator_stage.train_generator(
                config,
                folder,
                self._callbacks(folder),
                self.options.checkpoint_steps,
                self.options.verbose,
            )
            if self.chief:
                with run.writing(path):
                    save_weights_npz(path, generator.network)
                loop.clear_checkpoints(folder)
            devices.barrier()
        return path

    def generator_config(self):
        """Return the generator's settings, with the detector's shape and network."""
        return type(self.config.generator).from_dict(
            {
                **self.config.generator.to_dict(),
                "shape": self.config.detector.shape,
                "network": self.config.detector.generator_network,
                "seed": self.config.seed,
            }
        )

    def train_warmup(self):
        """Warm up the detector, where the settings ask for it."""
        if self.config.warmup.epochs:
            self.detector(self.classifier())

    def detector(self, classifier):
        """Return the detector that the last stage starts from.

        Args:
            classifier: The trained `Classifier` of all images.
        """
        self._set_seed("detector")
        settings = self.config.warmup
        if not settings.epochs:
            return detector_stage.build_detector(self.config, classifier)
        folder = os.path.join(self.work_dir, "warmup")
        model_dir = os.path.join(folder, "model")
        # Of the detector's settings, only these matter before the last stage.
        kept = ("shape", "head", "initialize")
        detector_settings = {name: getattr(self.config.detector, name) for name in kept}
        self._check(
            folder,
            {
                **self._settings("data", "network", "classifier", "warmup"),
                **self._classifier_run(),
                "detector": detector_settings,
            },
        )
        if self._is_done(model_dir):
            return load_model(model_dir).model
        shape = shapes.get(self.config.detector.shape)
        self._announce("Warm-up")
        targets = find_targets(
            self.config,
            classifier,
            self.data,
            shape,
            os.path.join(folder, warmup_stage.TARGETS_FILE),
            write=self.chief,
        )
        detector = detector_stage.build_detector(self.config, classifier)
        self._freeze(detector)
        num_found = int(np.isfinite(targets[:, 0]).sum())
        steps = self.data.num_steps(settings.batch_size, num_found)
        model = warmup_stage.compiled_warmup(detector, self.config, settings.epochs * steps)

        def batches(**position):
            return warmup_stage.target_batches(self.data, targets, settings.batch_size, **position)

        self._train(model, batches, settings.epochs, steps, folder)
        self._save(folder, model_dir, detector)
        return detector

    def train_detector(self):
        """Train the detector and write the model."""
        folder = os.path.join(self.work_dir, "detector")
        settings = self._settings("data", "network", "classifier", "warmup", "detector")
        self._check(folder, {**settings, **self._classifier_run()})
        if self._is_done(self.model_dir):
            return
        final = self.classifier()
        num_folds = self.config.classifier.num_folds
        judges = [self.classifier(fold) for fold in range(num_folds)] or [final]
        generator = self.generator()
        detector = self.detector(final)
        self._announce("Detector")
        self._set_seed("detector")
        self._freeze(detector)
        model = detector_stage.compose(self.config, detector, generator, judges)
        settings = self.config.detector
        if num_folds:
            folds = self.folds()
            # The smallest fold sets how often each has its turn.
            smallest = int(np.bincount(folds, minlength=num_folds).min())
            steps = num_folds * self.data.num_steps(settings.batch_size, smallest)
        else:
            steps = self.data.num_steps(settings.batch_size)

        def batches(indices=None, **position):
            return self.data.batches(settings.batch_size, indices, **position)

        def batches_of_folds(**position):
            return fold_batches(batches, folds, num_folds, **position)

        if settings.epochs:
            detector_stage.compile_detector(model, self.config, steps)
            self._train(
                model,
                batches_of_folds if num_folds else batches,
                settings.epochs,
                steps,
                folder,
                pictures=watch.some_pictures(self.data) if self.options.tensorboard else None,
                health=True,
                epoch_logs=self._corloc_log(model),
            )
        # What was trained with classifiers of folds is used with the one of all images.
        model = GCNet(
            detector,
            generator,
            final,
            alpha=model.alpha,
            beta=model.beta,
            gamma=model.gamma,
            frozen_mode=model.frozen_mode,
        )
        self._save(folder, self.model_dir, model)

    def folds(self):
        """Return the fold [N] of each training image."""
        return assign_folds(
            self.data.split.labels, self.config.classifier.num_folds, self.classifier_seed
        )

    # What the stages have in common.

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
        run.make_folder(folder)
        return watch.stage_callbacks(folder, self.options.tensorboard, **watched)

    def _corloc_log(self, model):
        if not self.options.log_corloc or not self.chief:
            return None
        truth = self.dataset.truth("test")
        if truth is None:
            return None
        return watch.CorLocLog(
            model,
            self.dataset.split("test"),
            truth,
            self.data,
            self.options.log_corloc,
            self.cache_dir,
        )

    def _freeze(self, network):
        if self.config.network.train_from:
            network.freeze_before(self.config.network.train_from)

    def _classifier_run(self):
        """Return what says which other run the classifiers come from, where they do."""
        if self.classifier_dir is None:
            return {}
        return {"classifier_run": trained_with(self.classifier_dir)}

    def _settings(self, *sections):
        """Return the settings that the result of a stage depends on."""
        config = self.config.to_dict()
        common = {name: config[name] for name in ("seed", "mixed_precision", "deterministic")}
        images = {"training_images": self.data.fingerprint()}
        return {**{name: config[name] for name in sections}, **common, **images}

    def _check(self, folder, settings):
        run.check_config(folder, settings, write=self.chief)
        if self.chief:
            # Only now: the settings of a run that is refused must not replace those in force.
            record = {"config": self.config.to_dict(), "environment": run.environment()}
            run.write_json(os.path.join(self.work_dir, run.CONFIG_FILE), record)

    def _is_done(self, model_dir):
        return self._agreed_exists(os.path.join(model_dir, MODEL_FILE))

    def _agreed_exists(self, path):
        exists = os.path.exists(path)
        devices.check_agreement(f"existence of {path}", exists)
        return exists

    def _set_seed(self, name):
        # Each stage has its own, so that it does not matter which ones ran in this process.
        keras.utils.set_random_seed((self.config.seed + zlib.crc32(name.encode())) % 2**32)

    def _announce(self, what, indices=None):
        if self.chief and self.options.verbose:
            count = len(self.data.split) if indices is None else len(indices)
            print(f"\n{what}, {count:,} images", flush=True)

    def _save(self, folder, model_dir, model):
        if self.chief:
            info = {
                "config": self.config.to_dict(),
                "resize_size": self.data.resize_size,
                "environment": run.environment(),
            }
            with run.writing(model_dir):
                save_model(model_dir, model, self.dataset.class_names, info)
            loop.clear_checkpoints(folder)
        # The others must not look for the result before it is there.
        devices.barrier()
