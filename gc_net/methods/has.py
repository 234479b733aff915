"""Hide-and-Seek (Singh and Lee, ICCV 2017)."""

import keras
import tensorflow as tf

from gc_net.methods.cam import CAM
from gc_net.methods.training import ClassifierTraining

# Cells a side: patches of 56, 44, 32 and 16 pixels at 224, as in the authors' code. One image in
# five is shown whole.
GRIDS = (4, 5, 7, 14)
HIDDEN = 0.5


class HiddenPatches(ClassifierTraining):
    """Training images lose half of their patches, another half each time."""

    def augment(self, normalized: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        shown = self.draw(tf.shape(normalized)[0], normalized.shape[1])
        return normalized * tf.cast(shown, normalized.dtype), {}

    def draw(self, batch_size: tf.Tensor, size: int) -> tf.Tensor:
        """Return masks [B, size, size, 1] of zeros, which hide, and ones."""
        choice = keras.random.randint((batch_size, 1, 1, 1), 0, len(GRIDS) + 1, seed=self.seeds)
        shown = tf.ones((batch_size, size, size, 1))
        for number, cells in enumerate(GRIDS):
            drawn = keras.random.uniform((batch_size, cells, cells, 1), seed=self.seeds)
            patches = tf.image.resize(tf.cast(drawn >= HIDDEN, tf.float32), (size, size), "nearest")
            shown = tf.where(choice == number, patches, shown)
        return shown


class HaS(CAM):
    """CAM of a classifier that could not rely on one part: patches of its images were hidden.

    Each image is divided by one of four random grids, and each cell is hidden with probability one
    half. Hidden pixels have the mean colour, so the first layer's activations are, on average,
    those of whole images. Images are whole at test time. Differs from the paper: the mean colour is
    that of the backbone's training (zero after normalization), not that of this dataset.
    """

    name = "has"
    title = "HaS"
    training = HiddenPatches
