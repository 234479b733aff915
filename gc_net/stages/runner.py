"""The chain of stages: from labelled images to a localizer, in one folder that can be resumed."""

import os
import sys

import numpy as np

from gc_net import backbones, presets, shapes, teachers
from gc_net.generators.learned import LearnedGenerator, shipped_weights
from gc_net.generators.model import ModelGenerator
from gc_net.localizer import Localizer
from gc_net.stages import classifier as classifier_stage
from gc_net.stages import detector as detector_stage
from gc_net.stages import generator as generator_stage
from gc_net.stages import run_folder
from gc_net.stages import second_classifier as namer_stage
from gc_net.stages import warmup as warmup_stage
from gc_net.stages.config import STAGES, WARMUP_SETTINGS
from gc_net.stages.run_folder import RunError
from gc_net.stages.workspace import Workspace, classifier_folder
from gc_net.teachers.base import Lesson
from gc_net.teachers.targets import find_targets
from gc_net.training import devices, loop, monitoring
from gc_net.training.folds import assign_folds, fold_batches
from gc_net.weights import save_weights_npz


def train(config, options, stages=STAGES, classifier_dir=None, warmup_dir=None):
    """Train a localizer.

    Args:
        config: A `TrainConfig`.
        options: A `RunOptions`.
        stages: Which of `STAGES` to run.
        classifier_dir: Folder of a run whose trained classifier is used, instead of one of the
            settings in `config`.
        warmup_dir: Folder of a run with the same settings up to the warm-up, which is then not
            repeated.

    Returns:
        The folder of the model.
    """
    with Chain(config, options, classifier_dir=classifier_dir, warmup_dir=warmup_dir) as chain:
        return chain.train(stages)


