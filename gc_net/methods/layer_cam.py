"""LayerCAM (Jiang et al., IEEE TIP 2021)."""

import tensorflow as tf

from gc_net.methods.grad_cam import GradCAM


class LayerCAM(GradCAM):
    """ReLU(Σ_k ReLU(g_k) · f_k): each position is weighted by its own gradient.

    Grad-CAM gives a channel one weight for all positions, which suits only the coarse last map. The
    paper also joins finer maps of earlier layers with the last one; here, as for the other methods,
    there is only the last map. If the head averages over positions, gradients are the same
    everywhere. The only difference from Grad-CAM is then that channels with a negative weight are
    left out.
    """

    name = "layer_cam"
    title = "LayerCAM"
    level = 0.15  # as Grad-CAM

    def weights(self, features: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(gradients)
