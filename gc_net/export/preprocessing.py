"""Decoding and squashing inside a TensorFlow graph, as `gc_net.data.decode` does outside.

The input of a network must not depend on how it is called. So images are squashed with the
arithmetic of `transforms.squash`, OpenCV's fixed-point numbers included, and large JPEGs are
decoded at a reduced size in the same cases.

Files must be JPEG or PNG by their first bytes. No other decoder of TensorFlow can be reached. That
of WebP wrote beyond its memory for an animation. That of GIF ignores the header and decodes all
frames. GIF and BMP give other pixels than outside of the graph. The decoder's own library reads the
size of a file's image, and the size is limited before anything is decoded.
"""

import tensorflow as tf
from keras import ops

from gc_net.data import crops, transforms
from gc_net.data.decode import REDUCTION_MARGIN, REDUCTIONS

_LARGEST_HEADER = 1 << 17  # bytes in which the EXIF data of a file are looked for
_WHITE = 255.0
_RADIUS = 7  # of the widest blur, see `transforms.squash`: two sigma at `LARGEST_BLUR`
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
# Of one image. TensorFlow's decoders accept ten times as many. Pixels become float32 next, so that
# would be gigabytes from a file of a few kilobytes.
MAX_PIXELS = 50_000_000
# Of one request. The networks need some megabytes for an image, however small its file is.
MAX_IMAGES = 64
MAX_BATCH_PIXELS = 200_000_000
# Images of a request that are decoded at once, even if all have the largest size.
DECODED_AT_ONCE = 2
# A progressive JPEG has several scans, usually 10. A small file could ask for thousands, so the
# work is limited to that of so many scans of the largest image.
_MAX_LARGEST_SCANS = 16


