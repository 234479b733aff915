"""What `benchmarks.revisions` runs in each checkout; it imports that checkout's package.

It builds the detector, the classifier and the second classifier that a recipe trains: untrained
ones, whose first layers are the same in all. For each line of standard input, which names a `Way`,
it does that work once and writes how long it took.
"""

import dataclasses
import functools
import itertools
import json
import os
import sys
import time


@dataclasses.dataclass(frozen=True)
class Way:
    """What is asked of a revision; one that knows no mean of mirror images does without."""

    confidence: bool = True
    second_look: bool = False
    mirror: bool = False
    evaluates: bool = False


WAYS = {
    "files to COCO, one look, no confidence": Way(confidence=False),
    "files to COCO, one look, confidence": Way(),
    "files to COCO, second look, confidence": Way(second_look=True),
    "files to COCO, mirror image and second look, confidence": Way(second_look=True, mirror=True),
    "evaluation, second look": Way(second_look=True, evaluates=True),
}


def main():
    import tools  # sets the allocator, as in the command line

    del tools
    work = prepared(json.loads(sys.argv[1]))
    answers, sys.stdout = sys.stdout, sys.stderr  # what the work itself prints is no answer
    for line in sys.stdin:
        way = WAYS[line.strip()]
        start = time.perf_counter(), time.process_time()
        work(way)
        elapsed = time.perf_counter() - start[0], time.process_time() - start[1]
        print(json.dumps(elapsed), file=answers, flush=True)


def prepared(asked):
    """Return a function that does the work of a `Way` once."""
    from gc_net import datasets

    scratch, batch_size = asked["scratch"], asked["batch_size"]
    names, dataset = [f"class {index}" for index in range(200)], None
    if asked["dataset"]:
        name, data_dir = asked["dataset"]
        dataset = datasets.get(name, data_dir=data_dir)
        names = dataset.class_names
    folder = os.path.join(scratch, "model")
    parts = {"backbone": asked["backbone"], "image_size": asked["image_size"], "weights": None}
    write_model(folder, parts, asked["train_from"], names)
    localizer_of = functools.cache(functools.partial(load, folder))
    listing = os.path.join(scratch, "images.txt")
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in asked["files"])
    numbers = itertools.count()

    def work(way):
        localizer = localizer_of(way.mirror, way.second_look)
        if way.evaluates:
            evaluate(localizer, dataset, batch_size=batch_size, limit=len(asked["files"]))
            return
        output = os.path.join(scratch, str(next(numbers)))
        options = {"confidence": way.confidence, "localizer": localizer}
        predict_files(folder, listing, output, batch_size=batch_size, **options)

    return work


def is_old():
    """Whether this is a revision of before 0c76d28, which moved everything."""
    import gc_net

    return os.path.isdir(os.path.join(os.path.dirname(gc_net.__file__), "inference"))


def predict_files(*arguments, **options):
    if is_old():
        from gc_net.inference.run import predict_files
    else:
        from gc_net.prediction.predict_files import predict_files
    predict_files(*arguments, **options)


def evaluate(localizer, dataset, **options):
    from gc_net.evaluation.evaluate import evaluate

    if is_old():
        evaluate(localizer.model, localizer.class_names, dataset, baselines=(), **options)
    else:
        evaluate(localizer, dataset, methods=(), **options)


def load(folder, mirror, second_look):
    """Return the localizer in a folder."""
    if is_old():
        from gc_net.inference.localizer import load

        return load(folder, float(second_look))
    from gc_net.localizer import load

    return load(folder).replace(mirror=mirror, second_look=float(second_look))


def write_model(folder, parts, train_from, class_names):
    """Write a model that can do all that the revision knows."""
    import gc_net
    from gc_net.generators.model import ModelGenerator

    image_size = parts["image_size"]
    classifier, second = (
        gc_net.Classifier(num_classes=len(class_names), name=name, **parts)
        for name in ("classifier", "second_classifier")
    )
    generator = ModelGenerator("rectangle", image_size)
    if is_old():
        from gc_net.saving import save_model

        detector = gc_net.Detector(num_coefficients=4, head="position", **parts)
        model = gc_net.GCNet(detector, generator, classifier)
        save_model(folder, model.naming(classifier, 1.0, second), class_names)
        return
    from gc_net.localizer import Localizer

    detector = gc_net.Detector(shape="rectangle", head="edges", **parts)
    share_first_layers(train_from, detector, classifier, second)
    options = {"resize_size": round(image_size * 8 / 7), "mirror": True}
    options |= {"second_look": 1.0, "second_classifier": second}
    Localizer(detector, generator, classifier, class_names, **options).save(folder)


def share_first_layers(train_from, detector, *others):
    """Give the other networks the detector's early layers, as after a training that left them."""
    for other in others:
        for layer in other.trunk.layers:
            if layer.name.startswith(train_from):
                break
            layer.set_weights(detector.trunk.get_layer(layer.name).get_weights())


if __name__ == "__main__":
    main()
