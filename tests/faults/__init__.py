"""Faults on purpose: killed processes, full disks, damaged files, hostile input.

The tests run in a short form; `make test-faults` runs the same ones in their long form.
"""

import os

LONG = os.environ.get("GC_NET_FAULTS") == "long"


def amount(short, long):
    """Return how often to do something in this form of the suite."""
    return long if LONG else short
