"""Training: one module per stage."""
