"""GC-Net: detector, generator and classifier as one model with its own train step."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from gc_net.classifier import Classifier
from gc_net.detector import Detector
from gc_net.losses import LOSS_TERMS
from gc_net.masking import inside_and_outside
from gc_net.optimizers import BuiltOptimizer
from gc_net.settings import check_finite

FROZEN_MODES = ("inference", "training")
DEFAULT_TERMS = ("area", "object", "background")
MASKED = ("object", "background")  # the images that the classifier sees
_ALWAYS = ("coefficients", "area")
_OF_MASKS = ("masks", *MASKED)
OUTPUTS = (*_ALWAYS, *_OF_MASKS)


@keras.saving.register_keras_serializable(package="gc_net")
class GCNet(BuiltOptimizer, keras.Model):
    """A detector that is trained by a frozen classifier's view of the images it masks.

    `fit` on images and labels trains only the detector (and the model generator's ε). The given
    parts keep their `trainable`.

    Args:
        detector: A `Detector`.
        generator: A `ModelGenerator` or `LearnedGenerator`, of the detector's shape.
        classifier: A trained `Classifier`.
        loss_weights: Weights of the terms of the loss by name, see `gc_net.losses.LOSS_TERMS`. A
            term of weight zero is only logged, and only if it needs no further pass of a network.
            If None, `area`, `object` and `background` have a weight of one; `gc_net.presets` has
            the paper's.
        frozen_mode: `"inference"` runs the frozen networks as at inference; `"training"` runs them
            with dropout and batch statistics, as in the authors' code.

    Example:
        model = GCNet(
            Detector(shape="rotated_ellipse", image_size=128),
            ModelGenerator("rotated_ellipse", image_size=128),
            Classifier(num_classes=10, image_size=128),
            loss_weights={"area": 1.0, "object": 2.5, "background": 1.0},
        )
        model.compile(optimizer=gc_net.optimizers.Adam(1e-4))
        model.fit(images, labels)
        model.predict(images)["boxes"]  # relative xyxy
    """

    def __init__(
        self,
        detector: Detector,
        generator: Any,
        classifier: Classifier,
        loss_weights: Mapping[str, float] | None = None,
        frozen_mode: str = "inference",
        name: str = "gc_net",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        check_parts(detector, generator, classifier)
        if frozen_mode not in FROZEN_MODES:
            raise ValueError(
                f"`frozen_mode` must be one of {FROZEN_MODES}. Received: {frozen_mode!r}"
            )
        self.detector = detector
        self.generator = generator
        self.classifier = classifier
        self.shape = generator.shape
        if loss_weights is None:
            loss_weights = dict.fromkeys(DEFAULT_TERMS, 1.0)
        self.loss_weights = {term: float(weight) for term, weight in loss_weights.items()}
        for term, weight in self.loss_weights.items():
            check_finite(f"loss_weights: {term}", weight)
        self.frozen_mode = frozen_mode
        self._terms, self._needed = _make_terms(self.loss_weights)
        watched = ["loss", *(f"{term}_loss" for term in self._terms)]
        watched += [f"{name}_accuracy" for name in MASKED if name in self._needed]
        self._has_epsilon = hasattr(generator, "epsilon")
        if self._has_epsilon:
            watched.append("epsilon")
        for statistic in ("mean", "spread"):
            watched += [f"{statistic}_{name}" for name in self.shape.coefficient_names]
        self._means = RunningMeans(watched)
        self.built = True

    @property
    def trainable_weights(self) -> list:
        weights = list(self.detector.trainable_weights)
        if self.generator.learns_with_detector and self._needed.intersection(_OF_MASKS):
            weights += self.generator.trainable_weights
        return weights

    @property
    def trainable_variables(self) -> list:
        return self.trainable_weights

    @property
    def metrics(self) -> list:
        return [self._means]

    def compile(
        self,
        optimizer: Any = "adam",
        *,
        jit_compile: bool = False,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        auto_scale_loss: bool = True,
        **unknown: Any,
    ) -> None:
        """Configure training. The loss and the metrics are the model's own."""
        if unknown:
            raise TypeError(
                f"`GCNet.compile` takes no {', '.join(unknown)}. The loss is the sum of the terms "
                "in `GCNet(..., loss_weights={...})`, see `gc_net.losses.LOSS_TERMS`, and the "
                "metrics are the model's own. Give `optimizer`, `jit_compile`, `run_eagerly`, "
                "`steps_per_execution` or `auto_scale_loss`."
            )
        super().compile(
            optimizer=optimizer,
            # XLA's convolutions are slower than oneDNN's on a CPU.
            jit_compile=jit_compile,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
            auto_scale_loss=auto_scale_loss,
        )

    def get_compile_config(self) -> dict[str, Any] | None:
        if not self.compiled:
            return None
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            "jit_compile": self.jit_compile,
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        config = keras.saving.deserialize_keras_object(config)
        self.compile(**config)
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def call(self, images: Any, training: bool = False) -> dict[str, Any]:
        """Localize and classify.

        Returns:
            Dict of `coefficients` [B, n], `boxes` [B, 4] relative xyxy, and `class_logits` [B, C]
            of the image without a mask.
        """
        coefficients = self.detector(images, training=training)
        return {
            "coefficients": coefficients,
            "boxes": self.shape.boxes(coefficients),
            "class_logits": self.classifier(images, training=False),
        }

    def mask(self, images: Any, coefficients: Any, training: bool = False) -> tuple[Any, Any, Any]:
        """Return masks [B, H, W, 1] and the normalized object and background images."""
        masks = self.generator(coefficients, training=training)
        return masks, *inside_and_outside(self.classifier.normalize(images), masks)

    def supervise(self, images: Any, training: bool = False) -> dict[str, Any]:
        """Run the parts of the training graph that the terms of the loss need.

        Returns:
            Dict of `coefficients` [B, n] and `area` [B]; if a term needs them, also `masks`
            [B, H, W, 1], and the classifier's logits [B, C] for the `object` and the `background`
            images.
        """
        coefficients = self.detector(images, training=training)
        outputs = {"coefficients": coefficients, "area": self.shape.area(coefficients)}
        shown = [name for name in MASKED if name in self._needed]
        if not self._needed.intersection(_OF_MASKS):
            return outputs
        as_training = training and self.frozen_mode == "training"
        outputs["masks"], *masked = self.mask(images, coefficients, training=as_training)
        masked = [image for name, image in zip(MASKED, masked, strict=True) if name in shown]
        if as_training:
            # Each with its own batch statistics, as in the authors' two passes.
            logits = [self.classifier.from_normalized(image, training=True) for image in masked]
        elif shown:
            together = ops.concatenate(masked, axis=0)  # [2B, H, W, 3]
            logits = self.classifier.from_normalized(together, folded=True)
            logits = ops.split(logits, len(shown), axis=0)
        else:
            logits = []
        return {**outputs, **dict(zip(shown, logits, strict=True))}

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
        """Return the terms without weights; Keras has divided them by the number of replicas."""
        return {
            name: term(labels, {need: outputs[need] for need in term.needs}, sample_weight)
            for name, term in self._terms.items()
        }

    def _total(self, terms):
        """Return the weighted sum, e.g. L = α·L_a + β·L_o + γ·L_b. Eq. (loss)."""
        return sum(self.loss_weights[name] * value for name, value in terms.items())

    def _update_logs(self, labels, outputs, terms):
        """Return the running means of the losses and of other logs."""
        labels = ops.cast(ops.reshape(labels, (-1,)), "int32")
        coefficients = outputs["coefficients"]
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        values = {f"{term}_loss": value * replicas for term, value in terms.items()}
        values["loss"] = self._total(terms) * replicas
        for name in self._needed.intersection(MASKED):
            predicted = ops.cast(ops.argmax(outputs[name], axis=-1), "int32")
            values[f"{name}_accuracy"] = ops.mean(ops.cast(predicted == labels, "float32"))
        if self._has_epsilon:
            values["epsilon"] = self.generator.epsilon
        for statistic, of in (("mean", ops.mean), ("spread", ops.std)):
            found = ops.unstack(of(coefficients, axis=0))
            for name, value in zip(self.shape.coefficient_names, found, strict=True):
                values[f"{statistic}_{name}"] = value
        self._means.update_state(values, num_images=ops.shape(coefficients)[0])
        return self.get_metrics_result()

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            "detector": serialize(self.detector),
            "generator": serialize(self.generator),
            "classifier": serialize(self.classifier),
            "loss_weights": self.loss_weights,
            "frozen_mode": self.frozen_mode,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if "loss_weights" not in config:
            # An older file, whose weights have no names.
            weights = (config.pop(name) for name in ("alpha", "beta", "gamma"))
            config["loss_weights"] = dict(zip(DEFAULT_TERMS, weights, strict=True))
            # In older files, detectors do not know their shape.
            config["detector"]["config"]["shape"] = config["generator"]["config"]["shape"]
            for name in ("look", "namer"):  # which belong to a `Localizer`
                config.pop(name, None)
        for part in ("detector", "generator", "classifier"):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects)
        return cls(**config)


