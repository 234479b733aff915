"""The demo's server against clients that are slow, many, or speak HTTP in two ways at once."""

import contextlib
import json
import socket
import threading
import time

import pytest
import requests
from waitress import wasyncore

from gc_net.serving.web_server import WebServer
from tests.faults import amount


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.input"].read() or b"the page"]


@contextlib.contextmanager
def serving(**bounds):
    server = WebServer(application, "127.0.0.1", 0, **bounds)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server, ("127.0.0.1", int(server.effective_port))
    finally:
        server.task_dispatcher.shutdown()
        server.close()
        wasyncore.close_all(server._map)
        thread.join(10)


def is_closed(connection, seconds=20):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("bound", ["max_per_client", "max_connections"])
def test_slow_connections_make_room_for_others(bound):
    with (
        serving(**{"max_per_client": 1000, bound: 20}) as (server, address),
        contextlib.ExitStack() as stack,
    ):
        slow = []
        for _ in range(amount(60, 300)):
            connection = stack.enter_context(socket.create_connection(address))
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Le")
            slow.append(connection)
        start = time.monotonic()
        answer = requests.get(f"http://127.0.0.1:{address[1]}/", timeout=30)
        assert answer.text == "the page" and time.monotonic() - start < 15
        assert is_closed(slow[0])
        assert len(server.active_channels) <= 21


def test_a_client_that_sends_a_byte_now_and_then_is_not_waited_for():
    with serving(seconds=1) as (_, address), socket.create_connection(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        closed, start = False, time.monotonic()
        while not closed and time.monotonic() - start < 30:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x")
            closed = is_closed(connection, 0.2)
        assert closed


REFUSED = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, turned round": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "another encoding": b"Transfer-Encoding: gzip\r\n\r\n",
    "no length": b"Content-Length: many\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a header of a megabyte": b"X: " + b"x" * 2**20 + b"\r\n\r\n",
    "more than may be": b"Content-Length: 99999999\r\n\r\n",
    "no header": b"hello\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_server_refuses_by_itself_is_answered_in_json(name):
    with serving() as (_, address), socket.create_connection(address) as connection:
        start = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
        with contextlib.suppress(ConnectionError):
            connection.sendall(start + REFUSED[name])
        answer, connection = b"", connection
        connection.settimeout(20)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    if name == "a header of a megabyte" and not answer:
        return  # closed while it was still being sent, which is as good
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] in (b"400", b"413", b"431", b"501")
    assert b"application/json" in head
    assert json.loads(body)["error"]


def test_http_of_one_kind_is_answered():
    with serving() as (_, address):
        url = f"http://127.0.0.1:{address[1]}/"
        assert requests.post(url, data=b"hello", timeout=30).text == "hello"
        assert requests.post(url, data=iter([b"hel", b"lo"]), timeout=30).text == "hello"
