"""Weight files of keras.applications: fetching and reading them."""

import os
from collections.abc import Callable

import h5py
import keras

ORIGIN = "https://storage.googleapis.com/tensorflow/keras-applications/"
# By backbone: files with and without the 1000-class head, each with its MD5 sum.
FILES = {
    "vgg16": {
        True: (
            "vgg16/vgg16_weights_tf_dim_ordering_tf_kernels.h5",
            "64373286793e3c8b2b4e3219cbf3544b",
        ),
        False: (
            "vgg16/vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5",
            "6d6bbae143d832006294945121d1f1fc",
        ),
    },
    "inception_v3": {
        True: (
            "inception_v3/inception_v3_weights_tf_dim_ordering_tf_kernels.h5",
            "9a0d58056eeedaa3f26cb7ebd46da564",
        ),
        False: (
            "inception_v3/inception_v3_weights_tf_dim_ordering_tf_kernels_notop.h5",
            "bcbd6486424b2319ff4ef7d526e38f63",
        ),
    },
}


def download(backbone: str, with_head: bool) -> str:
    """Return the path of the ImageNet weights in Keras' cache, fetching them the first time."""
    file, md5 = FILES[backbone][with_head]
    name = file.rpartition("/")[2]
    try:
        return keras.utils.get_file(name, ORIGIN + file, cache_subdir="models", file_hash=md5)
    except Exception as error:  # Keras raises plain `Exception` where a download fails
        raise RuntimeError(
            f"The ImageNet weights of {backbone!r} could not be downloaded ({error}). Download "
            f"{ORIGIN + file} on a machine with internet access and pass the file, "
            f"weights='{name}', or pass weights=None to start without."
        ) from error


def load(application: Callable[..., keras.Model], path: str | os.PathLike) -> keras.Model:
    """Return a network of keras.applications with the weights in `path`.

    Args:
        application: e.g. `keras.applications.VGG16`.
        path: A `.h5` or `.weights.h5` file, with or without the 1000-class head; all files have
            been trained in float32, whatever the policy now is.
    """
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        return application(weights=path, include_top=_has_head(path), classifier_activation=None)
    except Exception as error:
        raise ValueError(
            f"{path!r} does not hold weights of keras.applications' {application.__name__} "
            f"({error}). Expected a file of its `save_weights`, or the published one."
        ) from error
    finally:
        keras.config.set_dtype_policy(policy)


def _has_head(path):
    found = []

    def visit(name, item):
        # Matrices are kernels of fully connected layers, which only the head has.
        if isinstance(item, h5py.Dataset) and item.ndim == 2:
            found.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return bool(found)
