"""What the real images give; measured values stand beside what they are compared with."""

import numpy as np
import pytest

from gc_net.data import transforms
from gc_net.data.decode import read_size
from gc_net.datasets import get
from gc_net.evaluation import protocols
from gc_net.methods.constant import Constant
from tests.datasets.samples import real_data

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "resize_size", "fixed", "best"),
    [("paper", 256, 58.3, 58.7), ("full", 224, 54.8, 58.8), ("wsoleval", 224, 55.5, 59.6)],
)
def test_the_best_centred_box_is_right_on_six_birds_of_ten(name, resize_size, fixed, best):
    dataset = get("cub", data_dir=real_data("CUB_200_2011"))
    split, truth = dataset.split("test"), dataset.truth("test")
    sizes = np.array([read_size(split.read.path(index)) for index in range(len(split))])
    boxes_xyxy, count = truth.boxes[:, None], np.ones(len(split), int)
    window = transforms.center_window(resize_size, 224)
    boxes_rel_xyxy = transforms.boxes_in_window(
        boxes_xyxy, sizes[:, None], window, resize_size, 224
    )
    protocol = protocols.get(name)
    truth_boxes = protocol.truth_boxes(boxes_rel_xyxy, boxes_xyxy, sizes)
    scores = Constant().scores(protocol, truth_boxes, count, None, None)
    # 2,846 of the 5,794 test images; 59.0 was measured on all of them in the crop.
    corloc = [100 * protocol.hits(score.iou).mean() for score in scores]
    np.testing.assert_allclose(corloc, [fixed, best], atol=1.0)
