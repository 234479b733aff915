"""LayerCAM (Jiang et al., IEEE TIP 2021)."""

import tensorflow as tf

from gc_net.methods.grad_cam import GradCAM


class LayerCAM(GradCAM):
    """ReLU(Σ_k ReLU(g_k) · f_k): each position is weighed by its own gradient.

    Grad-CAM gives a channel one weight for all positions, which suits only the coarse last map.
    The paper also takes finer maps of earlier layers and joins them with the last one; here, as for
    the other methods, it is the last map alone. Where the head averages over positions, gradients
    are the same everywhere, and what differs from Grad-CAM is that channels that speak against the
    class are left out.
    """

    name = "layer_cam"
    title = "LayerCAM"
    level = 0.15  # as Grad-CAM

    def weights(self, features: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(gradients)
