"""Time and memory of each stage against the number of images: linear and flat is what they are for.

Each stage has a process of its own for each number of images, so that its memory is its own.
"""

import dataclasses
import multiprocessing
import os
import tempfile

from benchmarks.rounds import conditions, elapsed, peak_megabytes, table

IMAGE_SIZE = 32  # of the network; the files are of 64 pixels
# Nearly all images are in the training split, which every stage goes through.
_TEST_FRACTION = 0.01


@dataclasses.dataclass(frozen=True)
class Cost:
    """Attributes:
    stage: Name of the stage.
    num_images: How many images there were.
    seconds, processor_seconds: What the stage took, without imports and loading a model.
    megabytes: The most memory its process occupied.
    """

    stage: str
    num_images: int
    seconds: float
    processor_seconds: float
    megabytes: float


def report(
    *,
    sizes=(1_000, 10_000),
    stages=("listing", "input", "evaluation", "report", "prediction"),
    plot=None,
    seed=0,
):
    """Measure stages at several sizes, on creatures drawn for it.

    Args:
        sizes: Numbers of images.
        stages: Of `STAGES`.
        plot: File to draw the costs to, a PNG.
        seed: Of the creatures.
    """
    yield f"{conditions()}, seed {seed}"
    header = ["images", "stage", "seconds", "processor seconds", "processor ms an image", "peak MB"]
    costs = []
    for num_images in sizes:
        found = measure(num_images, stages, seed)
        costs += found
        # A table for each size: the next one may take ten times as long.
        rows = [
            [
                f"{num_images:,}",
                cost.stage,
                f"{cost.seconds:.2f}",
                f"{cost.processor_seconds:.2f}",
                f"{1000 * cost.processor_seconds / num_images:.3f}",
                f"{cost.megabytes:.0f}",
            ]
            for cost in found
        ]
        yield table(header, rows)
    if plot:
        write_plot(plot, costs)


def measure(num_images, stages, seed=0):
    """Return a list of `Cost`s, one for each stage."""
    for stage in stages:
        if stage not in STAGES:
            raise ValueError(f"Unknown stage {stage!r}. Known ones: {', '.join(STAGES)}.")
    processes = multiprocessing.get_context("spawn")
    costs = []
    with tempfile.TemporaryDirectory() as scratch:
        with processes.Pool(1) as process:
            process.apply(_prepare, (scratch, num_images, seed))
        for stage in stages:
            with processes.Pool(1) as process:
                costs.append(Cost(stage, num_images, *process.apply(_run, (stage, scratch))))
    return costs


def write_plot(path, costs):
    """Draw processor time an image and memory against the number of images."""
    from gc_net.figures import plots
    from gc_net.figures.picture_files import save_picture

    stages = list(dict.fromkeys(cost.stage for cost in costs))
    by_key = {(cost.stage, cost.num_images): cost for cost in costs}
    sizes = [
        size
        for size in sorted({cost.num_images for cost in costs})
        if all((stage, size) in by_key for stage in stages)
    ]
    if len(sizes) < 2:
        raise ValueError(f"A plot needs two sizes that all stages were measured at, not {sizes}.")
    figure = plots.new_figure(800, 700)
    shown = {
        "processor ms an image": lambda cost: 1000 * cost.processor_seconds / cost.num_images,
        "peak MB": lambda cost: cost.megabytes,
    }
    for number, (label, value) in enumerate(shown.items()):
        axes = plots.add_axes(figure, 70, 400 - 350 * number, 710, 260)
        series = {stage: [value(by_key[stage, size]) for size in sizes] for stage in stages}
        plots.draw_curves(axes, sizes, series)
        axes.set(xscale="log", xlabel="number of images", ylabel=label)
    save_picture(path, figure)


def _prepare(scratch, num_images, seed):
    from benchmarks.images import write_images

    write_images(os.path.join(scratch, "images"), num_images, seed=seed)


def _run(stage, scratch):
    """Return the seconds, processor seconds and peak megabytes of a stage, in this process."""
    # Not the index of an earlier stage: listing is to be measured.
    os.environ["XDG_CACHE_HOME"] = os.path.join(scratch, f"cache-{stage}")
    work = STAGES[stage](scratch)
    return (*elapsed(work), peak_megabytes())


def _folder(scratch):
    from gc_net.datasets.folder import Folder

    return Folder(os.path.join(scratch, "images"), test_fraction=_TEST_FRACTION)


def _model_dir(scratch):
    """Return the folder of an untrained model, which the first to ask for writes."""
    from benchmarks.models import write_untrained_model

    folder = os.path.join(scratch, "model")
    if not os.path.exists(folder):
        class_names = _folder(scratch).class_names
        write_untrained_model(folder, "tiny", IMAGE_SIZE, len(class_names), class_names)
    return folder


def _listing(scratch):
    return lambda: _folder(scratch).split("train")


def _input(scratch):
    from gc_net.data.pipeline import training_batches

    split = _folder(scratch).split("train")

    def one_epoch():
        batches = training_batches(split, image_size=IMAGE_SIZE, batch_size=32)
        for _ in batches:
            pass

    return one_epoch


def _evaluation(scratch):
    from gc_net.evaluation.evaluate import evaluate
    from gc_net.localizer import Localizer

    localizer = Localizer.load(_model_dir(scratch))
    dataset = _folder(scratch)
    return lambda: evaluate(localizer, dataset, split="train", methods=())


def _report(scratch):
    from gc_net.report.report import write_report

    evaluation = _evaluation(scratch)()
    return lambda: write_report(scratch, evaluation)


def _prediction(scratch):
    from gc_net.localizer import load
    from gc_net.prediction.predict_files import predict_files

    model_dir = _model_dir(scratch)
    localizer = load(model_dir)
    images, output = os.path.join(scratch, "images"), os.path.join(scratch, "labels")
    return lambda: predict_files(model_dir, images, output, localizer=localizer)


STAGES = {
    "listing": _listing,
    "input": _input,
    "evaluation": _evaluation,
    "report": _report,
    "prediction": _prediction,
}