class Chain(Workspace):
    """The stages of one run.

    Example:
        with Chain(TrainConfig(data=DataConfig(dataset="creatures")), RunOptions()) as chain:
            model_dir = chain.train()
    """

    def train(self, stages=STAGES):
        """Run `stages` in order; what is done already is taken as it is.

        Returns:
            The folder of the model.
        """
        for stage in stages:
            if stage not in STAGES:
                raise ValueError(f"Unknown stage {stage!r}. Known ones: {', '.join(STAGES)}.")
        self.check_settings(stages)
        with self.data.readable():
            for stage in STAGES:
                if stage in stages:
                    getattr(self, f"train_{stage}")()
        return self.model_dir

    def check_settings(self, stages=STAGES):
        """Refuse settings that any stage to come would fail on, while nothing is recorded yet."""
        config = self.config
        if self.warmup_dir is not None and not config.warmup.epochs:
            raise RunError(
                f"--warmup_dir={self.warmup_dir} names a warm-up, but --warmup_epochs is 0, which "
                f"is none. Give the settings of the one in {self._warmup_folder()}, which its "
                f"{run_folder.CONFIG_FILE} tells, or leave out --warmup_dir."
            )
        if len(self.dataset.class_names) < 2:
            raise RunError(
                f"The dataset has one class, {self.dataset.class_names[0]!r}, and a classifier of "
                "one class says the same of every image, so that nothing can be learned from it. "
                "Add images of something else as a second class."
            )
        if list(stages) == ["warmup"] and not config.warmup.epochs:
            raise RunError(
                "The warm-up alone is to be trained, but for 0 epochs. Give --warmup_epochs, "
                "e.g. 6, or leave out --stage."
            )
        if list(stages) == ["namer"] and not config.namer.epochs:
            raise RunError(
                "The namer alone is to be trained, but for 0 epochs. Give --namer_epochs, e.g. 12, "
                "and --detector_look=1, if the run has no second look yet."
            )
        detector = "detector" in stages and not self._is_done(self.model_dir)
        if detector and not config.detector.epochs and not config.warmup.epochs:
            raise RunError(
                "Nothing would train the detector: both its epochs and those of the warm-up are "
                "0. Give --detector_epochs (--epochs in gc-net train_detector) or --warmup_epochs."
            )
        warmup = config.warmup.epochs > 0 and (detector or "warmup" in stages)
        warmup = warmup and not self._is_done(os.path.join(self._warmup_folder(), "model"))
        folds = [None] if detector or warmup or "classifier" in stages else []
        if (detector and config.detector.epochs) or "classifier" in stages:
            folds += range(config.classifier.num_folds)
        folds = [fold for fold in folds if not self._is_done(self._classifier_model_dir(fold))]
        # What is to be taken from another run, and is not done there, is refused by its stage.
        if self.classifier_dir is not None:
            folds = []
        if self.warmup_dir is not None:
            warmup = False

        built = warmup or (detector and not config.warmup.epochs)
        if folds or (built and config.detector.initialize == "backbone"):
            self._check_network(classifier_stage.build_classifier)
        if config.classifier.recipe != "none":
            for fold in folds:
                self._classifier_steps(self._fitted_on(fold))
            if len(folds) > 1:
                self._warn_of_lonely_images()
        if warmup:
            teachers.get(config.warmup.teacher).check(self._lesson())
            self.data.num_steps("warmup", config.warmup.batch_size)
        if detector:
            if config.detector.generator_weights not in ("shipped", "own"):
                self.generator()
            elif self._trains_generator():
                devices.check_batch_size("generator", config.generator.batch_size)
            if config.detector.epochs:
                self._detector_steps()
        if "namer" in stages and config.namer.epochs and not self._is_done(self._namer_model_dir()):
            self.data.num_steps("namer", config.namer.batch_size)
            self._check_network(namer_stage.build_namer)

    def _warn_of_lonely_images(self):
        """Say which classes the classifier that judges their only image will not know."""
        counts = np.bincount(self.data.split.labels, minlength=len(self.dataset.class_names))
        lonely = [self.dataset.class_names[label] for label in np.flatnonzero(counts == 1)]
        if lonely and self.chief:
            more = f" and {len(lonely) - 3} more" if len(lonely) > 3 else ""
            print(
                f"Warning: there is a single training image of {', '.join(lonely[:3])}{more}. With "
                "--classifier_num_folds it is judged by a classifier that has seen none of its "
                "class, and teaches the detector nothing. Add images, or leave such classes out.",
                file=sys.stderr,
            )

    def _check_network(self, build):
        """Build a network that training starts from, for its errors alone."""
        try:
            build(self.config, len(self.dataset.class_names))
        except RuntimeError as error:  # a download that failed
            raise RunError(str(error)) from error

    # The stages.

    def train_classifier(self):
        """Train the classifier, and those of the folds where there are any."""
        for fold in [None, *range(self.config.classifier.num_folds)]:
            self._fit_classifier(fold)

    def classifier(self, fold=None):
        """Return the trained classifier: of all images, or of all but those of a fold."""
        model_dir = self._fit_classifier(fold)
        return self._load(model_dir, os.path.basename(os.path.dirname(model_dir)))

    def _fit_classifier(self, fold):
        """Train a classifier where that is not done, and return its model's folder."""
        folder = classifier_folder(self.classifier_dir or self.work_dir, fold)
        model_dir = self._classifier_model_dir(fold)
        settings = {**self._settings("data", "network", "classifier"), "fold": fold}
        if self.classifier_dir is None:
            self._check(folder, settings)
        else:
            # Made by another run, perhaps with another seed; the images must be the same.
            compared = ("data", "network", "training_images", "fold")
            run_folder.check_config(
                folder, {name: settings[name] for name in compared}, write=False
            )
        if self._is_done(model_dir):
            return model_dir
        if self.classifier_dir is not None:
            raise RunError(f"The training of the classifier in {folder} is not finished.")
        indices = self._fitted_on(fold)
        self._announce(
            "Classifier" if fold is None else f"Classifier for images of fold {fold + 1}", indices
        )
        self._set_seed(os.path.basename(folder))
        classifier = classifier_stage.build_classifier(self.config, len(self.dataset.class_names))
        self._freeze(classifier)
        settings = self.config.classifier
        if settings.recipe != "none":
            steps = self._classifier_steps(indices)
            model = classifier_stage.trained_classifier(
                classifier, self.config, settings.epochs * steps
            )

            def batches(**position):
                return self.data.batches(settings.batch_size, indices, **position)

            self._train(model, batches, settings.epochs, steps, folder)
        self._save(folder, model_dir, classifier)
        return model_dir

    def _classifier_model_dir(self, fold):
        return os.path.join(classifier_folder(self.classifier_dir or self.work_dir, fold), "model")

    def _fitted_on(self, fold):
        """Return the images that the classifier of a fold learns from; None for all."""
        return None if fold is None else np.flatnonzero(self.folds() != fold)

    def _classifier_steps(self, indices):
        num_images = None if indices is None else len(indices)
        return self.data.num_steps("classifier", self.config.classifier.batch_size, num_images)

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
        if not self._trains_generator():
            return shipped_weights(settings.shape, settings.generator_network)
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
                with run_folder.writing(path):
                    save_weights_npz(path, generator.network)
                loop.clear_checkpoints(folder)
            devices.barrier()
        return path

    def _trains_generator(self):
        settings = self.config.detector
        if settings.generator != "learned" or settings.generator_weights not in ("shipped", "own"):
            return False
        shipped = shipped_weights(settings.shape, settings.generator_network)
        return not shipped or settings.generator_weights == "own"

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
            self._warm_up(self.classifier())

    def detector(self, classifier):
        """Return the detector that the last stage starts from.

        Args:
            classifier: The trained `Classifier` of all images.
        """
        if self.config.warmup.epochs:
            return self._load(self._warm_up(classifier), "detector")
        self._set_seed("detector")
        return detector_stage.build_detector(self.config, classifier)

    def _warm_up(self, classifier):
        """Warm up the detector where that is not done, and return its model's folder."""
        settings = self.config.warmup
        folder = self._warmup_folder()
        model_dir = os.path.join(folder, "model")
        before = self._settings("data", "network", "classifier", "warmup", "detector")
        before["detector"] = {name: before["detector"][name] for name in WARMUP_SETTINGS}
        if self.warmup_dir is None:
            self._check(folder, {**before, **self._classifier_run()})
        else:
            run_folder.check_config(folder, before, write=False)
        if self._is_done(model_dir):
            return model_dir
        if self.warmup_dir is not None:
            raise RunError(f"The warm-up in {folder} is not finished.")
        self._announce("Warm-up")
        targets = find_targets(
            teachers.get(settings.teacher),
            self._lesson(classifier),
            os.path.join(folder, warmup_stage.TARGETS_FILE),
            write=self.chief,
        )
        # Not before: a run that finds its targets done builds no network for them.
        self._set_seed("detector")
        detector = detector_stage.build_detector(self.config, classifier)
        self._freeze(detector)
        steps = self.data.num_steps("warmup", settings.batch_size, len(targets.indices))
        model = warmup_stage.compiled_warmup(detector, self.config, settings.epochs * steps)

        def batches(**position):
            return warmup_stage.target_batches(self.data, targets, settings.batch_size, **position)

        self._train(model, batches, settings.epochs, steps, folder)
        self._save(folder, model_dir, detector)
        return model_dir

    def _lesson(self, classifier=None):
        """Return what a teacher is given; without a classifier, to check whether it can teach."""
        return Lesson(
            self.data,
            shapes.get(self.config.detector.shape),
            backbones.get(self.config.network.backbone),
            self.config.network.weights,
            classifier,
        )

    def _warmup_folder(self):
        return os.path.join(self.warmup_dir or self.work_dir, "warmup")

    def train_detector(self):
        """Train the detector and write the model."""
        folder = os.path.join(self.work_dir, "detector")
        settings = self._settings("data", "network", "classifier", "warmup", "detector")
        self._check(folder, {**settings, **self._classifier_run()})
        if self._is_done(self.model_dir):
            return
        final = self.classifier()
        # Without epochs there is nothing to judge, and the classifiers of folds need not be there.
        num_folds = self.config.classifier.num_folds if self.config.detector.epochs else 0
        # Never the final one itself: in training mode a judge's statistics move to masked images.
        judges = [self.classifier(fold) for fold in range(num_folds)] or [self.classifier()]
        generator = self.generator()
        detector = self.detector(final)
        self._announce("Detector")
        self._set_seed("detector")
        self._freeze(detector)
        warm = detector.get_weights()
        model = detector_stage.compose(self.config, detector, generator, judges)
        settings = self.config.detector
        folds = self.folds() if num_folds else None

        def batches(indices=None, **position):
            return self.data.batches(settings.batch_size, indices, **position)

        def batches_of_folds(**position):
            return fold_batches(batches, folds, num_folds, **position)

        if settings.epochs:
            steps = self._detector_steps()
            detector_stage.compile_detector(model, self.config, steps)
            self._train(
                model,
                batches_of_folds if num_folds else batches,
                settings.epochs,
                steps,
                folder,
                pictures=monitoring.some_pictures(self.data) if self.options.tensorboard else None,
                health=True,
                # A spread is that within a batch, and a single image has none.
                watch_spread=devices.replica_batch_size(settings.batch_size) > 1,
                fresh=not self.config.warmup.epochs,
                epoch_logs=self._corloc_log(model),
            )
            detector_stage.blend(detector, warm, settings.blend)
        # What was trained with classifiers of folds is used with the one of all images.
        localizer = Localizer(
            detector,
            generator,
            final,
            self.dataset.class_names,
            resize_size=self.data.resize_size,
            second_look=settings.look,
            record=self._record(model.loss_weights),
        )
        self._save_localizer(folder, localizer)

    def train_namer(self):
        """Give the model a namer, where the settings ask for it."""
        if not self.config.namer.epochs:
            return
        if not self._is_done(self.model_dir):
            raise RunError(
                f"There is no model in {self.work_dir} yet, from whose shapes a namer could learn. "
                "Train the detector first."
            )
        localizer = self._check_named()
        namer = self.namer(localizer)
        recorded, settings = localizer.record.settings, self.config.detector
        named = recorded.get("namer") == self.config.namer.to_dict()
        same = recorded.get("detector", {}).get("look") == settings.look
        if localizer.second_classifier is None or not named or not same:
            localizer = localizer.replace(
                second_look=settings.look,
                second_classifier=namer,
                record=self._record(localizer.record.loss_weights),
            )
            self._save_localizer(os.path.join(self.work_dir, "namer"), localizer)

    def _check_named(self):
        """Refuse other settings than the model's: its record is written anew with its namer.

        Returns:
            The `Localizer` that the detector's stage has written.
        """
        before = self._settings("data", "network", "classifier", "warmup", "detector")
        run_folder.check_config(
            os.path.join(self.work_dir, "detector"),
            {**before, **self._classifier_run()},
            write=False,
            free=["detector.look"],  # a second look can be had without another training
        )
        # The model may have come here without the folder of its stage.
        self._set_seed("namer")
        localizer = Localizer.load(self.model_dir, precision=None)
        classes = _first_difference(localizer.class_names, self.dataset.class_names)
        for name, there, now in (
            ("class names", *classes),
            ("resize_size", localizer.resize_size, self.data.resize_size),
        ):
            if there != now:
                raise RunError(
                    f"{self.model_dir} holds a model with other {name}: {there} there, {now} now. "
                    "Give the settings that it was trained with."
                )
        return localizer

    def namer(self, localizer):
        """Return the trained namer.

        Args:
            localizer: The `Localizer` that places the shapes.
        """
        model_dir = self._namer_model_dir()
        folder = os.path.dirname(model_dir)
        sections = ("data", "network", "classifier", "warmup", "detector", "namer")
        self._check(folder, {**self._settings(*sections), **self._classifier_run()})
        if self._is_done(model_dir):
            return self._load(model_dir, "namer")
        self._announce("Namer")
        self._set_seed("namer")
        settings = self.config.namer
        path = os.path.join(folder, namer_stage.BOXES_FILE)
        boxes_rel_xyxy = namer_stage.find_boxes(localizer, self.data, path, write=self.chief)
        data = namer_stage.close_up_data(self.data, boxes_rel_xyxy, self.config)
        indices = np.flatnonzero(np.isfinite(boxes_rel_xyxy[:, 0]))
        namer = namer_stage.build_namer(self.config, len(self.dataset.class_names))
        self._freeze(namer)
        steps = data.num_steps("namer", settings.batch_size, len(indices))
        trained = namer_stage.trained_namer(namer, self.config, settings.epochs * steps)

        def batches(**position):
            return data.batches(settings.batch_size, indices, **position)

        self._train(trained, batches, settings.epochs, steps, folder)
        self._save(folder, model_dir, namer)
        return namer

    def _namer_model_dir(self):
        return os.path.join(self.work_dir, "namer", "model")

    def _detector_steps(self):
        batch_size, num_folds = self.config.detector.batch_size, self.config.classifier.num_folds
        if not num_folds:
            return self.data.num_steps("detector", batch_size)
        # The smallest fold sets how often each has its turn.
        smallest = int(np.bincount(self.folds(), minlength=num_folds).min())
        return num_folds * self.data.num_steps("detector", batch_size, smallest)

    def folds(self):
        """Return the fold [N] of each training image."""
        return assign_folds(
            self.data.split.labels, self.config.classifier.num_folds, self.classifier_seed
        )


def _first_difference(there, now):
    """Return short words for two lists of names that tell in what they differ, or equal ones."""
    for number, (one, other) in enumerate(zip(there, now, strict=False), 1):
        if one != other:
            return f"{one!r} as number {number}", f"{other!r}"
    return f"{len(there)} names", f"{len(now)} names"
