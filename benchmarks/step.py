"""The detector's training step beside the bare sum of its parts, for each backbone."""

import tensorflow as tf
from keras import ops

from benchmarks.models import untrained_model
from benchmarks.rounds import conditions, in_turn, table
from gc_net import optimizers

STEP = "step"
DETECTOR, CLASSIFIER = "detector", "classifier"
MASKS, OPTIMIZER, LOGS = "masks and losses", "optimizer", "logs"


def report(
    *,
    backbones=("efficientnet_lite0", "googlenet", "inception_v3", "vgg16"),
    image_sizes=(128, 224),
    batch_size=16,
    rounds=3,
    seed=0,
):
    """Measure the step for every backbone and image size.

    Args:
        backbones: Names of backbones.
        image_sizes: Sides to measure at.
        batch_size: Images B a step.
        rounds: How often the step and each part have their turn.
        seed: Of the images and labels, which are noise.
    """
    yield f"{conditions()}, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    header = ["backbone", "image size", "images/s", "× bare parts", "× in processor time"]
    header += [f"{part}, % of step" for part in (DETECTOR, CLASSIFIER, MASKS, OPTIMIZER, LOGS)]
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            timings = measure(backbone, image_size, batch_size, rounds, seed)
            shares = (
                timings.processor_ratio(part, STEP)
                for part in (DETECTOR, CLASSIFIER, MASKS, OPTIMIZER, LOGS)
            )
            rows.append(
                [
                    backbone,
                    image_size,
                    f"{batch_size / timings.seconds(STEP):.2f}",
                    f"{timings.ratio(STEP, DETECTOR, CLASSIFIER):.2f}",
                    f"{timings.processor_ratio(STEP, DETECTOR, CLASSIFIER):.2f}",
                    *(f"{100 * share:.1f}" for share in shares),
                ]
            )
    yield table(header, rows)


def measure(backbone, image_size, batch_size, rounds, seed=0):
    """Return the `Timings` of a step and of its parts alone."""
    model = untrained_model(backbone, image_size)
    model.compile(optimizers.Adam(1e-4, multipliers=optimizers.REFERENCE_MULTIPLIERS))
    model.optimizer.build(model.trainable_variables)
    return in_turn(step_and_parts(model, *noise(model, batch_size, seed)), rounds)


def noise(model, batch_size, seed=0):
    """Return a batch of images [B, S, S, 3] and labels [B] that mean nothing."""
    return noise_of(model.detector.image_size, model.classifier.num_classes, batch_size, seed)


def noise_of(size, num_classes, batch_size, seed=0):
    """Return such a batch for any network: images of a size, labels of so many classes."""
    seeds = tf.random.split([seed, 0], 2)
    images = tf.random.stateless_uniform([batch_size, size, size, 3], seeds[0], 0, 256, tf.int32)
    labels = tf.random.stateless_uniform([batch_size], seeds[1], 0, num_classes, tf.int32)
    return tf.cast(images, tf.uint8), labels


def step_and_parts(model, images, labels):
    """Return functions without arguments: a training step, and each of its parts alone.

    A part is given what it gets in a step, its gradient included, as tensors in memory: no part
    waits for another, and nothing is computed that a step does not compute.
    """
    normalized = model.classifier.normalize(images)
    raw = tf.zeros([len(labels), model.shape.num_coefficients])
    # Opposite, since what the mask gives to one image it takes from the other.
    masked = ops.concatenate([normalized, -normalized], axis=0)  # [2B, S, S, 3]
    logits = tf.zeros([len(masked), model.classifier.num_classes])

    @tf.function
    def detector():
        variables = [variable.value for variable in model.detector.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = model.detector(images, training=True)
        return tape.gradient(outputs, variables)

    @tf.function
    def classifier():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(masked)
            outputs = model.classifier.from_normalized(masked, folded=True)
        return tape.gradient(outputs, masked)

    @tf.function
    def masks_and_losses():
        sharpness = model.generator.sharpness.value
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([raw, sharpness])
            coefficients = model.detector.parametrization.decode(raw, model.shape)
            _, objects, backgrounds = model.mask(images, coefficients)
            both = ops.concatenate([objects, backgrounds], axis=0)
        with tf.GradientTape(watch_accessed_variables=False) as loss_tape:
            loss_tape.watch(logits)
            loss = _loss(model, labels, coefficients, logits)
        gradients = tape.gradient(both, [raw, sharpness], output_gradients=masked)
        return gradients, loss_tape.gradient(loss, logits)

    gradients = [tf.zeros_like(variable.value) for variable in model.trainable_variables]

    @tf.function
    def optimizer():
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    @tf.function
    def logs():
        coefficients = model.detector.parametrization.decode(raw, model.shape)
        outputs = _outputs(model, coefficients, logits)
        terms = dict.fromkeys(("area", "object", "background"), tf.zeros([]))
        return model._update_logs(labels, outputs, terms)

    return {
        STEP: tf.function(lambda: model.train_step((images, labels))),
        DETECTOR: detector,
        CLASSIFIER: classifier,
        MASKS: masks_and_losses,
        OPTIMIZER: optimizer,
        LOGS: logs,
    }


def _outputs(model, coefficients, logits):
    of_objects, of_backgrounds = tf.split(logits, 2)
    return {
        "coefficients": coefficients,
        "area": model.shape.area(coefficients),
        "object": of_objects,
        "background": of_backgrounds,
    }


def _loss(model, labels, coefficients, logits):
    return model._total(model._loss_terms(labels, _outputs(model, coefficients, logits)))
