"""A web application with one page to try a model on."""

from collections.abc import Sequence
from typing import Any

from werkzeug.wrappers import Response

from gc_net.pages import render_page, script_hash
from gc_net.serving.application import Application, json_response
from gc_net.serving.rest import RequestError

_POLICY = (
    f"default-src 'none'; script-src '{script_hash('gc_net.serving', 'demo')}'; "
    "style-src 'unsafe-inline'; img-src blob: data:; connect-src *; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class DemoApp(Application):
    """Serves the page and TF Serving's REST form, `/v1/models/NAME` and `…:predict`.

    The page uses only this form, so it works with a real TF Serving too.

    Args:
        name: Name the model is served under.
        model: A `RestModel`.
        max_bytes, allowed_hosts: As for `Application`.
    """

    def __init__(self, name: str, model: Any, max_bytes: int, allowed_hosts: Sequence[str] = ()):
        super().__init__(name, max_bytes, allowed_hosts, {"Content-Security-Policy": _POLICY})
        self.model = model
        self._page = render_page("gc_net.serving", "demo", model=name)

    def routes(self):
        return {
            "/": ("GET", self._index),
            f"/v1/models/{self.name}": ("GET", self._status),
            f"/v1/models/{self.name}:predict": ("POST", self._predict),
        }

    def _index(self, request):
        del request
        return Response(self._page, mimetype="text/html")

    def _status(self, request):
        del request
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        return json_response({"model_version_status": [version]})

    def _predict(self, request):
        try:
            return Response(self.model.predict(request.get_data()), mimetype="application/json")
        except RequestError as error:
            return json_response({"error": str(error)}, error.status)
