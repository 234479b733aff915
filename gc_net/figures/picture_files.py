"""Pictures as files: PNG, JPEG and the like by OpenCV, and PDF, for papers."""

import os
import struct

import cv2

from gc_net.atomic_files import replaced_file

_INCH = 72  # points


def save_picture(path, image, dots_per_inch=300):
    """Write an image, uint8 RGB [H, W, 3], in the format its name asks for, all at once.

    Args:
        path: Name that ends in .png, .jpg, .pdf, or in what else OpenCV writes.
        dots_per_inch: Resolution of a PDF, which sets its size on paper.
    """
    path = os.fspath(path)
    check_suffix(path)
    suffix = os.path.splitext(path)[1].lower()
    data = encode_pdf(image, dots_per_inch) if suffix == ".pdf" else _encode(suffix, image)
    with replaced_file(path, "wb") as file:
        file.write(data)


def check_suffix(path):
    """Raise where a picture cannot be written under such a name."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix != ".pdf" and not (suffix and cv2.haveImageWriter(suffix)):
        raise ValueError(
            f"Cannot write an image as {path!r}. Use a name that ends in .png or .jpg, or .pdf."
        )


def encode_pdf(image, dots_per_inch=300):
    """Return a PDF of one page, which an image, uint8 RGB [H, W, 3], fills without loss.

    PDF and PNG compress alike, so the PNG's own data is put into the page as it is.
    """
    height, width = image.shape[:2]
    page_width, page_height = (f"{side * _INCH / dots_per_inch:.3f}" for side in (width, height))
    pixels = b"".join(data for kind, data in _png_chunks(_encode(".png", image)) if kind == b"IDAT")
    drawing = f"q {page_width} 0 0 {page_height} 0 0 cm /Picture Do Q".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {page_width} {page_height}] "
        "/Resources << /XObject << /Picture 4 0 R >> >> /Contents 5 0 R >>".encode(),
        _stream(
            pixels,
            f"/Type /XObject /Subtype /Image /Width {width} /Height {height} "
            "/ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode /DecodeParms "
            f"<< /Predictor 15 /Colors 3 /BitsPerComponent 8 /Columns {width} >>",
        ),
        _stream(drawing),
    ]
    # The second line tells programs that this is no text.
    pdf, starts = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, content in enumerate(objects, start=1):
        starts.append(len(pdf))
        pdf += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = "0000000000 65535 f \n" + "".join(f"{start:010d} 00000 n \n" for start in starts)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return pdf + f"{end}startxref\n{len(pdf)}\n%%EOF\n".encode()


def _encode(suffix, image):
    options = [cv2.IMWRITE_PNG_COMPRESSION, 9] if suffix == ".png" else []
    _, data = cv2.imencode(suffix, image[..., ::-1], options)
    return data.tobytes()


def _png_chunks(data):
    """Yield (kind, content) of a PNG's chunks: length, kind, content, checksum."""
    place = 8
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        yield kind, data[place + 8 : place + 8 + length]
        place += length + 12


def _stream(data, entries=""):
    return f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"
