"""waitress, with limits for slow clients, many clients, and clients with ambiguous HTTP.

waitress stops accepting connections when it has reached its limit. So a client that opens them and
says nothing keeps all others out. This server keeps accepting, and closes the connection that it
has waited for the longest.
"""

import json
import time

import waitress.adjustments
import waitress.channel
import waitress.parser
import waitress.server
import waitress.task


class _Request(waitress.parser.HTTPRequestParser):
    def parse_header(self, header_plus):
        super().parse_header(header_plus)
        both = self.chunked and "CONTENT_LENGTH" in self.headers
        # waitress removes Transfer-Encoding if it uses it, in HTTP/1.1.
        if both or "TRANSFER_ENCODING" in self.headers:
            # A proxy that uses the other one sees another request where this one ends.
            raise waitress.parser.ParsingError(
                "Content-Length and Transfer-Encoding exclude each other, and HTTP/1.0 has only "
                "the first"
            )


class _Refusal(waitress.task.ErrorTask):
    """Refusals of waitress itself, in the form of TF Serving's errors."""

    def execute(self):
        error = self.request.error
        body = json.dumps({"error": f"{error.reason}: {error.body}."}).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(waitress.channel.HTTPChannel):
    parser_class = _Request
    error_task_class = _Refusal

    def __init__(self, *args, **kwargs):
        self.waiting_since = time.time()
        super().__init__(*args, **kwargs)

    @property
    def waits(self):
        """Whether the client has to act: send a request, or take its answer."""
        return not self.requests and not self.will_close

    def received(self, data):
        if self.request is None:  # the first bytes of a request; later ones give no more time
            self.waiting_since = time.time()
        return super().received(data)

    def service(self):
        super().service()
        self.waiting_since = time.time()


class WebServer(waitress.server.TcpWSGIServer):
    """Serves a WSGI application.

    Args:
        application: The application.
        host, port: Where to listen; any free port if 0.
        threads: Requests that are worked on at once.
        max_bytes: Largest request.
        seconds: How long a client may take to send a request, or to take an answer.
        max_connections, max_per_client: Connections at once, in all and from one address.
    """

    channel_class = _Channel

    def __init__(
        self,
        application,
        host,
        port,
        *,
        threads=4,
        max_bytes=2**25,
        seconds=60,
        max_connections=128,
        max_per_client=32,
    ):
        self.seconds = seconds
        self.max_connections, self.max_per_client = max_connections, max_per_client
        settings = waitress.adjustments.Adjustments(
            host=host,
            port=port,
            threads=threads,
            max_request_body_size=max_bytes,
            max_request_header_size=2**14,
            channel_timeout=min(seconds, 20),  # without a byte
            cleanup_interval=max(1, min(5, seconds // 4)),
            connection_limit=4 * max_connections,  # includes those that are being closed
            asyncore_use_poll=True,
        )
        super().__init__(application, adj=settings)

    def maintenance(self, now):
        super().maintenance(now)
        for channel in self.active_channels.values():
            if channel.waits and now - channel.waiting_since > self.seconds:
                channel.will_close = True

    def handle_accept(self):
        known = set(self.active_channels)
        super().handle_accept()
        new = [channel for key, channel in self.active_channels.items() if key not in known]
        for channel in new:
            others = [other for other in self.active_channels.values() if not other.will_close]
            same = [other for other in others if other.addr[0] == channel.addr[0]]
            if len(same) > self.max_per_client:
                self._make_room(same, channel)
            elif len(others) > self.max_connections:
                self._make_room(others, channel)

    def _make_room(self, channels, new):
        """Close the connection with the longest wait, or the new one if all are at work."""
        waiting = [channel for channel in channels if channel.waits and channel is not new]
        oldest = min(waiting, key=lambda channel: channel.waiting_since, default=new)
        oldest.will_close = True
