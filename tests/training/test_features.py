"""Features that are computed once: the same as anew, in an order that can be resumed."""

import numpy as np
import pytest

import gc_net
from gc_net.data import transforms
from gc_net.datasets.creatures import Creatures
from gc_net.stages.config import DataConfig
from gc_net.training import features as module
from gc_net.training.data import TrainingData
from gc_net.training.features import Features, num_bytes, remove_features

INDICES = np.array([1, 2, 5, 7, 8])


@pytest.fixture(scope="module")
def data():
    split = Creatures(num_train=9, num_test=2, image_size=40, num_classes=3).split("train")
    return TrainingData(split, DataConfig(image_size=32, resize_size=36), seed=3)


@pytest.fixture(scope="module", params=["edges", "position"])
def network(request):
    return gc_net.Detector("tiny", "rectangle", 32, head=request.param, weights=None)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_they_are_those_of_the_central_window_and_of_its_mirror_image(data, network, tmp_path):
    found = Features(str(tmp_path / "features"), network, data, INDICES)
    windows = found.windows(data)
    for view in (2, 7):
        image = transforms.squash(data.split.read(int(INDICES[2])), 36)
        image = transforms.take(image, transforms.window_of(windows[view]), 32)[None]
        expected = network.features(image.astype(np.float32))
        expected = expected if isinstance(expected, list) else [expected]
        for maps, each in zip(found.take(np.array([view])), expected, strict=True):
            assert maps.dtype == np.float16
            np.testing.assert_allclose(maps, each, rtol=2e-3, atol=2e-3)
    assert found.num_views == 10
    assert sum(each.nbytes for each in found.take(np.arange(10))) == num_bytes(network, 5)


def test_they_are_computed_once_and_anew_where_anything_differs(
    data, network, tmp_path, monkeypatch
):
    computed = []
    monkeypatch.setattr(module, "evaluation_batches", lambda *args, **kw: computed.append(1) or [])
    folder = str(tmp_path / "features")
    Features(folder, network, data, INDICES)
    Features(folder, network, data, INDICES)
    assert len(computed) == 1
    Features(folder, network, data, INDICES[1:])
    assert len(computed) == 2
    (tmp_path / "features" / "features.json").unlink()  # as in a run that was stopped
    Features(folder, network, data, INDICES[1:])
    assert len(computed) == 3
    other = gc_net.Detector("tiny", "rectangle", 32, head=network.head_name, weights=None)
    Features(folder, other, data, INDICES[1:])
    assert len(computed) == 4
    remove_features(folder)
    remove_features(folder)
    assert not (tmp_path / "features").exists()


def test_an_epoch_has_each_view_once_and_can_be_resumed(data, network, tmp_path):
    found = Features(str(tmp_path / "features"), network, data, INDICES)
    order = {"seed": 3, "epoch": 1}
    batches = list(found.batches(2, **order))
    views = np.concatenate([views for _, views in batches])
    np.testing.assert_array_equal(np.sort(views), np.arange(10))
    again = list(found.batches(2, **order, start_step=3))
    assert len(again) == 2
    for (maps, views), (other, others) in zip(batches[3:], again, strict=True):
        np.testing.assert_array_equal(views, others)
        assert same(maps, other)
        expected = found.take(views.numpy())
        assert same(maps if isinstance(maps, tuple) else [maps], expected)
    others = np.concatenate([views for _, views in found.batches(2, seed=3, epoch=2)])
    assert not np.array_equal(views, others)
    shards = [list(found.batches(4, **order, num_shards=2, shard_index=n)) for n in range(2)]
    whole = list(found.batches(4, **order))
    for step, (_, views) in enumerate(whole):
        parts = np.concatenate([shard[step][1] for shard in shards])
        np.testing.assert_array_equal(np.sort(parts), views)
