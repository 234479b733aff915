"""Batches for training and evaluation: what is in them, in which order, and what is skipped."""

import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from gc_net.data import transforms
from gc_net.data.cache import ImageCache
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import epoch_order, evaluation_batches, num_steps, training_batches
from gc_net.data.splits import DataError
from tests.data import sources
from tests.datasets import samples

SIZE, RESIZE = 28, 32


def train(split, **options):
    options = {"image_size": SIZE, "batch_size": 4, "with_index": True, **options}
    return [tuple(part.numpy() for part in batch) for batch in training_batches(split, **options)]


def evaluate(split, truth=None, **options):
    options = {"image_size": SIZE, "batch_size": 4, **options}
    return list(evaluation_batches(split, truth, **options).as_numpy_iterator())


def indices_of(batches):
    return [batch[2].tolist() for batch in batches]


def flat_indices(batches):
    return np.concatenate([batch[2] for batch in batches] or [[]]).tolist()


def assert_same(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        for part, other_part in zip(batch, other, strict=True):
            np.testing.assert_array_equal(part, other_part)


def test_training_batches_hold_images_and_labels_and_nothing_else():
    split, _ = sources.drawn_split()
    dataset = training_batches(split, image_size=SIZE, batch_size=4)
    assert dataset.element_spec == (
        tf.TensorSpec([None, SIZE, SIZE, 3], tf.uint8),
        tf.TensorSpec([None], tf.int32),
    )
    assert dataset.cardinality() == 5
    images, labels = next(iter(dataset))
    assert images.shape == (4, SIZE, SIZE, 3)
    assert labels.shape == (4,)


def test_every_training_image_is_the_one_its_seed_epoch_and_index_say():
    split, _ = sources.drawn_split()
    windows = transforms.random_windows(len(split), RESIZE, SIZE, seed=7, epoch=3)
    for images, labels, index in train(split, seed=7, epoch=3):
        np.testing.assert_array_equal(labels, split.labels[index])
        for image, place in zip(images, index, strict=True):
            window = transforms.window_of(windows[place])
            squashed = transforms.squash(split.read(place), RESIZE)
            np.testing.assert_array_equal(image, transforms.take(squashed, window, SIZE))


def test_an_epoch_is_a_permutation_that_seed_and_epoch_set():
    split, _ = sources.drawn_split()
    orders = {}
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        order = flat_indices(train(split, seed=seed, epoch=epoch))
        assert sorted(order) == list(range(20))
        assert order == epoch_order(20, seed=seed, epoch=epoch).tolist()
        orders[seed, epoch] = tuple(order)
    assert len(set(orders.values())) == 3
    assert orders[0, 1] == tuple(flat_indices(train(split, epoch=1)))


def test_the_order_does_not_depend_on_which_thread_is_faster():
    split, _ = sources.drawn_split()
    expected = train(split)
    slow = threading.Event()

    def read(index):
        slow.wait(0.03 * (index % 3))
        return split.read(index)

    uneven = type(split)(split.name, split.class_names, split.labels, split.files, split.root, read)
    assert_same(train(uneven), expected)


@pytest.mark.parametrize("start_step", [0, 2, 5])
def test_a_run_resumes_at_any_step_and_reads_nothing_before_it(start_step):
    split, reads = sources.drawn_split()
    whole = train(split, seed=1, epoch=2)
    reads.clear()
    rest = train(split, seed=1, epoch=2, start_step=start_step)
    assert_same(rest, whole[start_step:])
    assert sorted(reads) == sorted(flat_indices(whole[start_step:]))


@pytest.mark.parametrize("start_step", [-1, 6])
def test_a_step_outside_the_epoch_is_an_error(start_step):
    with pytest.raises(ValueError, match=r"from 0 to 5"):
        training_batches(
            sources.drawn_split()[0], image_size=SIZE, batch_size=4, start_step=start_step
        )


@pytest.mark.parametrize(("drop_remainder", "sizes"), [(True, [6, 6, 6]), (False, [6, 6, 6, 2])])
def test_the_remainder_is_dropped_or_kept(drop_remainder, sizes):
    split, _ = sources.drawn_split()
    batches = train(split, batch_size=6, drop_remainder=drop_remainder)
    assert [len(batch[1]) for batch in batches] == sizes
    assert num_steps(20, 6, drop_remainder) == len(sizes)


def test_a_part_of_the_split_keeps_index_and_augmentation():
    split, reads = sources.drawn_split()
    half = np.arange(0, 20, 2)
    batches = train(split, indices=half, batch_size=5)
    assert set(reads) == set(half.tolist())
    everything = {int(index): image for batch in train(split) for image, _, index in zip(*batch)}  # noqa: B905
    for images, _, index in batches:
        for image, place in zip(images, index, strict=True):
            np.testing.assert_array_equal(image, everything[int(place)])


@pytest.mark.parametrize("indices", [[], [20], [-1], [[0]]])
def test_indices_that_do_not_exist_are_an_error(indices):
    with pytest.raises(ValueError, match=r"`indices` must be"):
        train(sources.drawn_split()[0], indices=indices)


def test_without_augmentation_training_sees_the_central_window():
    split, _ = sources.drawn_split()
    images, _, index = train(split, augment=False)[0]
    expected = transforms.squash(split.read(index[0]), RESIZE)[2:30, 2:30]
    np.testing.assert_array_equal(images[0], expected)


def test_a_resize_size_equal_to_the_image_size_only_flips():
    split, _ = sources.drawn_split()
    flipped = set()
    for images, _, index in train(split, resize_size=SIZE):
        for image, place in zip(images, index, strict=True):
            squashed = transforms.squash(split.read(place), SIZE)
            flipped.add(bool((image == squashed[:, ::-1]).all()))
            assert (image == squashed).all() or (image == squashed[:, ::-1]).all()
    assert flipped == {True, False}


def test_with_a_cache_later_epochs_read_nothing_and_give_the_same(tmp_path):
    split, reads = sources.drawn_split()
    cache = ImageCache(tmp_path, split, RESIZE)
    plain = [train(split, epoch=epoch) for epoch in range(3)]
    reads.clear()
    assert_same(train(split, epoch=0, cache=cache), plain[0])
    assert sum(reads.values()) == 20
    reads.clear()
    for epoch in (1, 2):
        assert_same(train(split, epoch=epoch, cache=cache), plain[epoch])
    assert not reads
    assert_same(train(split, epoch=1, cache=str(tmp_path)), plain[1])  # opened by its folder
    evaluated = evaluate(split, cache=cache)
    assert [batch["size"].tolist() for batch in evaluated] == [
        batch["size"].tolist() for batch in evaluate(split)
    ]


def test_a_cache_of_other_images_is_refused(tmp_path):
    split, _ = sources.drawn_split()
    with pytest.raises(ValueError, match=r"at 40 pixels; the 'train' split at 32 is asked for"):
        train(split, cache=ImageCache(tmp_path, split, 40))
    other, _ = sources.drawn_split(8)
    with pytest.raises(ValueError, match=r"is asked for"):
        train(split, cache=ImageCache(tmp_path, other, RESIZE))


def test_unreadable_images_leave_their_batch_and_nothing_else_moves(caplog):
    split, _ = sources.drawn_split()
    broken, _ = sources.drawn_split(unreadable={3, 8})
    unreadable = Unreadable()
    whole, batches = train(split), train(broken, unreadable=unreadable)
    assert len(batches) == len(whole)
    for batch, full in zip(batches, whole, strict=True):
        kept = ~np.isin(full[2], [3, 8])
        for part, full_part in zip(batch, full, strict=True):
            np.testing.assert_array_equal(part, full_part[kept])
    reason = "broken on purpose, number"
    assert list(unreadable) == [("drawn-3", f"{reason} 3"), ("drawn-8", f"{reason} 8")]
    assert caplog.text == ""
    assert unreadable.summary().startswith("2 unreadable images skipped:\n  drawn-3: broken on")


def test_without_a_collector_every_unreadable_image_is_logged_once(caplog):
    train(sources.drawn_split(unreadable={3})[0])
    assert caplog.text.count("Skipped drawn-3, which cannot be read: broken on purpose") == 1


def test_the_summary_names_some_and_counts_the_rest():
    unreadable = Unreadable()
    assert unreadable.summary() == ""
    for number in range(30):
        unreadable.add(f"{number:02d}.jpg", "torn")
    summary = unreadable.summary(limit=2)
    assert summary == (
        "30 unreadable images skipped:\n  00.jpg: torn\n  01.jpg: torn\n  and 28 more"
    )


def test_a_batch_with_no_readable_image_takes_the_next_one():
    order = epoch_order(20, seed=0, epoch=0).tolist()
    split, _ = sources.drawn_split(unreadable=set(order[4:9]))
    batches = train(split, unreadable=Unreadable())
    assert indices_of(batches)[:3] == [order[:4], [order[9]], order[9:12]]
    last, _ = sources.drawn_split(unreadable=set(order[16:]))
    assert indices_of(train(last, unreadable=Unreadable()))[-1] == [order[0]]


@pytest.mark.parametrize("indices", [None, [1, 4, 6, 7]])
def test_a_split_that_cannot_be_read_at_all_is_an_error(indices):
    split, _ = sources.drawn_split(unreadable=range(20))
    for batches in (train, evaluate):
        with pytest.raises(tf.errors.OpError, match=r"None of the .* images.*can be read"):
            batches(split, indices=indices, unreadable=Unreadable())


def test_too_few_images_for_a_batch_and_an_empty_split_are_errors():
    split, _ = sources.drawn_split(3)
    with pytest.raises(DataError, match=r"3 images, fewer than one batch of 4"):
        train(split)
    assert len(train(split, drop_remainder=False)[0][1]) == 3
    with pytest.raises(DataError, match=r"'train' split in drawn is empty"):
        train(sources.drawn_split(0)[0])


def test_shards_together_are_the_batches_and_read_only_their_own():
    split, reads = sources.drawn_split()
    whole = train(split)
    shards = []
    for shard in range(2):
        reads.clear()
        shards.append(train(split, num_shards=2, shard_index=shard))
        assert sum(reads.values()) == 10
    for full, *parts in zip(whole, *shards, strict=True):
        for part, pieces in zip(full, zip(*parts, strict=True), strict=True):
            np.testing.assert_array_equal(np.concatenate(pieces), part)


@pytest.mark.parametrize("options", [{"batch_size": 5}, {"drop_remainder": False}])
def test_a_batch_that_workers_cannot_share_is_an_error(options):
    with pytest.raises(ValueError, match=r"cannot be shared by 2 workers"):
        train(sources.drawn_split()[0], num_shards=2, **options)


def test_evaluation_keeps_the_order_and_gives_sizes():
    split, _ = sources.drawn_split(10)
    batches = evaluate(split)
    assert [len(batch["label"]) for batch in batches] == [4, 4, 2]
    assert set(batches[0]) == {"image", "label", "index", "size"}
    index = np.concatenate([batch["index"] for batch in batches])
    np.testing.assert_array_equal(index, np.arange(10))
    for batch in batches:
        for image, label, place, size in zip(
            batch["image"], batch["label"], batch["index"], batch["size"], strict=True
        ):
            original = split.read(place)
            assert tuple(size) == original.shape[:2]
            assert label == split.labels[place]
            expected = transforms.squash(original, RESIZE)[2:30, 2:30]
            np.testing.assert_array_equal(image, expected)


def test_the_full_frame_is_the_whole_image():
    split, _ = sources.drawn_split(4)
    image = evaluate(split, frame="full")[0]["image"][1]
    np.testing.assert_array_equal(image, transforms.squash(split.read(1), SIZE))
    for wrong in ({"ten_crop": True}, {"resize_size": RESIZE}):
        with pytest.raises(ValueError, match=r"'full' frame has no crops"):
            evaluate(split, frame="full", **wrong)
    with pytest.raises(ValueError, match=r"'crop' or 'full'. Received: 'whole'"):
        evaluate(split, frame="whole")


@pytest.mark.parametrize(("frame", "resize", "offset"), [("crop", RESIZE, 2), ("full", SIZE, 0)])
def test_boxes_are_relative_to_the_frame_padded_and_not_clipped(frame, resize, offset):
    split, _ = sources.drawn_split(9, unreadable={4})
    truth = sources.truth_of(split)
    truth.boxes[0] = (-30, -30, 90, 90)
    batches = evaluate(split, truth, frame=frame, unreadable=Unreadable())
    seen = []
    for batch in batches:
        assert batch["boxes_rel_xyxy"].shape[1:] == (3, 4)
        for place, size, boxes, count in zip(
            batch["index"], batch["size"], batch["boxes_rel_xyxy"], batch["num_boxes"], strict=True
        ):
            seen.append(int(place))
            height, width = size
            expected = truth.boxes_of(place) / [width, height, width, height]
            expected = (expected * resize - offset) / SIZE
            assert count == len(expected)
            np.testing.assert_allclose(boxes[:count], expected, rtol=1e-5, atol=1e-6)
            assert (boxes[count:] == 0).all()
    assert seen == [0, 1, 2, 3, 5, 6, 7, 8]
    assert batches[0]["boxes_rel_xyxy"][0, 0, 0] < 0


def test_a_split_whose_images_have_no_box_still_has_box_tensors():
    split, _ = sources.drawn_split(4)
    batch = evaluate(split, sources.truth_of(split, (0,)))[0]
    assert batch["boxes_rel_xyxy"].shape == (4, 1, 4)
    assert batch["num_boxes"].tolist() == [0] * 4


def test_ten_crop_gives_ten_windows_whose_fifth_is_the_centre():
    split, _ = sources.drawn_split(5)
    batch = evaluate(split, ten_crop=True)[0]
    assert batch["image"].shape == (4, 10, SIZE, SIZE, 3)
    np.testing.assert_array_equal(batch["image"][:, 4], evaluate(split)[0]["image"])
    np.testing.assert_array_equal(batch["image"][:, 5:], batch["image"][:, :5, :, ::-1])


def test_an_evaluation_batch_with_no_readable_image_is_left_out():
    split, _ = sources.drawn_split(6, unreadable={2, 3})
    batches = evaluate(split, batch_size=2, unreadable=Unreadable())
    assert [batch["index"].tolist() for batch in batches] == [[0, 1], [4, 5]]


def test_evaluation_of_chosen_images_keeps_their_order():
    split, _ = sources.drawn_split()
    batches = evaluate(split, indices=[7, 3, 11], batch_size=2)
    assert [batch["index"].tolist() for batch in batches] == [[7, 3], [11]]


def test_files_are_read_at_a_reduced_size_with_their_true_size(tmp_path):
    from tests.data import encoded

    split = sources.file_split(tmp_path, num_images=2)
    (tmp_path / split.file(0)).write_bytes(encoded.jpeg(encoded.photo(300, 400)))
    batch = evaluate(split)[0]
    assert batch["size"].tolist() == [[300, 400], [47, 60]]
    whole = transforms.squash(split.read(0), RESIZE)[2:30, 2:30].astype(int)
    assert 0 < np.abs(whole - batch["image"][0]).mean() < 1


@pytest.mark.data
@pytest.mark.parametrize(("name", "folder"), [("cub", "CUB_200_2011"), ("ilsvrc", "ILSVRC")])
def test_real_images_are_all_readable_and_their_boxes_lie_in_the_frame(name, folder):
    from gc_net import datasets

    dataset = datasets.get(name, data_dir=samples.real_data(folder))
    split, truth = dataset.split("test"), dataset.truth("test")
    unreadable = Unreadable()
    chosen = np.linspace(0, len(split) - 1, 200).astype(int)
    batches = evaluate(
        split, truth, indices=chosen, batch_size=50, frame="full", unreadable=unreadable
    )
    assert unreadable.summary() == ""
    for batch in batches:
        assert (batch["num_boxes"] > 0).all()
        boxes_rel_xyxy = batch["boxes_rel_xyxy"]
        assert boxes_rel_xyxy.min() >= -0.02
        assert boxes_rel_xyxy.max() <= 1.02
        assert (boxes_rel_xyxy[..., 2:] >= boxes_rel_xyxy[..., :2]).all()


GROWTH = """
import gc
import os
from gc_net.data.pipeline import training_batches
from tests.data import sources

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

split, _ = sources.drawn_split(256, height=8, width=8)
options = {"image_size": 128, "batch_size": 32, "resize_size": 128}  # 12.6 MB an epoch
for epoch in range(24):
    if epoch == 4:
        gc.collect()
        before = resident()
    for _ in training_batches(split, epoch=epoch, **options):
        pass
gc.collect()
print(resident() - before)
"""


def test_memory_does_not_grow_over_epochs():
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    # In a process of its own: what other tests have given back would be taken anew.
    done = subprocess.run(
        [sys.executable, "-c", GROWTH],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr[-3000:]
    assert int(done.stdout) < 40e6  # 20 epochs are 250 MB


DISTRIBUTED = """
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from gc_net.data.loading import Unreadable
from gc_net.data.pipeline import training_batches
from tests.data import sources

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for broken, last in (((), 4), ({3}, 4)):
    split, reads = sources.drawn_split(unreadable=broken)
    make = lambda: training_batches(
        split, image_size=28, batch_size=4, with_index=True, unreadable=Unreadable())
    alone = [index.numpy().tolist() for _, _, index in make()]
    reads.clear()
    together = []
    for images, labels, index in strategy.experimental_distribute_dataset(make()):
        parts = [part.numpy().tolist() for part in strategy.experimental_local_results(index)]
        assert len(parts) == 2 and abs(len(parts[0]) - len(parts[1])) <= 1, parts
        together.append(sum(parts, []))
    assert together == alone, (together, alone)
    assert sum(reads.values()) == 20, reads
with strategy.scope():
    model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(),
                              keras.layers.Dense(5)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(training_batches(split, image_size=28, batch_size=4), verbose=0)
assert np.isfinite(history.history["loss"]).all()
print("done")
"""


def test_two_replicas_share_every_batch_and_keras_fits_on_them():
    done = subprocess.run(
        [sys.executable, "-c", DISTRIBUTED],
        cwd=pathlib.Path(__file__).parents[2],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]


@pytest.mark.parametrize(("num_shards", "policy"), [(1, "DATA"), (2, "OFF")])
def test_the_sharding_policy_is_set(num_shards, policy):
    dataset = training_batches(
        sources.drawn_split()[0], image_size=SIZE, batch_size=4, num_shards=num_shards
    )
    found = dataset.options().experimental_distribute.auto_shard_policy
    assert found == tf.data.experimental.AutoShardPolicy[policy]
