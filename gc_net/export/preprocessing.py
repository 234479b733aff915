"""Decoding and squashing inside a TensorFlow graph, as `gc_net.data.decode` does outside.

Resizing is antialiased, within a grey level or two of `transforms.squash`. Files are JPEG or PNG:
TensorFlow knows no WebP or TIFF, and while it decodes GIF and BMP, those with transparency, a
palette or an unused fourth byte come out as other pixels than outside.
"""

import tensorflow as tf
from keras import ops

from gc_net.data import crops

_LARGEST_HEADER = 1 << 17  # bytes in which the EXIF data of a file are looked for
_WHITE = 255.0
# Of one image. TensorFlow's decoders take ten times as many; as float32, which they become next,
# that would be gigabytes from a file of a few kilobytes.
MAX_PIXELS = 50_000_000


def squash(images, size):
    """Resize images [..., H, W, 3] of any type to float32 [..., size, size, 3] in whole levels."""
    images = tf.image.resize(images, [size, size], method="bilinear", antialias=True)
    # Whole levels as in training, where images are uint8.
    return tf.clip_by_value(tf.round(images), 0.0, 255.0)


def close_ups(images, sizes, boxes_rel_xyxy, look, size):
    """Cut out the regions of the second look, as `gc_net.data.crops` does outside.

    Args:
        images: [B, H, W, 3], or a ragged [B, (H·W), 3] where sizes differ.
        sizes: int32 [B, 2], height and width of each image.
        boxes_rel_xyxy: float32 [B, 4], boxes of the shapes.
        look: Side of the region as a multiple of the box's longer side.
        size: Side to squash to.

    Returns:
        float32 [B, size, size, 3] in whole levels.
    """
    regions = crops.regions(boxes_rel_xyxy, look, namespace=ops)
    pixels = tf.cast(crops.pixels(regions, tf.cast(sizes, tf.float32), namespace=ops), tf.int32)

    def cut(args):
        image, size_of_image, (left, top, right, bottom) = args[0], args[1], tf.unstack(args[2])
        image = tf.reshape(image, [size_of_image[0], size_of_image[1], 3])
        return squash(image[top:bottom, left:right], size)

    return tf.map_fn(
        cut,
        (images, sizes, pixels),
        fn_output_signature=tf.TensorSpec([size, size, 3], tf.float32),
    )


def decode(data):
    """Decode the bytes of a file, a scalar string, to an upright image, float32 [H, W, 3]."""
    is_jpeg = tf.equal(tf.strings.substr(data, 0, 3), b"\xff\xd8\xff")
    image = tf.cond(
        is_jpeg,
        # The default transform is faster and less accurate than the one OpenCV uses.
        lambda: tf.io.decode_jpeg(data, dct_method="INTEGER_ACCURATE"),
        lambda: tf.io.decode_image(data, expand_animations=False),
    )
    pixels = tf.reduce_prod(tf.shape(image)[:2])
    few = tf.debugging.Assert(pixels <= MAX_PIXELS, ["The image has too many pixels:", pixels])
    with tf.control_dependencies([few]):
        image = _over_white(tf.cast(image, tf.float32))
    return _upright(image, exif_orientation(data, is_jpeg))


def exif_orientation(data, is_jpeg):
    """Return the orientation, 1 to 8, in the EXIF data of a JPEG or PNG; 1 where there is none.

    The tag is looked for as it is written in the directory, tag 0x0112, type 3, count 1, in
    either byte order, behind the mark that EXIF data start with.
    """
    head = tf.io.decode_raw(tf.strings.substr(data, 0, _LARGEST_HEADER), tf.uint8)
    start = tf.cond(
        is_jpeg, lambda: _find(head, b"Exif\x00\x00", 0), lambda: _find(head, b"eXIf", 0)
    )
    little = _find(head, b"\x12\x01\x03\x00\x01\x00\x00\x00", start)
    big = _find(head, b"\x01\x12\x00\x03\x00\x00\x00\x01\x00", start)
    # The value follows the tag: its low byte comes first, or second after the zero matched above.
    place = tf.minimum(little + 8, big + 9)
    value = tf.cond(
        place < tf.size(head), lambda: tf.cast(head[place], tf.int32), lambda: tf.constant(1)
    )
    return tf.where((value >= 1) & (value <= 8), value, 1)


def _find(head, pattern, start):
    """Return where `pattern` first stands at or after `start`, or a place beyond the end."""
    length = tf.maximum(tf.size(head) - len(pattern) + 1, 0)
    matches = tf.range(length) >= start
    for offset, byte in enumerate(pattern):
        matches &= head[offset : offset + length] == byte
    places = tf.cast(tf.where(matches)[:, 0], tf.int32)
    return tf.reduce_min(tf.concat([places, [tf.size(head)]], axis=0))


def _over_white(image):
    """Bring 1 to 4 channels to RGB; transparency is laid over white."""
    channels = tf.shape(image)[-1]
    has_alpha = channels % 2 == 0
    alpha = tf.where(has_alpha, image[..., -1:] / 255.0, 1.0)
    colors = image[..., : tf.where(has_alpha, channels - 1, channels)]
    blended = tf.round(colors * alpha + _WHITE * (1.0 - alpha))
    shape = tf.shape(image)
    return tf.ensure_shape(tf.broadcast_to(blended, [shape[0], shape[1], 3]), [None, None, 3])


def _upright(image, orientation):
    """Apply an EXIF orientation: transposed first for 5 to 8, then mirrored."""

    def when(condition, function, image):
        return tf.cond(condition, lambda: function(image), lambda: image)

    def one_of(*values):
        return tf.reduce_any(tf.equal(orientation, values))

    image = when(orientation >= 5, lambda image: tf.transpose(image, [1, 0, 2]), image)
    image = when(one_of(3, 4, 7, 8), lambda image: tf.reverse(image, [0]), image)
    return when(one_of(2, 3, 6, 7), lambda image: tf.reverse(image, [1]), image)
