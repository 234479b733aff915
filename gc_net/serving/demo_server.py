"""The demo server: a loaded model behind the page, on waitress."""

from gc_net.export.signatures import ServingModule
from gc_net.localizer import load
from gc_net.serving.demo import DemoApp
from gc_net.serving.rest import RestModel
from gc_net.serving.web_server import WebServer


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
    # A little more than the application takes, so that it can say so itself.
    return WebServer(app, host, port, max_bytes=app.max_bytes + 2**20, **bounds)


def run_demo(model_dir, name, *, host="127.0.0.1", port=8600, **limits):
    """Serve until interrupted. `limits` are those of `make_app`."""
    app = make_app(model_dir, name, **limits)
    server = make_server(app, host, port)
    print(f"http://{host}:{server.effective_port}  (Ctrl+C ends it)", flush=True)
    try:
        server.run()
    finally:
        server.close()
