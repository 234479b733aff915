"""GC-Net: detector, generator and classifier as one model with its own train step."""

import keras
import tensorflow as tf
from keras import ops

from gc_net import presets
from gc_net.data import transforms
from gc_net.data.crops import check_look
from gc_net.losses import AreaLoss, BackgroundLoss, ObjectLoss

FROZEN_MODES = ("inference", "training")


@keras.saving.register_keras_serializable(package="gc_net")
class GCNet(keras.Model):
    """A detector trained by what a frozen classifier makes of the images it masks.

    Called on images it localizes and classifies them; `fit` on images and labels trains the
    detector (and the model generator's ε) alone.

    Args:
        detector: A `Detector`.
        generator: A `ModelGenerator` or `LearnedGenerator`; it brings the shape.
        classifier: A trained `Classifier`.
        alpha, beta, gamma: Weights of the area, object and background losses.
        frozen_mode: `"inference"` runs the frozen networks as at inference; `"training"` with
            dropout and batch statistics, as the authors' code does.
        look: Side of the region of the second look, as a multiple of the longer side of the shape's
            box; 0 for none. It matters to prediction and evaluation, which have the original
            images, see `gc_net.data.crops`; not to training, nor to a call on squashed images.
        namer: A `Classifier` for the second look, of an image size of its own; if None, the
            classifier looks twice.

    Example:
        model = GCNet(
            Detector(image_size=128),
            ModelGenerator("rotated_ellipse", image_size=128),
            Classifier(num_classes=10, image_size=128),
        )
        model.compile(optimizer=gc_net.optimizers.Adam(1e-4))
        model.fit(images, labels)
        model.predict(images)["boxes"]  # relative xyxy
    """

    def __init__(
        self,
        detector,
        generator,
        classifier,
        alpha=1.0,
        beta=1.0,
        gamma=1.0,
        frozen_mode="inference",
        look=0.0,
        namer=None,
        name="gc_net",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        _check_parts(detector, generator, classifier, namer, frozen_mode)
        self.detector = detector
        self.generator = generator
        self.classifier = classifier
        self.shape = generator.shape
        self.alpha = float(alpha)
        self.beta = float(beta)
        self.gamma = float(gamma)
        self.frozen_mode = frozen_mode
        self.look = check_look(look)
        self.namer = namer
        # A layer that is not trainable normalizes with its stored statistics whatever the mode,
        # so in training mode the frozen networks are only left out of `trainable_weights`.
        frozen = frozen_mode == "inference"
        classifier.trainable = not frozen
        generator.trainable = generator.learns_with_detector or not frozen
        if namer is not None:
            namer.trainable = False
        self._losses_by_term = {
            "area": AreaLoss(),
            "object": ObjectLoss(),
            "background": BackgroundLoss(),
        }
        watched = ["loss", *(f"{term}_loss" for term in self._losses_by_term)]
        watched += ["object_accuracy", "background_accuracy"]
        if generator.learns_with_detector:
            watched.append("epsilon")
        for statistic in ("mean", "spread"):
            watched += [f"{statistic}_{name}" for name in self.shape.coefficient_names]
        self._trackers = [keras.metrics.Mean(name=name) for name in watched]
        self.built = True

    @classmethod
    def from_preset(cls, preset, detector, generator, classifier, **kwargs):
        """Compose with the settings of a preset, see `gc_net.presets`."""
        preset = presets.get(preset)
        alpha, beta, gamma = preset.weights_for(generator, classifier.num_classes)
        settings = {
            "alpha": alpha,
            "beta": beta,
            "gamma": gamma,
            "frozen_mode": preset.frozen_mode,
            **kwargs,
        }
        return cls(detector, generator, classifier, **settings)

    @property
    def trainable_weights(self):
        weights = list(self.detector.trainable_weights)
        if self.generator.learns_with_detector:
            weights += self.generator.trainable_weights
        return weights

    @property
    def trainable_variables(self):
        return self.trainable_weights

    @property
    def closer(self):
        """The `Classifier` of the second look."""
        return self.namer or self.classifier

    @property
    def metrics(self):
        return self._trackers

    def compile(self, optimizer="adam", jit_compile=False, **kwargs):
        """Configure training; the losses and their weights are the model's own."""
        # XLA's convolutions are slower than oneDNN's on a CPU.
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **kwargs)

    def get_compile_config(self):
        if not self.compiled:
            return None
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            "jit_compile": self.jit_compile,
        }

    def compile_from_config(self, config):
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config)
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def call(self, images, training=False):
        """Localize and classify.

        Returns:
            Dict of `coefficients` [B, n], `boxes` [B, 4] relative xyxy, and `class_logits` [B, C]
            of the image as it is, not masked.
        """
        coefficients = self.shape.decode(self.detector(images, training=training))
        return {
            "coefficients": coefficients,
            "boxes": self.shape.boxes(coefficients),
            "class_logits": self.classifier(images, training=False),
        }

    def place(self, images):
        """Return the shapes in squashed images, whose central windows the detector sees.

        Args:
            images: [B, R, R, 3], RGB in 0–255, with R at least the detector's image size.

        Returns:
            coefficients: [B, n], relative to the squashed images.
            windows: [B, S, S, 3], what the detector saw.
            in_windows: [B, n], relative to that.
        """
        size, resize_size = self.detector.image_size, images.shape[1]
        windows = transforms.central(images, size)
        in_windows = self.shape.decode(self.detector(windows, training=False))
        window = transforms.center_window(resize_size, size)
        coefficients = self.shape.out_of_window(in_windows, window, resize_size, size)
        return coefficients, windows, in_windows

    def locator(self, resize_size=None):
        """Return a graph of squashed images, uint8 [B, R, R, 3], to the boxes [B, 4] of shapes.

        Args:
            resize_size: Side R; the detector's own if None.
        """
        size = resize_size or self.detector.image_size
        return tf.function(
            lambda images: self.shape.boxes(self.place(images)[0]),
            input_signature=[tf.TensorSpec([None, size, size, 3], tf.uint8)],
        )

    def naming(self, classifier, look, namer=None):
        """Return a model of the same parts, but for those that name classes."""
        return GCNet(
            self.detector,
            self.generator,
            classifier,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            frozen_mode=self.frozen_mode,
            look=look,
            namer=namer,
        )

    def mask(self, images, coefficients, training=False):
        """Return masks [B, H, W, 1] and the normalized object and background images."""
        masks = self.generator(coefficients, training=training)
        normalized = self.classifier.normalize(images)
        masks = ops.cast(masks, normalized.dtype)
        objects = normalized * masks
        return masks, objects, normalized - objects  # I·M and I·(1 − M)

    def supervise(self, images, training=False):
        """Run the training graph.

        Returns:
            Dict of `coefficients` [B, n], `area` [B], and the classifier's logits for the
            `object` and the `background` images [B, C].
        """
        coefficients = self.shape.decode(self.detector(images, training=training))
        as_training = training and self.frozen_mode == "training"
        _, objects, backgrounds = self.mask(images, coefficients, training=as_training)
        if as_training:
            # Each with its own batch statistics, as in the authors' two passes.
            object_logits = self.classifier.from_normalized(objects, training=True)
            background_logits = self.classifier.from_normalized(backgrounds, training=True)
        else:
            both = ops.concatenate([objects, backgrounds], axis=0)  # [2B, H, W, 3]
            logits = self.classifier.from_normalized(both, training=False)
            object_logits, background_logits = ops.split(logits, 2, axis=0)
        return {
            "coefficients": coefficients,
            "area": self.shape.area(coefficients),
            "object": object_logits,
            "background": background_logits,
        }

    def train_step(self, data):
        images, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # Frozen weights are not watched, so no gradient is computed for them.
            variables = self.trainable_variables
            tape.watch([variable.value for variable in variables])
            outputs = self.supervise(images, training=True)
            terms = self._loss_terms(labels, outputs, sample_weight)
            loss = self.optimizer.scale_loss(self._total(terms))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return self._update_logs(labels, outputs, terms)

    def test_step(self, data):
        images, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        outputs = self.supervise(images, training=False)
        return self._update_logs(labels, outputs, self._loss_terms(labels, outputs, sample_weight))

    def _loss_terms(self, labels, outputs, sample_weight=None):
        """Return the three losses, not yet weighted; Keras has divided them by the replicas."""
        return {
            term: loss(labels, outputs[term], sample_weight=sample_weight)
            for term, loss in self._losses_by_term.items()
        }

    def _total(self, terms):
        """Return L = α·L_a + β·L_o + γ·L_b. Eq. (loss)."""
        return (
            self.alpha * terms["area"]
            + self.beta * terms["object"]
            + self.gamma * terms["background"]
        )

    def _update_logs(self, labels, outputs, terms):
        """Return the running means of the losses and of what shows how training goes."""
        labels = ops.cast(ops.reshape(labels, (-1,)), "int32")
        coefficients = outputs["coefficients"]
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        values = {f"{term}_loss": value * replicas for term, value in terms.items()}
        values["loss"] = self._total(terms) * replicas
        for term in ("object", "background"):
            predicted = ops.cast(ops.argmax(outputs[term], axis=-1), "int32")
            values[f"{term}_accuracy"] = ops.mean(ops.cast(predicted == labels, "float32"))
        if self.generator.learns_with_detector:
            values["epsilon"] = self.generator.epsilon
        for index, name in enumerate(self.shape.coefficient_names):
            values[f"mean_{name}"] = ops.mean(coefficients[:, index])
            values[f"spread_{name}"] = ops.std(coefficients[:, index])
        for tracker in self._trackers:
            tracker.update_state(values[tracker.name], sample_weight=ops.shape(coefficients)[0])
        return self.get_metrics_result()

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            "detector": serialize(self.detector),
            "generator": serialize(self.generator),
            "classifier": serialize(self.classifier),
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            "frozen_mode": self.frozen_mode,
            "look": self.look,
            "namer": self.namer and serialize(self.namer),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for part in ("detector", "generator", "classifier", "namer"):
            # Files from before there were namers have none.
            if config.get(part) is None:
                continue
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects)
        return cls(**config)


def _check_parts(detector, generator, classifier, namer, frozen_mode):
    """Raise where the parts do not fit together."""
    shape = generator.shape
    if detector.num_coefficients != shape.num_coefficients:
        raise ValueError(
            f"The shape {shape.name!r} has {shape.num_coefficients} coefficients "
            f"{shape.coefficient_names}, the detector {detector.num_coefficients} outputs. "
            f"Build it with `num_coefficients={shape.num_coefficients}`."
        )
    sizes = {
        "detector": (detector.image_size,) * 2,
        "generator": tuple(generator.image_size),
        "classifier": (classifier.image_size,) * 2,
    }
    if len(set(sizes.values())) > 1:
        raise ValueError(f"The parts must agree on the image size. Received: {sizes}")
    if namer is not None and namer.num_classes != classifier.num_classes:
        raise ValueError(
            f"The namer must have the classes of the classifier. Received: {namer.num_classes} and "
            f"{classifier.num_classes}"
        )
    if frozen_mode not in FROZEN_MODES:
        raise ValueError(f"`frozen_mode` must be one of {FROZEN_MODES}. Received: {frozen_mode!r}")
