"""Keras' optimizers with a learning-rate multiplier for each variable, and a schedule.

Scaling gradients would not help, because Adam divides by their scale. The multipliers scale the
rate of each update instead, so moments, checkpoints and schedules stay as in Keras.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

_MANY = 2**20  # values of a variable, from which on it does not fit into a core's cache

# The authors' groups: biases at twice the base rate, the new last layer at ten times, its bias at
# twenty, and the sharpness of the mask at ten. The first pattern that matches a variable's path
# counts.
REFERENCE_MULTIPLIERS = (
    (r"(^|/)outputs/kernel$", 10.0),
    (r"(^|/)outputs/bias$", 20.0),
    (r"(^|/)sharpness$", 10.0),
    (r"(^|/)(bias|beta)$", 2.0),
)


class BuiltOptimizer:
    """Mixin for a Keras model whose `fit` builds the optimizer before its first step.

    Keras builds it within that step, and TensorFlow traces a step that creates variables twice.
    """

    def make_train_function(self, force: bool = False) -> None:
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)


class RateMultipliers:
    """Mixin for a Keras optimizer: `multipliers` maps patterns of variable paths to factors.

    Args:
        multipliers: Pairs of a regular expression and a factor; a variable takes the factor of
            the first expression found in its path, or 1.
    """

    def __init__(self, *args: Any, multipliers: Iterable[tuple[str, float]] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.multipliers = [[str(pattern), float(factor)] for pattern, factor in multipliers]

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        # By index, because under tf.distribute `update_step` gets a replica's own variable.
        self._factors = [self._factor(variable.path) for variable in variables]

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        factor = self._factors[self._get_variable_index(variable)]
        rate = learning_rate if factor == 1.0 else learning_rate * factor
        super().update_step(gradient, variable, rate)

    def _factor(self, path):
        for pattern, factor in self.multipliers:
            if re.search(pattern, path):
                return factor
        return 1.0

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "multipliers": self.multipliers}


def _is_large(gradient: Any, variable: Any) -> bool:
    """Return whether one operation for the whole update is worth another rounding.

    Keras updates a variable by up to a dozen operations, each of which reads and writes memory:
    Adam takes three times as long so, and VGG16's head has 119 million weights. One operation
    keeps other decimals of 1 − beta, so small variables are left to Keras.
    """
    is_dense = tf.is_tensor(gradient) and isinstance(variable, tf.Variable)
    return is_dense and variable.dtype == tf.float32 and variable.shape.num_elements() >= _MANY


class LeanAdam(keras.optimizers.Adam):
    """Keras' Adam, which computes once a step what is the same for all variables.

    Keras computes it for each of them. That is a third of the operations of an update, and a step
    takes so much longer to be traced. The updates are the same, bit for bit, except for large
    variables: one operation of TensorFlow's updates these.
    """

    _corrections = None

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        step = ops.cast(self.iterations + 1, "float32")
        first = 1 - ops.power(ops.cast(self.beta_1, "float32"), step)
        second = ops.sqrt(1 - ops.power(ops.cast(self.beta_2, "float32"), step))
        # A function, because Keras would track tensors.
        self._corrections = lambda: (first, second)
        super().apply(grads, trainable_variables)
        self._corrections = None

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        if self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        mean, square = self._momentums[index], self._velocities[index]
        if _is_large(gradient, variable):
            step = tf.cast(self.iterations + 1, "float32")
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.value.handle,
                v=square.value.handle,
                beta1_power=self.beta_1**step,
                beta2_power=self.beta_2**step,
                lr=tf.cast(learning_rate, "float32"),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=tf.cast(gradient, "float32"),
            )
            return
        first, second = self._corrections()
        gradient = ops.cast(gradient, variable.dtype)
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (ops.square(gradient) - square) * (1 - self.beta_2))
        rate = ops.cast(ops.cast(learning_rate, "float32") * second / first, variable.dtype)
        self.assign_sub(variable, mean * rate / (ops.sqrt(square) + self.epsilon))


class SGDInOne:
    """Mixin for Keras' SGD: a large variable is updated by one operation of TensorFlow's."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if not self.momentum or not _is_large(gradient, variable):
            return super().update_step(gradient, variable, learning_rate)
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=self.momentums[self._get_variable_index(variable)].value.handle,
            lr=tf.cast(learning_rate, "float32"),
            grad=tf.cast(gradient, "float32"),
            momentum=self.momentum,
            use_nesterov=self.nesterov,
        )


@keras.saving.register_keras_serializable(package="gc_net")
class Adam(RateMultipliers, LeanAdam):
    """Adam with `multipliers`."""


@keras.saving.register_keras_serializable(package="gc_net")
class AdamW(LeanAdam, keras.optimizers.AdamW):
    """Keras' AdamW, faster."""


@keras.saving.register_keras_serializable(package="gc_net")
class SGD(RateMultipliers, SGDInOne, keras.optimizers.SGD):
    """SGD with `multipliers`, and with `l2`, a decay that is part of the gradient.

    PyTorch's `weight_decay`, and so the paper's, works like this. Keras' own decay does not change
    the gradient and the momentum, and is a tenth as strong at a momentum of 0.9.
    """

    def __init__(self, *args: Any, l2: float = 0.0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.l2 = float(l2)

    def update_step(self, gradient, variable, learning_rate):
        if self.l2:
            gradient = gradient + keras.ops.cast(self.l2 * variable, gradient.dtype)
        super().update_step(gradient, variable, learning_rate)

    def get_config(self):
        return {**super().get_config(), "l2": self.l2}


def averaging(momentum: float) -> dict[str, bool | float]:
    """Return the arguments of an optimizer that keeps a running mean of the weights.

    Args:
        momentum: Momentum of that mean; 0 for no mean.
    """
    return {"use_ema": True, "ema_momentum": momentum} if momentum else {}


def warm_cosine(rate: float, num_steps: int) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule: up to `rate` within a twentieth of the steps, then down a cosine to zero.

    With fewer than twenty steps, it begins at `rate`, so that no step has a rate of zero.

    Args:
        rate: Highest rate.
        num_steps: Steps of the whole training.
    """
    warmup_steps = num_steps // 20
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup_steps else rate,
        num_steps - warmup_steps,
        warmup_target=rate if warmup_steps else None,
        warmup_steps=warmup_steps,
    )
