r"""Predict on any number of images, on any number of machines, with Apache Beam.

pip install '.[bulk]'
python -m examples.bulk_beam --model=runs/birds --images='photos/**.jpg' --output=labels/part

Runs on this machine by default; Beam's own flags (`--runner=FlinkRunner` and the like) take it
elsewhere, with images and results on storage that Beam reads: `gs://`, `s3://`, `hdfs://`. The
model's folder must be where every worker finds it. Each line of `labels/part-*.jsonl` is a file and
its prediction, as `gc-net predict` keeps them in its `predictions.jsonl`;
`labels/part-unreadable-*.txt` names what could not be read.
"""

import argparse
import dataclasses
import json
from typing import Any

import apache_beam as beam
from apache_beam.io import fileio
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from gc_net import engines

UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A `Localizer`, and the `Engine` that has its networks ready."""

    localizer: Any
    engine: Any


class LocalizerHandler(ModelHandler):
    """Loads a model once a process and gives it batches of encoded images.

    Args:
        path: Folder of a model, see `gc_net.load`.
        engine: Name of what runs the networks, see `gc_net.engines`.
        batch_size: Most images that go through the model at once.
    """

    def __init__(self, path, engine="xnnpack", batch_size=32):
        self.path = path
        self.engine = engine
        self.batch_size = batch_size

    def load_model(self):
        import gc_net

        localizer = gc_net.load(self.path)
        # One engine for all batches: it takes the weights to stay as they are.
        engine = engines.ready(self.engine, localizer.networks, num_images=10**9)
        return Loaded(localizer, engine)

    def batch_elements_kwargs(self):
        return {"min_batch_size": 1, "max_batch_size": self.batch_size}

    def run_inference(self, batch, model, inference_args=None):
        """Yield the prediction of each file's bytes as JSON, or (None, why it cannot be read)."""
        from gc_net.data.loading import Unreadable

        del inference_args
        unreadable = Unreadable()
        found = model.localizer.predict(
            batch, self.batch_size, unreadable=unreadable, engine=model.engine
        )
        reasons = dict(unreadable)
        for row, prediction in enumerate(found):
            if prediction is None:
                yield None, reasons[f"images[{row}]"]
            else:
                yield prediction.to_json(), None


def parted(result):
    """Yield the line of a file and what the model gave for it, among results or unreadable ones."""
    name, (prediction, reason) = result
    if prediction is None:
        yield beam.pvalue.TaggedOutput(UNREADABLE, f"{name}\t{reason}")
    else:
        yield json.dumps({"file": name, **json.loads(prediction)}, ensure_ascii=False)


def predict(pipeline, model, images, output, engine="xnnpack", batch_size=32, num_shards=0):
    """Add the prediction of all images to a Beam pipeline.

    Args:
        model: Folder of a model, see `gc_net.load`.
        images: Pattern in Beam's sense: `**` crosses folders.
        output: Beginning of the result files' names.
        engine: Name of what runs the networks, see `gc_net.engines`.
        num_shards: How many result files; as many as suit the runner if 0.
    """
    handler = KeyedModelHandler(LocalizerHandler(model, engine, batch_size))
    results = (
        pipeline
        | "Find" >> fileio.MatchFiles(images)
        # Patterns are matched in one place; from here on every worker has its share.
        | "Share out" >> beam.Reshuffle()
        | "Open" >> fileio.ReadMatches()
        | "Read" >> beam.Map(lambda file: (file.metadata.path, file.read()))
        | "Predict" >> RunInference(handler)
        | "Part" >> beam.FlatMap(parted).with_outputs(UNREADABLE, main="lines")
    )
    results.lines | "Write" >> beam.io.WriteToText(
        output, file_name_suffix=".jsonl", num_shards=num_shards
    )
    results[UNREADABLE] | "Write unreadable" >> beam.io.WriteToText(
        f"{output}-{UNREADABLE}", file_name_suffix=".txt", skip_if_empty=True
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="Folder of a model.")
    parser.add_argument("--images", required=True, help="Pattern; ** crosses folders.")
    parser.add_argument("--output", required=True, help="Beginning of the result files' names.")
    parser.add_argument("--engine", default="xnnpack", help="What runs the networks.")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_shards", type=int, default=0, help="0: as suits the runner.")
    flags, beam_flags = parser.parse_known_args()
    with beam.Pipeline(options=PipelineOptions(beam_flags)) as pipeline:
        predict(pipeline, **vars(flags))


if __name__ == "__main__":
    main()
