r"""Predict on any number of images, on any number of machines, with Apache Beam.

pip install '.[bulk]'
gc-net export --model=runs/birds --output=saved_models/birds --second_look=0
python -m examples.bulk_beam --saved_model=saved_models/birds/1 \
    --images='photos/**.jpg' --output=labels/part

Images are squashed before they reach the model, hence the --second_look=0: a second look at them
would show nothing more.

Runs on this machine by default; Beam's own flags (`--runner=FlinkRunner` and the like) take it
elsewhere, with images and results on storage that Beam reads: `gs://`, `s3://`, `hdfs://`. Each
line of `labels/part-*.jsonl` is a file and its prediction, as `gc-net predict` keeps them in its
`predictions.jsonl`; `labels/part-unreadable-*.txt` names what could not be read.
"""

import argparse
import json

import apache_beam as beam
import numpy as np
from apache_beam.io import fileio
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

UNREADABLE = "unreadable"


class SavedModelHandler(ModelHandler):
    """Loads an exported model once a process and gives it batches.

    Args:
        path: Folder of a version that `gc-net export` wrote.
        batch_size: Most images that go through the model at once.
    """

    def __init__(self, path, batch_size=32):
        self.path = path
        self.batch_size = batch_size

    def load_model(self):
        import tensorflow as tf

        return tf.saved_model.load(self.path)

    def batch_elements_kwargs(self):
        return {"min_batch_size": 1, "max_batch_size": self.batch_size}

    def run_inference(self, batch, model, inference_args=None):
        """Yield the outputs of each (squashed image, (height, width)) of a batch."""
        del inference_args
        images = np.stack([image for image, _ in batch])
        outputs = model.signatures["serve_uint8"](images=images)
        outputs = {name: value.numpy() for name, value in outputs.items()}
        # The graph saw squares; boxes are to be stretched to what they were squashed from.
        outputs["image_sizes"] = np.array([size for _, size in batch])
        for row in range(len(batch)):
            yield {name: value[row] for name, value in outputs.items()}


class ReadImage(beam.DoFn):
    """Decodes and squashes a file by the code that training and `gc-net predict` use."""

    def __init__(self, resize_size):
        self.resize_size = resize_size

    def process(self, file):
        from gc_net.data.decode import decode_with_size
        from gc_net.data.splits import ImageError
        from gc_net.data.transforms import squash

        name = file.metadata.path
        try:
            image, size = decode_with_size(file.read(), self.resize_size)
        except (ImageError, OSError) as error:
            yield beam.pvalue.TaggedOutput(UNREADABLE, f"{name}\t{error}")
            return
        yield name, (squash(image, self.resize_size), size)


def as_line(result):
    """Return the line of a file and what the model gave for it."""
    from gc_net.prediction.prediction import Prediction

    name, outputs = result
    for key in ("class_names", "outline_kinds", "shapes"):
        outputs[key] = np.char.decode(np.asarray(outputs[key], np.bytes_), "utf-8")
    prediction = Prediction.from_outputs(outputs)
    return json.dumps({"file": name, **json.loads(prediction.to_json())}, ensure_ascii=False)


def predict(pipeline, saved_model, images, output, batch_size=32, num_shards=0):
    """Add the prediction of all images to a Beam pipeline.

    Args:
        saved_model: Folder of a version that `gc-net export` wrote.
        images: Pattern in Beam's sense: `**` crosses folders.
        output: Beginning of the result files' names.
        num_shards: How many result files; as many as suit the runner if 0.
    """
    import tensorflow as tf

    module = tf.saved_model.load(saved_model)
    resize_size = int(module.resize_size.numpy())
    if float(module.second_look.numpy()):
        raise ValueError(
            f"{saved_model} looks at its shapes a second time, for which it needs the original "
            "images, and it is given squashed ones here. Export it with --second_look=0."
        )
    handler = KeyedModelHandler(SavedModelHandler(saved_model, batch_size))
    read = (
        pipeline
        | "Find" >> fileio.MatchFiles(images)
        # Patterns are matched in one place; from here on every worker has its share.
        | "Share out" >> beam.Reshuffle()
        | "Open" >> fileio.ReadMatches()
        | "Read" >> beam.ParDo(ReadImage(resize_size)).with_outputs(UNREADABLE, main="images")
    )
    lines = read.images | "Predict" >> RunInference(handler) | "Lines" >> beam.Map(as_line)
    lines | "Write" >> beam.io.WriteToText(output, file_name_suffix=".jsonl", num_shards=num_shards)
    read[UNREADABLE] | "Write unreadable" >> beam.io.WriteToText(
        f"{output}-{UNREADABLE}", file_name_suffix=".txt", skip_if_empty=True
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--saved_model", required=True, help="Folder of an exported version.")
    parser.add_argument("--images", required=True, help="Pattern; ** crosses folders.")
    parser.add_argument("--output", required=True, help="Beginning of the result files' names.")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--num_shards", type=int, default=0, help="0: as suits the runner.")
    flags, beam_flags = parser.parse_known_args()
    with beam.Pipeline(options=PipelineOptions(beam_flags)) as pipeline:
        predict(pipeline, **vars(flags))


if __name__ == "__main__":
    main()
