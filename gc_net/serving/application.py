"""Shared by the web applications: routes, limits, and errors as JSON."""

import abc
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from werkzeug.exceptions import HTTPException, InternalServerError, MethodNotAllowed, NotFound
from werkzeug.wrappers import Request, Response

from gc_net.serving.origins import check_origin

_log = logging.getLogger("gc_net")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class Application(abc.ABC):
    """A WSGI application that answers requests for its `routes`, but no page of other hosts.

    Args:
        name: Name of the model.
        max_bytes: Largest request.
        allowed_hosts: Names of the server, besides addresses in numbers and `localhost`.
        headers: Headers of all answers, besides the fixed ones.
    """

    def __init__(
        self,
        name: str,
        max_bytes: int,
        allowed_hosts: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ):
        self.name = name
        self.max_bytes = max_bytes
        self.allowed_hosts = tuple(host.lower() for host in allowed_hosts)
        self._headers = {**_HEADERS, **(headers or {})}

    @abc.abstractmethod
    def routes(self) -> dict[str, tuple[str, Callable[[Request], Response]]]:
        """Return {path: (method, function of a request to its answer)}."""

    def __call__(self, environ, start_response):
        request = Request(environ)
        request.max_content_length = self.max_bytes
        try:
            check_origin(request, self.allowed_hosts)
            response = self._answer(request)
        except HTTPException as error:
            response = json_response({"error": error.description}, error.code)
            if isinstance(error, MethodNotAllowed):
                response.headers["Allow"] = ", ".join(error.valid_methods)
        except Exception:
            _log.exception("The request %s %s failed.", request.method, request.path)
            error = InternalServerError()
            response = json_response({"error": error.description}, error.code)
        response.headers.update(self._headers)
        return response(environ, start_response)

    def _answer(self, request):
        routes = self.routes()
        if request.path not in routes:
            raise NotFound(f"There is nothing at {request.path}. The model is {self.name!r}.")
        method, answer = routes[request.path]
        methods = ["GET", "HEAD"] if method == "GET" else [method]
        if request.method not in methods:
            raise MethodNotAllowed(methods, f"Expected {method}, received {request.method[:20]!r}.")
        return answer(request)


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(json.dumps(content), status=status, mimetype="application/json")
