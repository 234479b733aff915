"""The memory of a process that predicts on very many images: it must stay flat."""

import os
import tempfile

from benchmarks.images import write_images
from benchmarks.predict import model_folder
from benchmarks.rounds import conditions, resident_megabytes, table
from gc_net.localizer import load
from gc_net.prediction.predict_files import predict_files


def report(*, model=None, backbone="tiny", image_size=32, num_images=50_000, batch_size=32, seed=0):
    """Predict on generated images and watch the memory.

    Args:
        model: Folder of a model; an untrained one is made if None.
        backbone, image_size: Of an untrained model.
        num_images: How many images, of 64 pixels.
        batch_size: Images a batch.
        seed: Of the images.
    """
    yield f"{conditions()}, batches of {batch_size}, seed {seed}"
    with model_folder(model, backbone, image_size) as folder:
        found = measure(folder, num_images=num_images, batch_size=batch_size, seed=seed)
    yield table(
        ["images done", "resident MB"], [[f"{done:,}", f"{size:.0f}"] for done, size in found]
    )


def measure(model_dir, *, num_images, batch_size=32, samples=10, seed=0):
    """Return a list of (images done, resident megabytes), evenly spaced; the last is at the end.

    Args:
        model_dir: Folder of a model.
        num_images: How many images.
        batch_size: Images a batch.
        samples: How often to look, about.
        seed: Of the images.
    """
    localizer = load(model_dir)
    every = max(1, num_images // batch_size // samples) * batch_size
    done, found = 0, []
    first_look = localizer.first_look

    def watched(images, *asked):
        nonlocal done
        done += len(images)
        if done % every < batch_size:
            found.append((done, resident_megabytes()))
        return first_look(images, *asked)

    localizer.first_look = watched
    with tempfile.TemporaryDirectory() as scratch:
        images, output = os.path.join(scratch, "images"), os.path.join(scratch, "output")
        write_images(images, num_images, seed=seed)
        predict_files(model_dir, images, output, batch_size=batch_size, localizer=localizer)
    return [*found, (num_images, resident_megabytes())]
