"""What every backbone offers, and how its weights are found."""

import abc


class Backbone(abc.ABC):
    """A recipe for a convolutional network; holds no variables itself.

    The network comes in three parts, so that an image can be masked between the first two, where
    a zero pixel is the mean colour, and so that a new head can be put on:

        images 0–255 RGB → normalizer → trunk → head → outputs

    Subclasses set `name` and `image_size` (the ImageNet default) and define the methods below.
    """

    name: str
    image_size: int

    @abc.abstractmethod
    def normalizer(self):
        """Return a layer from RGB images in 0–255 to the values the trunk was trained on."""

    @abc.abstractmethod
    def trunk(self, image_size, name="trunk"):
        """Return a functional model, normalized images [B, S, S, 3] to a feature map [B, h, w, C]."""

    @abc.abstractmethod
    def head(self, num_outputs, feature_shape, name="head"):
        """Return the network's own head: a model, feature map [B, h, w, C] to raw outputs [B, N].

        Its last layer is called `"outputs"` and computes in float32.
        """

    @abc.abstractmethod
    def load_weights(self, trunk, head=None, weights="imagenet"):
        """Load `weights` into `trunk`, and into `head` where it is given and its shapes match.

        Args:
            weights: `"imagenet"`, a file path, or `None` to leave the initial values.
            head: A model from `self.head`. Layers whose shapes differ from the file's (the
                outputs, for another number of classes) keep their initial values.
        """
