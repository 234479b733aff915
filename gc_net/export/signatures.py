"""The serving signatures, from images of any size to named outputs, all in the graph."""

import tensorflow as tf

from gc_net import engines
from gc_net.backbones.network import Network
from gc_net.export import preprocessing
from gc_net.prediction.graph import classify, concluded, first_look
from gc_net.prediction.prediction import OUTLINE_POINTS


class ServingModule(tf.Module):
    """A model with its preprocessing and class names, as a SavedModel holds it.

    `serve` takes float32 and `serve_uint8` takes uint8 batches of images of one size, RGB in
    0–255; `serve_bytes` takes the bytes of JPEG and PNG files, of sizes that may differ. A batch of
    more images or pixels than `gc_net.export.preprocessing` allows is an error. All return

        boxes: float32 [B, 4], xyxy relative to the image.
        coefficients: float32 [B, n], see `gc_net.shapes`, relative to the image.
        outlines: float32 [B, P, 2], points of the shape's border, clockwise, relative to the image:
            corners of a polygon, or points of an ellipse, evenly spaced by the angle of its unit
            circle.
        outline_kinds: string [B]: `parallelogram`, `polygon` or `ellipse`.
        shapes: string [B], the name of the shape.
        class_ids, class_names, class_probabilities: [B, k], the likeliest classes, best first.
        confidence: float32 [B], see `gc_net.prediction.graph.localize`.
        image_sizes: int32 [B, 2], height and width, to convert boxes to pixels.

    If the model has a second look, close-ups are cut out of the given images, so these should not
    be shrunk before.

    Args:
        localizer: A `Localizer`.
        top_k: Number k of classes; all if None.
        class_names_file: Text file of class names to include as an asset, if any.
    """

    def __init__(self, localizer, top_k=5, class_names_file=None):
        super().__init__(name="gc_net")
        self._localizer = localizer
        # For programs that squash images themselves, such as `examples/bulk_beam.py`.
        self.resize_size = tf.Variable(localizer.resize_size, trainable=False)
        self.second_look = tf.Variable(localizer.second_look, trainable=False)
        self.top_k = min(top_k or len(localizer.class_names), len(localizer.class_names))
        if class_names_file is not None:
            self.class_names_file = tf.saved_model.Asset(class_names_file)
        engine = engines.ready("folded", localizer.networks, num_images=0)
        # Keras' variables hold TensorFlow's, which a SavedModel can store.
        self.model_variables = [
            variable.value
            for network in localizer.parts.values()
            if isinstance(network, Network)
            for variable in engine.forward(network).variables
        ]
        # Functions that all signatures call, so that the file holds the networks once.
        size = localizer.resize_size
        squashed = tf.TensorSpec([None, size, size, 3], tf.float32, "squashed")
        self._first_look = tf.function(
            _never_empty(lambda images: first_look(localizer, images, engine=engine)),
            input_signature=[squashed],
        )
        self._second_look = None
        if localizer.second_look:
            classifier = localizer.close_up_classifier
            close = classifier.image_size
            self._second_look = tf.function(
                _never_empty(lambda images: classify(classifier, images, engine)),
                input_signature=[tf.TensorSpec([None, close, close, 3], tf.float32, "close_ups")],
            )

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, "images")])
    def serve(self, images):
        return self._localize_batch(images)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, "images")])
    def serve_uint8(self, images):
        return self._localize_batch(images)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    def serve_bytes(self, image_bytes):
        size = self._localizer.resize_size
        image_bytes = preprocessing.checked_files(image_bytes)

        def read(args):
            image, full_size = preprocessing.decode_with_size(*args, target=size)
            outputs = preprocessing.squash(image, size), full_size
            if not self._second_look:
                return outputs
            # Originals are kept only for the second look; their sizes may differ.
            is_full = tf.reduce_all(tf.shape(image)[:2] == full_size)
            original = tf.cond(is_full, lambda: image, lambda: preprocessing.decode(*args))
            return *outputs, _flat(original)

        signature = (tf.TensorSpec([size, size, 3], tf.float32), tf.TensorSpec([2], tf.int32))
        if self._second_look:
            signature += (tf.RaggedTensorSpec([None, 3], tf.uint8, ragged_rank=0),)
        images, sizes, *originals = tf.map_fn(
            read,
            (image_bytes, tf.range(tf.size(image_bytes))),
            fn_output_signature=signature,
            parallel_iterations=preprocessing.DECODED_AT_ONCE,
        )
        return self._localize(images, sizes, *originals)

    def signatures(self):
        """Return the signatures by the name they are served under."""
        return {
            "serving_default": self.serve,
            "serve_uint8": self.serve_uint8,
            "serve_bytes": self.serve_bytes,
        }

    def _localize_batch(self, images):
        images = preprocessing.checked_batch(images)
        shape = tf.shape(images)
        sizes = tf.tile(shape[None, 1:3], [shape[0], 1])  # [B, 2]
        squashed = preprocessing.squash(images, self._localizer.resize_size)
        return self._localize(squashed, sizes, images)

    def _localize(self, squashed, sizes, originals=None):
        """Return all outputs, given what `preprocessing.close_ups` takes for the second look."""
        outputs, second = self._first_look(squashed), None
        if self._second_look:
            close_ups = preprocessing.close_ups(
                originals,
                sizes,
                outputs["boxes"],
                self._localizer.second_look,
                self._localizer.close_up_classifier.image_size,
            )
            second = self._second_look(close_ups)
        outputs = concluded(outputs, second)
        shape = self._localizer.shape
        best = tf.math.top_k(outputs.pop("class_probabilities"), self.top_k)
        return {
            **outputs,
            "outlines": shape.outline(outputs["coefficients"], OUTLINE_POINTS),
            "outline_kinds": tf.fill(tf.shape(sizes)[:1], shape.outline_kind),
            "shapes": tf.fill(tf.shape(sizes)[:1], shape.name),
            "class_ids": best.indices,
            "class_names": tf.gather(tf.constant(self._localizer.class_names), best.indices),
            "class_probabilities": best.values,
            "image_sizes": sizes,
        }


def _never_empty(look):
    """Return a function that runs one black image for an empty batch, and drops its outputs.

    On some CPUs TensorFlow's operations fail for an empty batch: on an Intel Xeon, but not on an
    AMD EPYC.
    """

    def run(images):
        count = tf.shape(images)[0]
        stand_in = tf.zeros([tf.cast(count == 0, tf.int32), *images.shape[1:]])
        outputs = look(tf.concat([images, stand_in], axis=0))
        return tf.nest.map_structure(lambda output: output[:count], outputs)

    return run


def _flat(image):
    """Return the pixels of an image in whole levels, uint8 [H·W, 3]."""
    return tf.reshape(tf.cast(image, tf.uint8), [-1, 3])
