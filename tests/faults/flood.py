"""A mixed flood of requests, each given by a seed and a number, so that any can be sent again.

Sound images, mutated ones, too many, too large, what is no request at all, other paths, methods and
origins, and clients that stop in the middle or say nothing. Each says what it must be answered.
"""

import base64
import contextlib
import dataclasses
import http.client
import json
import random
import socket

import numpy as np

from tests.data import encoded
from tests.faults.mutator import FILES, mutated

PATH = "/v1/models/m:predict"
OK, BAD, FORBIDDEN, MISSING, METHOD, TOO_LARGE = 200, 400, 403, 404, 405, 413
PHOTOS = {
    "JPEG": encoded.jpeg(encoded.photo(60, 80)),
    "PNG": encoded.encode(".png", encoded.photo(50, 40, seed=1)),
    "turned JPEG": encoded.jpeg_with_exif(encoded.picture(), 6),
}
_PIXEL = encoded.encode(".png", np.zeros((1, 1, 3), np.uint8))
_BOMBS = {side: encoded.png_bomb(side, side) for side in (3_000, 7_500)}
_UNKNOWN = [data for name, data in FILES.items() if "PNG" not in name and "JPEG" not in name]


@dataclasses.dataclass
class Flooding:
    """One request.

    Attributes:
        kind: What it is meant to try.
        statuses: The answers that are right; empty where the client does not wait for one.
        files: The images it carries, as bytes, where it carries any.
        body, path, method, headers: What is sent.
        sent: How much of the body is sent before the client leaves; all if None.
    """

    kind: str
    statuses: tuple[int, ...]
    files: tuple[bytes, ...] = ()
    body: bytes = b""
    path: str = PATH
    method: str = "POST"
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    sent: int | None = None


def request(seed, number):
    """Return the `Flooding` of that number."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices(list(_KINDS), weights=[weight for _, weight in _KINDS.values()])[0]
    found = _KINDS[kind][0](rng, seed, number)
    found.kind = kind
    return found


def send(address, flooding, seconds=300):
    """Send a request over a connection of its own; return (status, headers, body), or None."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        if flooding.sent is not None:
            connection.connect()
            head = f"{flooding.method} {flooding.path} HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Length: {len(flooding.body)}\r\n\r\n"
            connection.sock.sendall(head.encode() + flooding.body[: flooding.sent])
            if flooding.sent % 2:  # half of them are cut off, the others just end
                linger = np.array([1, 0], np.int32).tobytes()
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return None
        headers = {"Host": "localhost", "Connection": "close", **flooding.headers}
        # One that is refused before it was sent in full has an answer all the same.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(flooding.method, flooding.path, flooding.body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def of_images(files, statuses, name="inputs"):
    """Return the request for some images, with the answers that are right."""
    body = {
        "signature_name": "serve_bytes",
        name: [{"b64": base64.b64encode(file).decode()} for file in files],
    }
    return Flooding("", statuses, tuple(files), json.dumps(body).encode())


def _sound(rng, seed, number):
    files = rng.choices(list(PHOTOS.values()), k=rng.choice((1, 1, 2, 4)))
    return of_images(files, (OK,), rng.choice(("inputs", "instances")))


def _mutated(rng, seed, number):
    return of_images([mutated(seed, number)[2]], (OK, BAD, TOO_LARGE))


def _sound_and_mutated(rng, seed, number):
    files = [*rng.choices(list(PHOTOS.values()), k=2), mutated(seed, number)[2]]
    rng.shuffle(files)
    return of_images(files, (OK, BAD, TOO_LARGE))


def _other_kind(rng, seed, number):
    return of_images([rng.choice(_UNKNOWN)], (BAD,))


def _too_many(rng, seed, number):
    return of_images([_PIXEL] * rng.choice((33, 65, 1_000)), (TOO_LARGE,))


def _too_large(rng, seed, number):
    return of_images([_BOMBS[7_500]], (BAD, TOO_LARGE))  # by the limit of an image, or of a request


def _large(rng, seed, number):
    return of_images([_BOMBS[3_000]], (OK,))


def _senseless(rng, seed, number):
    values = (b"", b"{", b"[" * 50_000, b"null", b'{"inputs": 5}', b'{"instances": [[1, NaN]]}')
    values += (b'{"inputs": [], "instances": []}', b"\xff\xfe\x00", rng.randbytes(300))
    values += (b'{"signature_name": ["serve"], "inputs": [1]}',)
    return Flooding("", (BAD,), body=rng.choice(values))


def _numbers(rng, seed, number):
    side = rng.choice((8, 40))
    return Flooding(
        "", (OK,), body=json.dumps({"inputs": [[[[9, 99, 200]] * side] * side]}).encode()
    )


def _elsewhere(rng, seed, number):
    path = rng.choice(("/v1/models/other:predict", "/etc/passwd", "/../..", "/%00"))
    return Flooding("", (MISSING,), method=rng.choice(("GET", "POST")), path=path)


def _method(rng, seed, number):
    return Flooding("", (METHOD,), method=rng.choice(("PUT", "DELETE", "GET")))


def _foreign(rng, seed, number):
    origin = rng.choice(("http://elsewhere.example", "http://[::1", "null"))
    return Flooding("", (FORBIDDEN,), body=b"{}", headers={"Origin": origin})


def _page(rng, seed, number):
    return Flooding("", (OK,), method="GET", path=rng.choice(("/", "/v1/models/m")))


def _huge(rng, seed, number):
    return Flooding("", (TOO_LARGE,), body=b" " * 1_500_000)


def _left(rng, seed, number):
    found = _sound(rng, seed, number)
    found.statuses, found.sent = (), rng.randrange(len(found.body))
    return found


# How each kind of request is made, and how often it is sent.
_KINDS = {
    "sound": (_sound, 30),
    "mutated": (_mutated, 20),
    "sound and mutated": (_sound_and_mutated, 8),
    "neither JPEG nor PNG": (_other_kind, 8),
    "too many images": (_too_many, 4),
    "too many pixels": (_too_large, 4),
    "many pixels": (_large, 1),
    "no request": (_senseless, 8),
    "numbers": (_numbers, 4),
    "another path": (_elsewhere, 2),
    "another method": (_method, 2),
    "another origin": (_foreign, 2),
    "the page": (_page, 3),
    "too many bytes": (_huge, 1),
    "left in the middle": (_left, 3),
}
