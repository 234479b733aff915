"""A web application of one page, on which a model can be tried."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from werkzeug.exceptions import HTTPException, InternalServerError, MethodNotAllowed, NotFound
from werkzeug.wrappers import Request, Response

from gc_net.pages import render_page, script_hash
from gc_net.serving.origins import check_origin
from gc_net.serving.rest import RequestError

_log = logging.getLogger("gc_net")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": (
        f"default-src 'none'; script-src '{script_hash('gc_net.serving', 'demo')}'; "
        "style-src 'unsafe-inline'; img-src blob: data:; connect-src *; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
}


class DemoApp:
    """Serves the page and TF Serving's REST form, `/v1/models/NAME` and `…:predict`.

    The page speaks nothing else, so that it works with a real TF Serving too.

    Args:
        name: Name the model is served under.
        model: A `RestModel`.
        max_bytes: Largest request.
        allowed_hosts: Names the server goes by, besides addresses in numbers and `localhost`.
    """

    def __init__(self, name: str, model: Any, max_bytes: int, allowed_hosts: Sequence[str] = ()):
        self.name = name
        self.model = model
        self.max_bytes = max_bytes
        self.allowed_hosts = tuple(host.lower() for host in allowed_hosts)
        self._page = render_page("gc_net.serving", "demo", model=name)

    def __call__(self, environ, start_response):
        request = Request(environ)
        request.max_content_length = self.max_bytes
        try:
            check_origin(request, self.allowed_hosts)
            response = self._answer(request)
        except HTTPException as error:
            response = _json({"error": error.description}, error.code)
            if isinstance(error, MethodNotAllowed):
                response.headers["Allow"] = ", ".join(error.valid_methods)
        except Exception:
            _log.exception("The request %s %s failed.", request.method, request.path)
            error = InternalServerError()
            response = _json({"error": error.description}, error.code)
        response.headers.update(_HEADERS)
        return response(environ, start_response)

    def _answer(self, request):
        routes = {
            "/": ("GET", self._index),
            f"/v1/models/{self.name}": ("GET", self._status),
            f"/v1/models/{self.name}:predict": ("POST", self._predict),
        }
        if request.path not in routes:
            raise NotFound(f"There is nothing at {request.path}. The model is {self.name!r}.")
        method, answer = routes[request.path]
        methods = ["GET", "HEAD"] if method == "GET" else [method]
        if request.method not in methods:
            raise MethodNotAllowed(methods, f"Expected {method}, received {request.method[:20]!r}.")
        return answer(request)

    def _index(self, request):
        del request
        return Response(self._page, mimetype="text/html")

    def _status(self, request):
        del request
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        return _json({"model_version_status": [version]})

    def _predict(self, request):
        try:
            return Response(self.model.predict(request.get_data()), mimetype="application/json")
        except RequestError as error:
            return _json({"error": str(error)}, error.status)


def _json(content, status=200):
    return Response(json.dumps(content), status=status, mimetype="application/json")
