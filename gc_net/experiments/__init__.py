"""Experiments: many runs in one table, and a look at why a run went as it did."""
