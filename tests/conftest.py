"""What all tests share."""

import gc
import os

# One thread for each of the processes that tests are spread over, and for those that tests start:
# the networks of tests are small, and threads that wait for each other cost more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")  # one for each replica
# The tools' allocator keeps memory for the next step of a training; tests make hundreds of those.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "false")

import tools  # noqa: F401, I001 (first, so that TensorFlow starts as quietly as in the tools)
import pytest

from tests.browser import launched


def pytest_configure(config):
    if config.getoption("numprocesses", None):
        return  # this process hands tests out to others, and needs no TensorFlow
    # Until all tests are collected, hardly anything is garbage, and looking for it takes a third of
    # that time. What is there then stays to the end, so it is not searched later either.
    gc.disable()
    import tensorflow as tf

    # Two logical devices, which can only be asked for before TensorFlow starts: replicas without
    # GPUs.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="class")
def eager():
    """Run TensorFlow's functions without graphs.

    Tracing a graph takes several times as long as a few small batches. So this is for tests of what
    is done with a network's answers. That graphs give the same answers is tested elsewhere: for
    predictions in `test_localizer`, `test_same_answer` and `engines`, for evaluations in
    `test_evaluate`, for trainings in `stages`.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def chromium():
    """A `tests.browser.Browser`; skips where Chromium is not installed."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the real CUB-200-2011 and ILSVRC images, for tests marked `data`."""
    folder = os.environ.get("GC_NET_DATA", "")
    if not os.path.isdir(folder):
        pytest.skip("needs the real images: set GC_NET_DATA to the folder that holds them")
    return folder
