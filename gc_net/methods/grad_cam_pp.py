"""Grad-CAM++ (Chattopadhyay et al., WACV 2018)."""

import tensorflow as tf

from gc_net.methods.grad_cam import GradCAM


class GradCAMPlusPlus(GradCAM):
    """ReLU(Σ_k w_k f_k) with w_k = Σ_ij α_ij ReLU(g_ij): only gradients that help the class count.

    Grad-CAM's mean gradient is small for a feature at few positions. Here each position's gradient
    is weighted by α = g² / (2g² + Σf · g³). So an object that shows a feature once counts like one
    that shows it everywhere. As in the paper, derivatives are those of exp(S) with the class score
    S; the second and third are powers of the first. The factor exp(S) is left out, because it
    scales the whole map. If the denominator is zero, so is α.
    """

    name = "grad_cam_pp"
    title = "Grad-CAM++"
    level = 0.15  # like Grad-CAM; the paper has different levels in its figures

    def weights(self, features: tf.Tensor, gradients: tf.Tensor) -> tf.Tensor:
        total = tf.reduce_sum(features, axis=(1, 2), keepdims=True)
        denominator = 2.0 * gradients**2 + total * gradients**3
        alpha = tf.math.divide_no_nan(gradients**2, denominator)
        return tf.reduce_sum(alpha * tf.nn.relu(gradients), axis=(1, 2), keepdims=True)
