"""Tables of several runs."""

import json

import pytest

from gc_net.experiments import compare
from gc_net.experiments.compare import Run
from gc_net.experiments.sweep import SWEEPS
from gc_net.settings import read_pairs


def run(name="run", **changes):
    settings = {
        "shape": "rotated_ellipse",
        "rotates": True,
        "generator": "learned",
        "alpha": 1.0,
        "beta": 1.0,
        "gamma": 1.0,
    }
    settings.update({key: changes.pop(key) for key in list(changes) if key in settings})
    metrics = {
        "num_images": 100,
        "dataset": "cub",
        "split": "test",
        "protocol": "paper",
        "ten_crop": False,
        "cls_err_top1": 20.0,
        "loc_err_top1": 40.0,
        "loc_err_top5": 30.0,
        "corloc": 70.0,
        "settings": settings,
    }
    return Run(name, {**metrics, **changes})


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


class TestMarkdown:
    def test_has_a_row_for_each_run_and_the_best_in_bold(self):
        lines = compare.table([run("a"), run("b", corloc=75.5, loc_err_top1=41.0)]).splitlines()
        assert cells(lines[0]) == [
            "Method",
            "ClsErr top-1",
            "LocErr top-1",
            "LocErr top-5",
            "CorLoc",
        ]
        assert cells(lines[2]) == ["a", "**20.00**", "**40.00**", "**30.00**", "70.00"]
        assert cells(lines[3]) == ["b", "**20.00**", "41.00", "**30.00**", "**75.50**"]

    def test_of_one_run_has_nothing_to_set_off(self):
        assert "**" not in compare.table([run()])

    def test_a_bar_in_a_name_breaks_no_table(self):
        line = compare.table([run("a|b")]).splitlines()[2]
        assert line.startswith(r"| a\|b |")


class TestSeeds:
    def test_become_mean_and_sample_deviation(self):
        runs = [run("same", corloc=value) for value in (70.0, 72.0, 77.0)]
        line = compare.table(runs).splitlines()[2]
        assert cells(line)[-1] == "73.00 ± 3.61"  # √((9 + 1 + 16) / 2)

    def test_of_one_variant_are_found_by_its_settings(self):
        runs = [run("x", alpha=0.0), run("y", alpha=0.0), run("z")]
        lines = compare.table(runs, "losses").splitlines()
        assert len(lines) == 4
        assert cells(lines[2])[0] == "L<sub>o</sub> + L<sub>b</sub>"
        assert cells(lines[3])[0] == "L<sub>a</sub> + L<sub>o</sub> + L<sub>b</sub>"


class TestRunsOfOneRow:
    @pytest.mark.parametrize(
        ("form", "change", "advice"),
        [
            ("methods", {"shape": "rectangle"}, "Name them: `name=path`"),
            ("all", {"gamma": 0.5}, "Name them: `name=path`"),
            ("losses", {"shape": "rectangle"}, "Make a table of each"),
            ("geometries", {"alpha": 2.5}, "Make a table of each"),
        ],
    )
    def test_that_differ_in_their_settings_are_refused(self, tmp_path, form, change, advice):
        runs = []
        for folder, changes in (("a", {}), ("b", change)):
            path = tmp_path / folder / "seed0"
            path.mkdir(parents=True)
            (path / "metrics.json").write_text(json.dumps(run(**changes).metrics))
            runs.append(compare.read_run(path))
        assert runs[0].name == runs[1].name == "seed0"
        name, value = next(iter(change.items()))
        first, second = (str(tmp_path / folder / "seed0" / "metrics.json") for folder in "ab")
        with pytest.raises(ValueError) as caught:
            compare.table(runs, form)
        message = str(caught.value)
        assert f"differ in {name}: {runs[0].settings[name]} ({first})" in message
        assert f"{value} ({second})" in message and advice in message

    def test_are_told_apart_by_their_loss_weights(self):
        runs = [run("same"), run("same")]
        runs[0].settings["loss_weights"] = {"object": 1.0, "area": 1.0}
        runs[1].settings["loss_weights"] = {"area": 1.0, "object": 1.0}
        compare.table(runs)
        runs[1].settings["loss_weights"] = {"area": 2.5, "object": 1.0}
        with pytest.raises(ValueError, match=r"area=1,object=1 \(same\), area=2.5,object=1 \("):
            compare.table(runs)

    def test_may_have_been_measured_before_a_setting_was_recorded(self):
        older = run("same", corloc=72.0)
        del older.settings["rotates"]
        assert "71.00 ± 1.41" in compare.table([run("same"), older])

    @pytest.mark.parametrize("sweep", sorted(SWEEPS))
    def test_of_the_papers_sweeps_are_those_of_one_variant(self, sweep):
        runs = []
        for name, changes in SWEEPS[sweep].items():
            own = {key.removeprefix("detector_"): value for key, value in changes.items()}
            given = read_pairs(own.pop("loss_weights", ""), "loss_weights")
            of_variant = [run(name, corloc=value, **own) for value in (70.0, 72.0)]
            for each in of_variant:  # as evaluation writes them: those of all terms
                weights = {"area": 1.0, "object": 1.0, "background": 1.0, **given}
                each.settings["loss_weights"] = weights
            runs += of_variant
        text = compare.table(runs, sweep)
        assert text.count("± 1.41") == len(SWEEPS[sweep])


