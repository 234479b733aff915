"""Pictures: drawings on images, and the figures of docs and papers."""
