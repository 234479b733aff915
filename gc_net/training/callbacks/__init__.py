"""Keras callbacks that show the progress of a training, and what to change if it goes wrong.

from gc_net.training.callbacks import CsvLog, HealthCheck, ImageSummaries, ProgressBar

model.fit(
    batches,
    epochs=10,
    callbacks=[
        ProgressBar(),  # before `HealthCheck`, so that its messages come below an epoch's line
        HealthCheck(),
        CsvLog("run/log.csv"),
        ImageSummaries("run/tensorboard", images),
    ],
)
"""

from gc_net.training.callbacks.corloc import CORLOC, CorLoc
from gc_net.training.callbacks.csv_log import CsvLog, read_log
from gc_net.training.callbacks.health import HealthCheck
from gc_net.training.callbacks.image_summaries import ImageSummaries, Scalars, some_pictures
from gc_net.training.callbacks.progress_bar import ProgressBar

__all__ = [
    "CORLOC",
    "CorLoc",
    "CsvLog",
    "HealthCheck",
    "ImageSummaries",
    "ProgressBar",
    "Scalars",
    "read_log",
    "some_pictures",
]
