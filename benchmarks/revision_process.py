"""What `benchmarks.revisions` runs in each checkout; it imports that checkout's package.

It builds the detector, the classifier and the second classifier that a recipe trains: untrained
EfficientNet-Lite0s, whose blocks before `block4a` are the same in all. For each line of standard
input, it does its work once and writes how long that took.
"""

import dataclasses
import itertools
import json
import os
import sys
import time

SHARED_BEFORE = "block4a"


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
    asked = json.loads(sys.argv[1])
    work = prepared(WAYS[asked["way"]], asked)
    answers, sys.stdout = sys.stdout, sys.stderr  # what the work itself prints is no answer
    for _ in sys.stdin:
        start = time.perf_counter(), time.process_time()
        work()
        elapsed = time.perf_counter() - start[0], time.process_time() - start[1]
        print(json.dumps(elapsed), file=answers, flush=True)


def prepared(way, asked):
    """Return a function without arguments that does the work once."""
    from gc_net import datasets

    scratch, batch_size = asked["scratch"], asked["batch_size"]
    names, dataset = [f"class {index}" for index in range(200)], None
    if way.evaluates:
        name, data_dir = asked["dataset"]
        dataset = datasets.get(name, data_dir=data_dir)
        names = dataset.class_names
    folder = os.path.join(scratch, "model")
    localizer = write_model(folder, asked["image_size"], way, names)
    if way.evaluates:
        from gc_net.evaluation.evaluate import evaluate

        options = {"batch_size": batch_size, "limit": len(asked["files"])}
        if is_old():
            model = localizer.model
            return lambda: evaluate(
                model, names, dataset, baselines=(), look=float(way.second_look), **options
            )
        return lambda: evaluate(localizer, dataset, methods=(), **options)

    if is_old():
        from gc_net.inference.run import predict_files
    else:
        from gc_net.prediction.predict_files import predict_files
    listing = os.path.join(scratch, "images.txt")
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in asked["files"])
    numbers = itertools.count()

    def predict():
        output = os.path.join(scratch, str(next(numbers)))
        options = {"confidence": way.confidence, "localizer": localizer}
        predict_files(folder, listing, output, batch_size=batch_size, **options)

    return predict


def is_old():
    """Whether this is a revision of before 0c76d28, which moved everything."""
    import gc_net

    return os.path.isdir(os.path.join(os.path.dirname(gc_net.__file__), "inference"))


def write_model(folder, image_size, way, class_names):
    """Write the model of a way, and return the localizer that loads it."""
    import gc_net
    from gc_net.generators.model import ModelGenerator

    parts = {"backbone": "efficientnet_lite0", "image_size": image_size, "weights": None}
    classifiers = [
        gc_net.Classifier(num_classes=len(class_names), name=name, **parts)
        for name in ("classifier", "second_classifier")
    ]
    if is_old():
        from gc_net.inference.localizer import load
        from gc_net.saving import save_model

        detector = gc_net.Detector(num_coefficients=4, head="position", **parts)
        share_first_layers(detector, *classifiers)
        generator = ModelGenerator("rectangle", image_size)
        model = gc_net.GCNet(detector, generator, classifiers[0])
        look = float(way.second_look)
        model = model.naming(classifiers[0], look, classifiers[1] if look else None)
        save_model(folder, model, class_names)
        return load(folder, look)
    from gc_net.localizer import Localizer, load

    detector = gc_net.Detector(shape="rectangle", head="edges", **parts)
    share_first_layers(detector, *classifiers)
    generator = ModelGenerator("rectangle", image_size)
    Localizer(
        detector,
        generator,
        classifiers[0],
        class_names,
        resize_size=round(image_size * 8 / 7),
        second_look=float(way.second_look),
        mirror=way.mirror,
        second_classifier=classifiers[1] if way.second_look else None,
    ).save(folder)
    return load(folder)


def share_first_layers(detector, *others):
    """Give the other networks the detector's early layers, as after a training that left them."""
    for other in others:
        for layer in other.trunk.layers:
            if layer.name.startswith(SHARED_BEFORE):
                break
            layer.set_weights(detector.trunk.get_layer(layer.name).get_weights())


if __name__ == "__main__":
    main()
