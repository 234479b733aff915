"""What setup.cfg cannot say: that the folder `tools` is installed as the package `gc_net.cli`.

Any project may have a `tools` of its own, and one of the two would hide the other.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["gc_net", "gc_net.*"]), "gc_net.cli"],
    package_dir={"gc_net.cli": "tools"},
)
