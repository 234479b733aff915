"""Evaluation: protocols, measuring and what is written about a trained model."""
