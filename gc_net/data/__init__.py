"""From image files to batches: decoding, caching, windows and tf.data pipelines."""