class RunningMeans(keras.metrics.Metric):
    """Means over the images of an epoch, of values that are means over a batch each.

    They share one variable. With a `keras.metrics.Mean` for each, a third of the operations of a
    training step would be spent on logs, and the step would take so much longer to be traced.

    Args:
        names: Names of the means.
    """

    def __init__(self, names: Iterable[str], name: str = "means"):
        super().__init__(name=name)
        self.names = tuple(names)
        self.totals = self.add_variable((len(self.names),), "zeros", name="totals")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, values: Mapping[str, Any], num_images: Any) -> None:
        num_images = ops.cast(num_images, "float32")
        means = [ops.convert_to_tensor(values[name], "float32") for name in self.names]
        self.totals.assign_add(num_images * ops.stack(means))
        self.count.assign_add(num_images)

    def result(self) -> dict[str, Any]:
        means = ops.unstack(ops.divide_no_nan(self.totals, self.count), len(self.names))
        return dict(zip(self.names, means, strict=True))


def check_parts(detector: Detector, generator: Any, classifier: Classifier) -> None:
    """Raise if the parts do not fit together."""
    if detector.shape.name != generator.shape.name:
        raise ValueError(
            f"The detector places a {detector.shape.name}, the generator draws a "
            f"{generator.shape.name}. Build both with the same `shape`."
        )
    sizes = {
        "detector": (detector.image_size,) * 2,
        "generator": tuple(generator.image_size),
        "classifier": (classifier.image_size,) * 2,
    }
    if len(set(sizes.values())) > 1:
        raise ValueError(f"The parts must agree on the image size. Received: {sizes}")


def _make_terms(loss_weights):
    """Return the loss terms to compute by name, and the names of the outputs that they need."""
    terms = {name: LOSS_TERMS.get(name)() for name in loss_weights}
    used = {name: term for name, term in terms.items() if loss_weights[name]}
    if not used:
        raise ValueError(
            "`loss_weights` must have a weight that is not zero: nothing would be learned. "
            f"Received: loss_weights={loss_weights}"
        )
    needed = {*_ALWAYS, *(output for term in used.values() for output in term.needs)}
    unknown = needed.difference(OUTPUTS)
    if unknown:
        raise ValueError(
            f"The terms {', '.join(used)} of the loss need {', '.join(sorted(unknown))}, which "
            f"`GCNet.supervise` does not return. It returns {', '.join(OUTPUTS)}."
        )
    logged = {name: term for name, term in terms.items() if needed.issuperset(term.needs)}
    return logged, frozenset(needed)
