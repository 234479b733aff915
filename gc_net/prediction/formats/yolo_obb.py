"""YOLO-OBB: like YOLO, with lines of `class x1 y1 x2 y2 x3 y3 x4 y4`, relative to the image."""

from gc_net.prediction.formats.yolo import Yolo, line


class YoloObb(Yolo):
    """Writes `yolo_obb/` with the corners of the smallest rotated rectangle, clockwise.

    Corners outside the image are moved to its border, because Ultralytics skips such images.
    """

    folder_name = "yolo_obb"

    def text(self, file, prediction):
        height, width = prediction.size
        corners = prediction.oriented_box().corners() / (width, height)
        return line(prediction.class_id, corners.ravel().tolist())
