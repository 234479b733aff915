r"""Serve a page to try a model on: http://127.0.0.1:8600

gc-net serve --model=runs/birds

The page and its server speak TF Serving's REST form. They need `pip install 'gc_net[demo]'`.
"""

from absl import flags

from . import path_flags, program

FLAGS = flags.FLAGS
path_flags.define("model", None, "Folder of the model, or of the run it is in.", required=True)
flags.DEFINE_string("name", None, "Name to serve it under; that of its folder if not set.")
flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; by default this machine only.")
flags.DEFINE_integer("port", 8600, "Port to listen on.", lower_bound=0, upper_bound=65535)
flags.DEFINE_integer("max_megabytes", 32, "Largest request.", lower_bound=1)
flags.DEFINE_integer(
    "max_megapixels", 50, "Largest image, or images of one request together.", lower_bound=1
)
flags.DEFINE_integer("max_images", 32, "Most images of one request.", lower_bound=1)
flags.DEFINE_list(
    "allowed_hosts", [], "Names the server goes by, besides localhost and its address in numbers."
)


@program.tool(argument="model")
def main(_):
    try:
        from gc_net.serving.demo_server import run_demo
    except ImportError as error:
        raise ImportError(
            f"{error}. The page needs more packages: pip install 'gc_net[demo]'"
        ) from None
    run_demo(
        FLAGS.model,
        FLAGS.name,
        host=FLAGS.host,
        port=FLAGS.port,
        max_bytes=FLAGS.max_megabytes * 2**20,
        max_pixels=FLAGS.max_megapixels * 10**6,
        max_images=FLAGS.max_images,
        allowed_hosts=FLAGS.allowed_hosts,
    )


if __name__ == "__main__":
    program.run(main)
