"""Pictures: what is drawn on images, and the figures of docs and papers."""
