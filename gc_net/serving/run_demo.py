"""The demo server: a loaded model behind the page, on waitress."""

import waitress

from gc_net.export.signatures import ServingModule
from gc_net.inference.localizer import load
from gc_net.serving.demo import DemoApp
from gc_net.serving.rest import RestModel


def make_app(model_dir, name, *, max_bytes=32 * 2**20, max_pixels=50_000_000):
    """Return the WSGI application of a model."""
    module = ServingModule(load(model_dir))
    return DemoApp(name, RestModel(module, max_pixels), max_bytes)


def run_demo(model_dir, name, *, host="127.0.0.1", port=8600, max_bytes, max_pixels):
    """Serve until interrupted."""
    app = make_app(model_dir, name, max_bytes=max_bytes, max_pixels=max_pixels)
    server = waitress.create_server(
        # A little more than the application takes, so that it can say so itself.
        app,
        host=host,
        port=port,
        threads=4,
        max_request_body_size=max_bytes + 2**20,
    )
    print(f"http://{host}:{server.effective_port}  (Ctrl+C ends it)", flush=True)
    try:
        server.run()
    finally:
        server.close()
