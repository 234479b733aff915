"""Networks as TFLite models in memory, run by XNNPACK.

The converter folds batch normalization and activations into convolutions, and XNNPACK is written
for convolutions on CPUs. Values are float32, so outputs are TensorFlow's but for rounding.

An interpreter takes a few images on one core, and there is one for each core: no core waits for
another after each layer. The fewer the images, the more of their maps stay in the core's own cache.
The more, the less often are weights read: the last layers of a small image have more weights than
pixels.
"""

import concurrent.futures
import contextlib
import os
import queue
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gc_net.backbones.network import Network
from gc_net.engines.base import CopyingEngine, EngineError, Forward
from gc_net.engines.sharing import Pair

# Each interpreter packs the weights for itself. Of networks too large for one a core within this,
# there are fewer, with several cores each.
_MOST_BYTES = 2**30

# Pixels that an interpreter takes at once: eight images of 128 pixels, two of 224.
_PIXELS = 2**17
_MOST_IMAGES = 8


class XNNPack(CopyingEngine):
    """Runs networks as TFLite models."""

    name = "xnnpack"

    def copy(self, network: Network | Pair) -> Forward:
        self.check(network)
        return converted(network, network.from_normalized)

    def check(self, network: Network | Pair) -> None:
        """Raise if a network has another precision than this engine's."""
        if network.precision != "float32":
            raise EngineError(
                f"The engine `{self.name}` runs float32 networks. Received: the {network.name} in "
                f"{network.precision}. Load the model in float32, or use the engine `tensorflow`."
            )


class Converted:
    """A TFLite model, and interpreters that run it.

    Args:
        content: The TFLite model: normalized images [B, S, S, 3] to arrays [B, ...].
        places: Which of the model's outputs each output is.
        num_at_once: Images that an interpreter takes at once at most; 1 if the model takes no more.
        num_threads: Threads of all interpreters together; one for each core if None.
    """

    def __init__(
        self,
        content: bytes,
        places: Sequence[int] = (0,),
        num_at_once: int = 1,
        num_threads: int | None = None,
    ):
        cores = num_threads or _num_cores()
        copies = max(1, min(cores, _MOST_BYTES // len(content)))
        interpreters = [_interpreter(content, max(1, cores // copies)) for _ in range(copies)]
        self._input = interpreters[0].get_input_details()[0]["index"]
        # {place in the model: shape of one image's output}
        self._outputs = {
            details["index"]: tuple(details["shape"][1:].tolist())
            for details in interpreters[0].get_output_details()
        }
        self._places = tuple(places)
        self._num_at_once, self._copies = num_at_once, copies
        # An interpreter is no one else's until it is put back.
        self._idle = queue.SimpleQueue()
        for interpreter in interpreters:
            self._idle.put(interpreter)
        self._threads = concurrent.futures.ThreadPoolExecutor(copies, "xnnpack")

    def __call__(self, normalized: Any) -> Any:
        """Return the outputs for normalized images [B, S, S, 3], in a graph or not.

        It is one array [B, ...], or a list of them where there are several outputs.
        """
        outputs = tf.numpy_function(self.run, [normalized], [tf.float32] * len(self._outputs))
        outputs = tf.nest.flatten(outputs)  # a single one comes without a list, outside of graphs
        for output, shape in zip(outputs, self._outputs.values(), strict=True):
            output.set_shape([None, *shape])
        found = [outputs[place] for place in self._places]
        return found if len(found) > 1 else found[0]

    def run(self, normalized: np.ndarray) -> list[np.ndarray]:
        """Return the model's outputs for an array of images."""
        outputs = [
            np.empty((len(normalized), *shape), np.float32) for shape in self._outputs.values()
        ]

        # All cores have something to do, also if there are few images.
        num_at_once = max(1, min(self._num_at_once, -(-len(normalized) // self._copies)))

        def run_some(first):
            rows = slice(first, first + num_at_once)
            images = normalized[rows]
            interpreter = self._idle.get()
            try:
                if tuple(interpreter.get_input_details()[0]["shape"]) != images.shape:
                    interpreter.resize_tensor_input(self._input, images.shape)
                    interpreter.allocate_tensors()
                interpreter.set_tensor(self._input, images)
                interpreter.invoke()
                for output, index in zip(outputs, self._outputs, strict=True):
                    output[rows] = interpreter.get_tensor(index)
            finally:
                self._idle.put(interpreter)

        for _ in self._threads.map(run_some, range(0, len(normalized), num_at_once)):
            pass  # asks for each result, so that an error is raised here
        return outputs


def converted(
    network: Network | Pair,
    function: Callable[[Any], Any],
    prepare: Callable[[Any], None] | None = None,
) -> Converted:
    """Return a function of normalized images as TFLite runs it.

    Args:
        network: The network that the function is a part of, for its image size and for errors.
        function: Function of images [B, S, S, 3] to arrays [B, ...].
        prepare: Function that sets up the `tf.lite.TFLiteConverter` for something else than
            float32. The model then takes one image at a time.
    """
    size, places = network.image_size, []
    num_at_once = 1 if prepare else min(_MOST_IMAGES, max(1, _PIXELS // size**2))
    batch = None if num_at_once > 1 else 1  # TFLite prepares for one number alone if it can

    def once(normalized):
        outputs = tf.nest.flatten(function(normalized))
        # Trunks may have a map in common, which TFLite would return once.
        different = list({id(output): output for output in outputs}.values())
        places[:] = [[id(each) for each in different].index(id(output)) for output in outputs]
        return different

    graph = tf.function(
        once,
        input_signature=[tf.TensorSpec([batch, size, size, 3], tf.float32)],
        autograph=False,
    )
    try:
        concrete = graph.get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
        # Otherwise a SavedModel is written to the disk and read again.
        converter.experimental_lower_to_saved_model = False
        if prepare:
            prepare(converter)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Statistics for quantized inputs were expected")
            return Converted(converter.convert(), places, num_at_once)
    except Exception as error:  # the converter raises whatever its passes do
        reason = str(error).strip().partition("\n")[0]
        raise EngineError(
            f"The engine `xnnpack` cannot run the {network.name}, because TFLite cannot convert "
            f"it: {reason:.300} Use the engine `tensorflow`."
        ) from error


def _interpreter(content, num_threads):
    with warnings.catch_warnings():
        # It will move to a package of its own in a later version than the one that is required.
        warnings.filterwarnings("ignore", "(?s).*tf.lite.Interpreter is deprecated")
        with _quiet():
            interpreter = tf.lite.Interpreter(model_content=content, num_threads=num_threads)
            interpreter.allocate_tensors()
    return interpreter


@contextlib.contextmanager
def _quiet():
    """Drop what TFLite writes to standard error, where TensorFlow's own log is off.

    It greets with a line that no setting turns off. What goes wrong is an exception.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
        yield
        return
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _num_cores():
    # As many as TensorFlow would take.
    given = tf.config.threading.get_intra_op_parallelism_threads()
    given = given or int(os.environ.get("TF_NUM_INTRAOP_THREADS") or 0)
    if given > 0:
        return given
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
