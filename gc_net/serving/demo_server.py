"""Servers of a loaded model, on waitress: for the demo page, and for Label Studio."""

import os
import re

from gc_net.export.signatures import ServingModule
from gc_net.localizer import load
from gc_net.serving.demo import DemoApp
from gc_net.serving.label_studio import LabelStudioApp
from gc_net.serving.rest import RestModel
from gc_net.serving.web_server import WebServer
from gc_net.version import __version__


def make_app(
    model_dir,
    name,
    *,
    max_bytes=32 * 2**20,
    max_pixels=50_000_000,
    max_images=32,
    allowed_hosts=(),
):
    """Return the WSGI application of a model."""
    model = RestModel(ServingModule(load(model_dir)), max_pixels, max_images)
    return DemoApp(name, model, max_bytes, allowed_hosts)


def make_server(app, host, port, **bounds):
    """Return the server of an application, to be run. `bounds` are those of `WebServer`."""
    # A little more than the application accepts, so that the application itself can refuse it.
    return WebServer(app, host, port, max_bytes=app.max_bytes + 2**20, **bounds)


def run_demo(model_dir, name=None, *, host="127.0.0.1", port=8600, **limits):
    """Serve until interrupted. `limits` are those of `make_app`; `name` the folder's if None."""
    _run(make_app(model_dir, name or model_name(model_dir), **limits), host, port)


def run_label_studio(model_dir, folders, *, host="127.0.0.1", port=9090, **limits):
    """Serve Label Studio until interrupted. `limits` are those of `LabelStudioApp`."""
    version = f"{model_name(model_dir)}, gc_net {__version__}"
    _run(LabelStudioApp(version, load(model_dir), folders, **limits), host, port)


def model_name(model_dir):
    """Return the name of a model: that of its folder, or that of its run."""
    folder = os.path.abspath(model_dir)
    if os.path.basename(folder) == "model":  # as runs call it
        folder = os.path.dirname(folder)
    # The name becomes a part of addresses.
    return re.sub(r"[^\w.-]+", "_", os.path.basename(folder)) or "model"


def _run(app, host, port):
    server = make_server(app, host, port)
    print(f"http://{host}:{server.effective_port}  ({app.name}; Ctrl+C ends it)", flush=True)
    try:
        server.run()
    finally:
        server.close()