class TestText:
    def test_is_aligned_and_names_a_group_once(self):
        runs = [run("a"), run("longer", corloc=5.0)]
        lines = compare.table(runs, table_format="text").splitlines()
        assert " ".join(lines[0].split()) == "Method ClsErr top-1 LocErr top-1 top-5 CorLoc"
        assert lines[2].split() == ["a", "20.00", "40.00", "30.00", "70.00"]
        assert len({len(line) for line in lines}) == 1


class TestLaTeX:
    def test_has_the_form_of_the_papers_second_table(self):
        runs = [
            run(shape="rectangle", rotates=False),
            run(shape="rectangle", rotates=False, generator="model"),
            run(corloc=81.05),
        ]
        assert compare.table(runs, "geometries", "latex").splitlines() == [
            r"\begin{tabular}{lllrrr}",
            r"\toprule",
            r" &  &  & \multicolumn{2}{c}{LocErr} &  \\",
            r"\cmidrule(lr){4-5}",
            r"Strategy & Geometry & Rotation & top-1 & top-5 & CorLoc \\",
            r"\midrule",
            r"Learning-driven & Rectangle & $\times$ & \textbf{40.00} & \textbf{30.00} & 70.00 \\",
            r"Learning-driven & Rotated ellipse & \checkmark & \textbf{40.00} & \textbf{30.00} & "
            r"\textbf{81.05} \\",
            r"\midrule",
            r"Model-driven & Rectangle & $\times$ & \textbf{40.00} & \textbf{30.00} & 70.00 \\",
            r"\bottomrule",
            r"\end{tabular}",
        ]

    def test_escapes_names(self):
        text = compare.table([run("50%_of & more\\{}~^")], table_format="latex")
        assert r"50\%\_of \& more\textbackslash{}\{\}\textasciitilde{}\textasciicircum{} &" in text

    def test_writes_losses_as_the_paper_does(self):
        text = compare.table([run(gamma=0.0)], "losses", "latex")
        assert r"$\mathcal{L}_a$ + $\mathcal{L}_o$ &" in text


class TestMethods:
    def test_follow_their_run_and_tuned_ones_never_win(self):
        methods = {
            "cam_fixed": {"title": "CAM, cut at 0.2", "tuned": False, "corloc": 50.0},
            "cam_best": {"title": "CAM, best cut 0.1", "tuned": True, "corloc": 99.0},
        }
        rows = compare.with_methods(run("ours", methods=methods))
        lines = compare.table(rows).splitlines()
        assert cells(lines[2])[-1] == "**70.00**"
        assert cells(lines[3]) == ["CAM, cut at 0.2", "–", "–", "–", "50.00"]
        assert cells(lines[4]) == ["CAM, best cut 0.1 *", "–", "–", "–", "99.00"]

    @pytest.mark.parametrize(
        ("form", "own", "others"),
        [
            ("losses", ["L<sub>a</sub> + L<sub>o</sub> + L<sub>b</sub>"], []),
            ("geometries", ["Learning-driven", "Rotated ellipse", "✓"], ["–", "–"]),
        ],
    )
    def test_are_rows_of_their_own_where_rows_are_told_apart_by_settings(self, form, own, others):
        methods = {
            "constant": {"title": "Centred box", "tuned": False, "corloc": 40.0},
            "cam": {"title": "CAM, cut at 0.2", "tuned": False, "corloc": 50.0},
        }
        rows = compare.with_methods(run("ours", corloc=80.0, methods=methods))
        found = [cells(line) for line in compare.table(rows, form).splitlines()[2:]]
        assert [row[: len(own)] for row in found if any(row)] == [
            own,
            ["Centred box", *others],
            ["CAM, cut at 0.2", *others],
        ]
        assert [row[-1] for row in found if any(row)] == ["**80.00**", "40.00", "50.00"]


class TestReading:
    def test_finds_the_file_below_a_run_and_names_it_by_the_folder(self, tmp_path):
        folder = tmp_path / "ellipse" / "evaluation"
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps(run().metrics))
        for path in (tmp_path / "ellipse", folder, folder / "metrics.json"):
            assert compare.read_run(path).name == "ellipse"
        named = compare.read_run(f"My run={folder}")
        assert named.name == "My run"
        assert named.metrics["corloc"] == 70.0

    def test_says_where_there_is_none(self, tmp_path):
        with pytest.raises(ValueError, match=r"no metrics.json at .*gc-net evaluate"):
            compare.read_run(tmp_path)

    def test_says_which_file_is_damaged(self, tmp_path):
        (tmp_path / "metrics.json").write_text("{")
        with pytest.raises(ValueError, match=r"metrics.json is damaged"):
            compare.read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("protocol", "full"), ("dataset", "ilsvrc"), ("num_images", 7)]
)
def test_runs_that_were_measured_otherwise_are_refused(name, value):
    with pytest.raises(ValueError, match=f"differ in {name}: .*{value} \\(b\\)"):
        compare.table([run("a"), run("b", **{name: value})])


def test_runs_on_other_images_are_refused_where_it_is_known():
    first, second = run("a", images="9 images, aa"), run("b", images="9 images, bb")
    with pytest.raises(ValueError, match=r"differ in images: 9 images, aa \(a\), .*bb \(b\)"):
        compare.table([first, second])
    assert compare.table([first, run("b")])  # measured before it was recorded


def test_intervals_stand_beside_single_runs():
    line = compare.table([run(corloc_ci95=[68.0, 72.0])], intervals=True).splitlines()[2]
    assert cells(line)[-1] == "70.00 [68.00, 72.00]"
