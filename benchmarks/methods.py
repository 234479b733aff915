"""The training step of each method's classifier beside its bare forward and backward passes."""

import tensorflow as tf

import gc_net
from benchmarks.rounds import conditions, in_turn, table
from benchmarks.step import noise_of
from gc_net import methods
from gc_net.methods.acol import TwoBranches
from gc_net.methods.training import ClassifierTraining

STEP, BARE = "step", "bare passes"
TRAINED = ("has", "cutmix", "adl", "gmp", "acol", "spg", "danet")


def report(
    *,
    backbones=("efficientnet_lite0",),
    image_sizes=(128, 224),
    batch_size=16,
    rounds=5,
    seed=0,
):
    """Measure the step of every method that trains a classifier of its own.

    Args:
        backbones: Names of backbones.
        image_sizes: Sides to measure at.
        batch_size: Images B a step.
        rounds: How often the step and the bare passes have their turn.
        seed: Of the images and labels, which are noise.
    """
    yield f"{conditions()}, batches of {batch_size}, seed {seed}, medians of {rounds} rounds"
    header = ["backbone", "image size", "method", "images/s", "× bare passes"]
    header += ["× in processor time"]
    rows = []
    for backbone in backbones:
        for image_size in image_sizes:
            for name in TRAINED:
                timings = measure(name, backbone, image_size, batch_size, rounds, seed)
                rows.append(
                    [
                        backbone,
                        image_size,
                        methods.get(name).title,
                        f"{batch_size / timings.seconds(STEP):.2f}",
                        f"{timings.ratio(STEP, BARE):.2f}",
                        f"{timings.processor_ratio(STEP, BARE):.2f}",
                    ]
                )
    yield table(header, rows)


def measure(name, backbone, image_size, batch_size, rounds, seed=0, num_classes=200):
    """Return the `Timings` of a method's step and of its bare passes."""
    images, labels = noise_of(image_size, num_classes, batch_size, seed)
    model = trained_model(name, backbone, image_size, num_classes)
    model.compile("adam")
    model.optimizer.build(model.trainable_variables)
    ways = {
        STEP: tf.function(lambda: model.train_step((images, labels))),
        BARE: bare_passes(model, images),
    }
    return in_turn(ways, rounds)


def trained_model(name, backbone, image_size, num_classes=200):
    """Return the model in training of a method, with fresh weights."""
    method = methods.get(name)
    return method.trained(_classifier(backbone, image_size, num_classes, method.head))


def bare_passes(model, images):
    """Return a function of nothing: all of a model's networks forward and backward, no more.

    Images are normalized already, as tensors in memory, and the gradient that comes back is one of
    ones: nothing is drawn, cut, compared or updated.
    """
    normalized = model.classifier.normalize(images)

    def forward():
        if not isinstance(model, ClassifierTraining):  # one that only has another head
            return [model.classifier.from_normalized(normalized, training=True)]
        outputs = model.outputs(normalized, training=True)
        found = [value for key, value in outputs.items() if key != "features"]
        if isinstance(model.classifier.head, TwoBranches):
            # In a step it runs once the classes are known.
            found.append(model.classifier.head.second(outputs["features"], training=True))
        return found

    @tf.function
    def passes():
        variables = [variable.value for variable in model.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = forward()
        return tape.gradient(outputs, variables)

    return passes


def _classifier(backbone, image_size, num_classes, head="native"):
    return gc_net.Classifier(backbone, num_classes, image_size, head=head, weights=None)
