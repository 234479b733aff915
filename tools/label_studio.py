r"""Serve pre-annotations to Label Studio, as its backend: http://127.0.0.1:9090

gc-net label_studio --model=runs/birds --images=photos

In Label Studio, add the address under Settings, Model. --images names the folders of the tasks'
images: LOCAL_FILES_DOCUMENT_ROOT, or its media folder for uploads. The server never fetches an
address. It needs `pip install 'gc_net[demo]'`.
"""

import os

from absl import app, flags

from . import path_flags, program

FLAGS = flags.FLAGS
path_flags.define("model", None, "Folder of the model, or of the run it is in.", required=True)
path_flags.define(
    "images", "", "Folders of images, joined by commas; without any, only images in requests."
)
flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; by default this machine only.")
flags.DEFINE_integer("port", 9090, "Port to listen on.", lower_bound=0, upper_bound=65535)
flags.DEFINE_integer("max_megabytes", 32, "Largest request.", lower_bound=1)
flags.DEFINE_integer("max_images", 256, "Most tasks of one request.", lower_bound=1)
flags.DEFINE_list(
    "allowed_hosts", [], "Names the server goes by, besides localhost and its address in numbers."
)


@program.tool(argument="model")
def main(_):
    folders = [os.path.expanduser(folder) for folder in FLAGS.images.split(",") if folder]
    for folder in folders:
        if not os.path.isdir(folder):
            raise app.UsageError(f"--images must name folders; {folder} is not a folder.")
    try:
        from gc_net.serving.demo_server import run_label_studio
    except ImportError as error:
        raise ImportError(
            f"{error}. The server needs more packages: pip install 'gc_net[demo]'"
        ) from None
    run_label_studio(
        FLAGS.model,
        folders,
        host=FLAGS.host,
        port=FLAGS.port,
        max_bytes=FLAGS.max_megabytes * 2**20,
        max_images=FLAGS.max_images,
        allowed_hosts=FLAGS.allowed_hosts,
    )


if __name__ == "__main__":
    program.run(main)
