"""The report of an evaluation, one HTML page."""
