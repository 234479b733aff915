"""Weights in .npz files: names, precision, errors."""

import io
import resource
import zipfile

import keras
import numpy as np
import pytest

from gc_net import weights


def small_model(name, outputs=3):
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, name="conv")(inputs)
    x = keras.layers.BatchNormalization(name="bn")(x)
    x = keras.layers.Dropout(0.5, name="dropout")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, name="outputs")(x), name=name)


def values(model):
    return {key: np.array(value) for key, value in weights.named_variables(model).items()}


class Holder(keras.Model):
    """A subclassed model: its variables' paths start with its own name."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.part = small_model("part")
        self.dense = keras.layers.Dense(2, name="dense")

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(), name="scale")
        self.dense.build((None, 3))

    def call(self, x):
        return self.dense(self.part(x)) * self.scale


@keras.saving.register_keras_serializable(package="gc_net_tests")
class Pair(keras.layers.Layer):
    """A layer, no model, that holds two others."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = keras.layers.Dense(2, name="first")
        self.second = keras.layers.Dense(2, name="second")

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build((None, 2))

    def call(self, x):
        return self.second(self.first(x))


def test_names_are_layer_names_relative_to_the_model():
    expected = ["conv/kernel", "conv/bias", "bn/gamma", "bn/beta", "bn/moving_mean"]
    expected += ["bn/moving_variance", "outputs/kernel", "outputs/bias"]
    assert sorted(weights.named_variables(small_model("a"))) == sorted(expected)


def test_names_do_not_depend_on_the_enclosing_model():
    holder = Holder(name="outer")
    holder.build((None, 8, 8, 3))
    names = set(weights.named_variables(holder))
    assert {"scale", "dense/kernel", "part/conv/kernel"} <= names
    assert len(names) == 8 + 3
    wrapped = keras.Sequential([keras.Input((8, 8, 3)), small_model("part")], name="sequence")
    assert {name for name in names if name.startswith("part/")} == set(
        weights.named_variables(wrapped)
    )


def test_names_reach_into_layers_that_hold_layers():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, Pair(name="pair")(inputs), name="outer")
    assert set(weights.named_variables(model)) == {
        f"pair/{layer}/{part}" for layer in ("first", "second") for part in ("kernel", "bias")
    }


@pytest.mark.parametrize("dtype,tolerance", [("float16", 2**-11), ("float32", 0)])
def test_a_model_of_another_name_takes_what_was_saved(tmp_path, dtype, tolerance):
    saved, loaded = small_model("a"), small_model("b")
    weights.save_weights_npz(tmp_path / "w.npz", saved, dtype=dtype)
    assert weights.load_weights_npz(tmp_path / "w.npz", loaded) == []
    for key, value in values(saved).items():
        np.testing.assert_allclose(values(loaded)[key], value, rtol=tolerance, atol=1e-7)


def test_a_prefix_loads_one_part_of_a_file(tmp_path):
    part = small_model("part")
    whole = keras.Sequential([keras.Input((8, 8, 3)), part, keras.layers.Dense(2)])
    weights.save_weights_npz(tmp_path / "w.npz", whole, dtype="float32")
    other = small_model("other")
    weights.load_weights_npz(tmp_path / "w.npz", other, prefix="part")
    for key, value in values(part).items():
        np.testing.assert_array_equal(values(other)[key], value)


@pytest.mark.parametrize(
    "array,stored",
    [
        (np.array([0.1, 1.0, -3.0]), "float16"),
        (np.array([0.0, 1.0]), "float16"),
        (np.array([1e-6, 1.0]), "float32"),  # a variance that half precision would spoil
        (np.array([1e5, 1.0]), "float32"),  # beyond 65,504
        (np.array([[1e-6, 1.0]]), "float16"),  # in a kernel, nothing beside its neighbour
        (np.full((2, 2), 3e-7), "float32"),
        (np.array([3, 70000], "int32"), "int32"),
    ],
)
def test_half_precision_is_used_only_where_it_just_rounds(tmp_path, array, stored):
    array = array if array.dtype == np.int32 else array.astype("float32")
    weights.save_weights_npz(tmp_path / "w.npz", {"a": array})
    assert np.load(tmp_path / "w.npz")["a"].dtype == stored
    read = weights.read_weights_npz(tmp_path / "w.npz")["a"]
    assert read.dtype == array.dtype or read.dtype == np.float32
    np.testing.assert_allclose(read, array, rtol=2**-11, atol=1e-7)


def test_bfloat16_variables_can_be_saved(tmp_path):
    layer = keras.layers.Dense(2, dtype="bfloat16", name="dense")
    layer.build((None, 3))
    weights.save_weights_npz(tmp_path / "w.npz", layer)
    np.testing.assert_allclose(
        weights.read_weights_npz(tmp_path / "w.npz")["kernel"],
        np.asarray(layer.kernel).astype("float32"),
    )


def test_files_do_not_fit_models_with_other_layers(tmp_path):
    arrays = values(small_model("a"))
    arrays["surplus/kernel"] = arrays.pop("conv/kernel")
    model = small_model("b")
    before = values(model)
    weights.save_weights_npz(tmp_path / "w.npz", arrays)
    with pytest.raises(ValueError, match=r"w\.npz.*not found: conv/kernel\..*surplus/kernel"):
        weights.load_weights_npz(tmp_path / "w.npz", model)
    for key, value in values(model).items():
        np.testing.assert_array_equal(value, before[key])


