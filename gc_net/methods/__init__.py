"""Methods: rivals on the same network and the same images.

| name | method | reads labels |
|---|---|---|
| `constant` | the same centred box for every image: half of the area; the best of all* | no |
| `cam` | class activation maps, Zhou et al. 2016: cut at 0.2; at the best level* | yes |
| `grad_cam` | Grad-CAM, Selvaraju et al. 2017: cut at 0.15; at the best level* | yes |
| `grad_cam_pp` | Grad-CAM++, Chattopadhyay et al. 2018: as Grad-CAM | yes |
| `layer_cam` | LayerCAM, Jiang et al. 2021: as Grad-CAM | yes |
| `saliency` | gradient of the score, Simonyan et al. 2014: cut at 0.2; at the best level* | yes |
| `ddt` | deep descriptor transforming, Wei et al. 2017, of the classifier's descriptors | no |
| `ddt_imagenet` | the same with the backbone's ImageNet weights, nothing trained | no |
| `silhouettes` | result of `ddt_imagenet`, cut by GrabCut, see `gc_net.teachers.silhouettes` | no |

These train a classifier of their own (`--method=`), and cut its maps at 0.2:

| name | what its training adds |
|---|---|
| `has` | Hide-and-Seek, Singh and Lee 2017: half of the patches of an image are hidden |
| `cutmix` | CutMix, Yun et al. 2019: a rectangle of another image, and its share of the label |
| `adl` | attention-based dropout, Choe and Shim 2019: the strongest features are dropped |
| `gmp` | a maximum over positions instead of the mean, Zhou et al. 2016 |
| `acol` | ACoL, Zhang et al. 2018: a second branch that cannot see the findings of the first |
| `spg` | SPG, Zhang et al. 2018: features that learn object and background from the class maps |
| `danet` | DA-Net, Xue et al. 2019: several maps a class that are kept from being alike |

* chosen by the true boxes of the same images it is measured on: an upper bound, marked as tuned.

Maps are those of the image's true class. CorLoc is defined that way (the class is given). LocErr
counts a box only if its class is right, so it needs no other map either.
"""

from typing import TYPE_CHECKING

from gc_net.registry import Registry

if TYPE_CHECKING:
    from gc_net.methods.base import Method

METHODS = Registry(
    "method",
    {
        "constant": "gc_net.methods.constant:Constant",
        "cam": "gc_net.methods.cam:CAM",
        "grad_cam": "gc_net.methods.grad_cam:GradCAM",
        "grad_cam_pp": "gc_net.methods.grad_cam_pp:GradCAMPlusPlus",
        "layer_cam": "gc_net.methods.layer_cam:LayerCAM",
        "saliency": "gc_net.methods.saliency:Saliency",
        "ddt": "gc_net.methods.ddt:DDT",
        "ddt_imagenet": "gc_net.methods.ddt:ImageNetDDT",
        "silhouettes": "gc_net.methods.silhouettes:Silhouettes",
        "has": "gc_net.methods.has:HaS",
        "cutmix": "gc_net.methods.cutmix:CutMix",
        "adl": "gc_net.methods.adl:ADL",
        "gmp": "gc_net.methods.gmp:GMP",
        "acol": "gc_net.methods.acol:ACoL",
        "spg": "gc_net.methods.spg:SPG",
        "danet": "gc_net.methods.danet:DANet",
    },
)

# GC-Net itself: a classifier trained as usual, and a detector.
GC_NET = "gc_net"

# Without `ddt_imagenet` and `silhouettes`, whose weights may have to be downloaded.
DEFAULT = ("constant", "cam", "grad_cam", "saliency", "ddt")


def get(name: "str | Method") -> "Method":
    """Return a new method called `name`; a method passes through."""
    return METHODS.get(name)() if isinstance(name, str) else name
