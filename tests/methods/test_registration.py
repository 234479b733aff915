"""A method that is registered is measured, and stands in all tables, without another edit."""

import json

import tensorflow as tf

from gc_net.evaluation.evaluate import run_evaluation
from gc_net.experiments import compare
from gc_net.methods import METHODS
from gc_net.methods.base import HeatMapMethod
from tests.evaluation.models import CLASS_NAMES, Blocks, localizer_of, tiny_model


class Brightness(HeatMapMethod):
    """A method for this test: an object is what is bright."""

    name = "brightness"
    title = "How bright <it> is"
    level = 0.5

    def localize(self, forward):
        return tf.reduce_mean(forward.normalized, axis=-1)


def test_it_is_in_the_metrics_the_table_the_report_and_comparisons(tmp_path, capsys):
    localizer_of(tiny_model(), CLASS_NAMES, resize_size=40).save(tmp_path / "model")
    with METHODS.register("brightness", Brightness):
        run_evaluation(
            tmp_path / "model", Blocks(), tmp_path / "evaluation", methods=["brightness"]
        )
    assert "How bright <it> is, cut at 0.5" in capsys.readouterr().out
    metrics = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert [*metrics["methods"]] == ["brightness_fixed", "brightness_best"]
    assert metrics["methods"]["brightness_best"]["corloc"] > 50  # blocks are brighter than ground
    report = (tmp_path / "evaluation" / "report.html").read_text()
    assert "How bright &lt;it&gt; is, cut at 0.5" in report
    run = compare.read_run(tmp_path / "evaluation")
    assert "How bright <it> is, cut at 0.5" in [row.name for row in compare.with_methods(run)]
