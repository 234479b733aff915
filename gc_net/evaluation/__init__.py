"""Evaluation: protocols, baselines and what is written about a trained model."""