def squash(images, size):
    """Resize images [..., H, W, 3] of any type to float32 [..., size, size, 3] in whole levels.

    The pixels are those of `transforms.squash`, with rare differences of one grey level.
    """
    # Whole levels as in training, where images are uint8.
    images = _whole_levels(tf.cast(images, tf.float32))
    images = tf.cond(
        tf.reduce_max(tf.shape(images)[-3:-1]) > transforms.LARGEST_BLUR * size,
        lambda: _averaged(images, transforms.LARGEST_BLUR // 2 * size),
        lambda: images,
    )
    rows, columns = _Samples(tf.shape(images)[-3], size), _Samples(tf.shape(images)[-2], size)
    # Blurred only where samples are taken, one axis after the other.
    blurred = _whole_levels(columns.blurred(rows.blurred(images, -3), -2))
    return _interpolated(tf.cast(blurred, tf.int32), rows, columns)


class _Samples:
    """The places of the `size` samples of a squashed image along one side of the original.

    Each place lies between two pixels.

    Args:
        side: Length of the side, an int32 scalar.
        size: Number of samples.
    """

    def __init__(self, side, size):
        self._last = side - 1
        scale = tf.cast(side, tf.float32) / size
        places = (tf.range(size, dtype=tf.float32) + 0.5) * scale - 0.5
        first = tf.floor(places)
        # Of the pixel before and the pixel after, in steps of 1/2048 as in OpenCV.
        parts = tf.stack([1 - (places - first), places - first])  # [2, size]
        self.parts = tf.cast(tf.round(parts * 2048), tf.int32)
        first = tf.cast(first, tf.int32)
        self._pixels = tf.concat([first, first + 1], axis=0)  # [2·size]
        self._kernel = _kernel(scale)

    def blurred(self, images, axis):
        """Return the pixels on both sides of each sample, [..., 2·size, ...], blurred."""
        # Beyond the border, the last pixel is repeated.
        pixels = tf.clip_by_value(self._pixels, 0, self._last)
        blurred = 0.0
        for tap, offset in enumerate(range(-_RADIUS, _RADIUS + 1)):
            near = tf.clip_by_value(pixels + offset, 0, self._last)
            blurred += self._kernel[tap] * tf.gather(images, near, axis=axis)
        return blurred


def _interpolated(pairs, rows, columns):
    """Return samples, float32 [..., size, size, 3], of the pixels [..., 2·size, 2·size, 3] by them.

    In integers, and truncated as in OpenCV: an eighth of a level less on average.
    """
    left, right = tf.split(pairs, 2, axis=-2)
    along = left * columns.parts[0][:, None] + right * columns.parts[1][:, None]
    top, bottom = tf.split(along // 2**4, 2, axis=-3)
    top, bottom = top * rows.parts[0][:, None, None], bottom * rows.parts[1][:, None, None]
    return tf.cast((top // 2**16 + bottom // 2**16 + 2) // 2**2, tf.float32)


def _kernel(scale):
    """Return the coefficients of the blur before shrinking by `scale`, see `transforms.squash`.

    They are multiples of 1/256 and add up to 1, like OpenCV's.
    """
    offsets = tf.range(-_RADIUS, _RADIUS + 1, dtype=tf.float32)
    variance = tf.maximum(scale**2 - 1, 0.0) / 6
    sigma = tf.sqrt(tf.maximum(variance, 1e-6))
    wide = tf.exp(-(offsets**2) / (2 * sigma**2))
    wide = tf.where(tf.abs(offsets) <= tf.math.ceil(2 * sigma), wide, 0.0)
    narrow = tf.where(tf.abs(offsets) == 1, variance / 2, 0.0)
    kernel = tf.where(scale > 2, wide / tf.reduce_sum(wide), narrow)
    # From the outside in; the middle one gets the rest up to 1.
    sums = tf.round(tf.cumsum(kernel[:_RADIUS]) * 256)
    outer = tf.concat([sums[:1], sums[1:] - sums[:-1]], axis=0) / 256
    middle = 1 - 2 * tf.reduce_sum(outer, keepdims=True)
    return tf.concat([outer, middle, outer[::-1]], axis=0)


def _averaged(images, largest):
    """Shrink images [..., H, W, 3] to sides of at most `largest` by averaging areas."""
    shape = tf.shape(images)
    sides = tf.minimum(shape[-3:-1], largest)
    flat = tf.reshape(images, tf.concat([[-1], shape[-3:]], axis=0))
    flat = _whole_levels(tf.image.resize(flat, sides, method="area"))
    flat = tf.reshape(flat, tf.concat([shape[:-3], sides, [3]], axis=0))
    return tf.ensure_shape(flat, [*images.shape[:-3], None, None, 3])


def _whole_levels(images):
    return tf.clip_by_value(tf.floor(images + 0.5), 0.0, 255.0)


def close_ups(images, sizes, boxes_rel_xyxy, second_look, size):
    """Cut out the regions of the second look, as `gc_net.data.crops` does outside.

    Args:
        images: [B, H, W, 3], or a ragged [B, (H·W), 3] if sizes differ.
        sizes: int32 [B, 2], height and width of each image.
        boxes_rel_xyxy: float32 [B, 4], boxes of the shapes.
        second_look: Side of the region as a multiple of the box's longer side.
        size: Side to squash to.

    Returns:
        float32 [B, size, size, 3] in whole levels.
    """
    regions = crops.regions(boxes_rel_xyxy, second_look, namespace=ops)
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


def checked_batch(images):
    """Return images [B, H, W, 3]; fail if they are too many, or too large together."""
    shape = tf.shape(images, tf.int64)
    return _checked(images, _few(shape[0]), _few_pixels(tf.reduce_prod(shape[:3])))


def checked_files(files):
    """Return the bytes of files, string [B], after a check of their headers.

    An error names the limit that a batch exceeds, or the index of the refused image.
    """
    count = tf.size(files, tf.int64)
    files = _checked(files, _few(count))
    sizes = tf.map_fn(
        lambda args: file_size(*args),
        (files, tf.range(count)),
        fn_output_signature=tf.TensorSpec([2], tf.int64),
    )
    return _checked(files, _few_pixels(tf.reduce_sum(tf.reduce_prod(sizes, axis=1))))


def file_size(data, index=0):
    """Return the height and width, int64 [2], of the image in the bytes of a file.

    They are those of the stored image, before it is turned upright.

    Args:
        data: A scalar string.
        index: Number of the image in messages.
    """
    is_jpeg, is_png = _starts_with(data, _JPEG), _starts_with(data, _PNG)
    known = _assert(is_jpeg | is_png, _named(index, "neither JPEG nor PNG by its first bytes."))
    data = _checked(data, known)
    size = tf.cond(is_jpeg, lambda: _jpeg_size(data, index), lambda: _png_size(data, index))
    # By their sides too, because the product of two sides of a PNG can overflow.
    sides, pixels = tf.reduce_max(size), tf.reduce_prod(tf.minimum(size, MAX_PIXELS + 1))
    few = (sides <= MAX_PIXELS) & (pixels <= MAX_PIXELS)
    found = tf.strings.join(tf.unstack(tf.strings.as_string(size[::-1])), " x ")
    message = _named(index, "too many pixels: ", found, f", the limit is {MAX_PIXELS:,}.")
    return _checked(size, _assert(few & (tf.reduce_min(size) > 0), message))


def decode(data, index=0, target=None):
    """Decode the bytes of a file, a scalar string, to an upright image, float32 [H, W, 3].

    Args:
        index: Number of the image in messages.
        target: Side that the image will be squashed to. A much larger JPEG is decoded at a reduced
            size, as `gc_net.data.decode.decode_image` does.
    """
    return decode_with_size(data, index, target)[0]


def decode_with_size(data, index=0, target=None):
    """Return `decode(data, index, target)` and the full height and width, int32 [2]."""
    size = file_size(data, index)
    data = _checked(data, size)
    is_jpeg = _starts_with(data, _JPEG)
    image = tf.cond(
        is_jpeg, lambda: _decode_jpeg(data, size, target), lambda: tf.io.decode_png(data)
    )
    image = _over_white(tf.cast(image, tf.float32))
    orientation = exif_orientation(data, is_jpeg)
    size = tf.cast(size, tf.int32)
    return _upright(image, orientation), tf.where(orientation >= 5, size[::-1], size)


def _decode_jpeg(data, size, target):
    def at(reduction):
        # The default transform is faster and less accurate than the one OpenCV uses.
        return lambda: tf.io.decode_jpeg(data, ratio=reduction, dct_method="INTEGER_ACCURATE")

    if target is None:
        return at(1)()
    spare = tf.reduce_min(size) // (REDUCTION_MARGIN * target)
    return tf.case([(spare >= factor, at(factor)) for factor in REDUCTIONS], default=at(1))


def exif_orientation(data, is_jpeg):
    """Return the orientation, 1 to 8, in the EXIF data of a JPEG or PNG; 1 if there is none.

    The tag is searched as it is written in the directory: tag 0x0112, type 3, count 1, in either
    byte order, after the mark at the beginning of EXIF data.
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


def _jpeg_size(data, index):
    size = tf.cast(tf.io.extract_jpeg_shape(data)[:2], tf.int64)
    data = tf.io.decode_raw(data, tf.uint8)
    scans = tf.math.count_nonzero((data[:-1] == 0xFF) & (data[1:] == 0xDA))
    quick = scans * tf.reduce_prod(size) <= _MAX_LARGEST_SCANS * MAX_PIXELS
    message = _named(index, "a JPEG made to waste time: ", tf.strings.as_string(scans), " scans.")
    return _checked(size, _assert(quick, message))


def _png_size(data, index):
    # The header is the first chunk: its length, its name, width and height, five bytes, a checksum.
    long_enough = tf.strings.length(data) >= 33
    message = _named(index, "truncated: the PNG header is incomplete.")
    data = _checked(data, _assert(long_enough, message))
    named = tf.equal(tf.strings.substr(data, 12, 4), b"IHDR")
    message = _named(index, "damaged: the PNG does not begin with an IHDR chunk.")
    data = _checked(data, _assert(named, message))
    numbers = tf.io.decode_raw(tf.strings.substr(data, 16, 8), tf.int32, little_endian=False)
    numbers = tf.cast(tf.bitcast(numbers, tf.uint32), tf.int64)
    return tf.reshape(numbers, [2])[::-1]


def _starts_with(data, start):
    return tf.equal(tf.strings.substr(data, 0, len(start)), start)


def _few(count):
    message = tf.strings.join(
        [tf.strings.as_string(count), f" images in one request, the limit is {MAX_IMAGES}."]
    )
    return _assert(count <= MAX_IMAGES, message)


def _few_pixels(count):
    limit = f" pixels in one request, the limit is {MAX_BATCH_PIXELS:,}."
    message = tf.strings.join([tf.strings.as_string(count), limit])
    return _assert(count <= MAX_BATCH_PIXELS, message)


def _named(index, *parts):
    return tf.strings.join(["Image ", tf.strings.as_string(index), ": ", *parts])


def _assert(condition, message):
    return tf.debugging.Assert(condition, [message])


def _checked(tensor, *checks):
    """Return a tensor that depends on the checks."""
    with tf.control_dependencies([check for check in checks if check is not None]):  # eager: None
        return tf.identity(tensor)


def _find(head, pattern, start):
    """Return the first place of `pattern` at or after `start`, or a place beyond the end."""
    length = tf.maximum(tf.size(head) - len(pattern) + 1, 0)
    matches = tf.range(length) >= start
    for offset, byte in enumerate(pattern):
        matches &= head[offset : offset + length] == byte
    places = tf.cast(tf.where(matches)[:, 0], tf.int32)
    return tf.reduce_min(tf.concat([places, [tf.size(head)]], axis=0))


def _over_white(image):
    """Convert 1 to 4 channels to RGB; transparency is laid over white."""
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