def test_other_shapes_are_an_error_or_are_skipped_by_wish(tmp_path):
    saved, model = small_model("a", outputs=5), small_model("b", outputs=3)
    weights.save_weights_npz(tmp_path / "w.npz", saved, dtype="float32")
    before = values(model)
    with pytest.raises(ValueError, match=r"outputs/kernel is \(4, 5\), expected \(4, 3\)"):
        weights.load_weights_npz(tmp_path / "w.npz", model)
    np.testing.assert_array_equal(values(model)["conv/kernel"], before["conv/kernel"])
    skipped = weights.load_weights_npz(tmp_path / "w.npz", model, skip_mismatch=True)
    assert skipped == ["outputs/kernel", "outputs/bias"]
    np.testing.assert_array_equal(values(model)["outputs/kernel"], before["outputs/kernel"])
    np.testing.assert_array_equal(values(model)["conv/kernel"], values(saved)["conv/kernel"])


def test_missing_and_foreign_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no weights file .*absent\.npz"):
        weights.read_weights_npz(tmp_path / "absent.npz")
    for content in (b"", b"not a zip", b"PK\x03\x04broken"):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"bad\.npz.*not a readable \.npz"):
            weights.read_weights_npz(tmp_path / "bad.npz")
    np.savez(tmp_path / "pickle.npz", a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"pickle\.npz.*not a readable \.npz"):
        weights.read_weights_npz(tmp_path / "pickle.npz")


def test_a_file_damaged_anywhere_is_named(tmp_path):
    path = tmp_path / "bad.npz"
    weights.save_weights_npz(path, {"a": np.random.default_rng(0).random(300, "float32")})
    whole, whole_arrays = path.read_bytes(), weights.read_weights_npz(path)
    start = whole.index(b"a.npy") + 40  # the compressed array, before the zip's directory
    positions = range(start, whole.rindex(b"PK\x01\x02"), 5)
    named = 0
    for position in positions:
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            found = weights.read_weights_npz(path)
        except ValueError as error:
            named += 1
            assert "bad.npz" in str(error) and "not a readable .npz" in str(error)
        else:
            # bzip2 has bits that mean nothing; the checksum says that all others are right.
            np.testing.assert_array_equal(found["a"], whole_arrays["a"])
    assert named > 0.95 * len(positions)


def test_a_damaged_header_is_named(tmp_path):
    path = tmp_path / "bad.npz"
    weights.save_weights_npz(path, {"a": np.zeros(300, "float32")})
    whole = path.read_bytes()
    directory = whole.rindex(b"PK\x01\x02")
    flags, method = directory + 8, directory + 10  # encrypted; a compression that nobody has
    for place, value in ((flags, whole[flags] | 1), (method, 77)):
        damaged = bytearray(whole)
        damaged[place] = value
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"bad\.npz.*not a readable \.npz"):
            weights.read_weights_npz(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    weights.save_weights_npz(tmp_path / "w.npz", {"a": np.ones(3, "float32")})

    def full_disk(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(np.lib.format, "write_array", full_disk)
    with pytest.raises(OSError, match="no space"):
        weights.save_weights_npz(tmp_path / "w.npz", {"a": np.zeros(3, "float32")})
    assert [file.name for file in tmp_path.iterdir()] == ["w.npz"]
    np.testing.assert_array_equal(weights.read_weights_npz(tmp_path / "w.npz")["a"], np.ones(3))


def test_unknown_storage_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match="int8"):
        weights.save_weights_npz(tmp_path / "w.npz", {}, dtype="int8")


def packed(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        for name, chunks in entries.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                for chunk in chunks:
                    entry.write(chunk)


def npy_header(shape, dtype="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": dtype}
    )
    return file.getvalue()


def test_nothing_is_unpacked_that_the_model_does_not_expect(tmp_path):
    path, model = tmp_path / "w.npz", small_model("a")
    zeros, count = bytes(2**20), 64
    arrays = {
        key: [npy_header(tuple(value.shape)), bytes(4 * value.size)]
        for key, value in values(model).items()
    }
    bombs = {
        "an array too many": {"bomb": [npy_header((count * 2**18,)), *[zeros] * count]},
        "a shape too large": {"conv/kernel": [npy_header((count * 2**18,)), *[zeros] * count]},
        "more than the shape": {"conv/kernel": [npy_header((3, 3, 3, 4)), *[zeros] * count]},
        "a shape that is not there": {"conv/kernel": [npy_header((3, 3, 3, 4)), b"1234"]},
    }
    for name, bomb in bombs.items():
        packed(path, arrays | bomb)
        assert path.stat().st_size < 20_000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(ValueError, match=r"w\.npz"):
            weights.load_weights_npz(path, model)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 32 * 1024, name  # kB; unpacked it is 64 MB


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_and_nothing_is_changed(tmp_path, value):
    model = small_model("a")
    before = values(model)
    arrays = {key: array.copy() for key, array in before.items()}
    arrays["outputs/bias"][1] = value
    weights.save_weights_npz(tmp_path / "w.npz", arrays, dtype="float32")
    with pytest.raises(ValueError, match=r"w\.npz are not finite: outputs/bias\."):
        weights.load_weights_npz(tmp_path / "w.npz", model)
    np.testing.assert_array_equal(values(model)["conv/kernel"], before["conv/kernel"])


def test_arrays_in_the_order_of_fortran_are_read_as_they_are(tmp_path):
    array = np.arange(6, dtype="float32").reshape(2, 3)
    np.savez(tmp_path / "w.npz", a=np.asfortranarray(array))
    np.testing.assert_array_equal(weights.read_weights_npz(tmp_path / "w.npz")["a"], array)
