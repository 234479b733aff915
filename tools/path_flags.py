"""Flags that name files and folders."""

import os

from absl import flags

# They belong to the modules that call `define`, so that these show them in their help.
flags.disclaim_key_flags()


class PathParser(flags.ArgumentParser):
    """Takes `~` for the home folder, which a shell leaves as it is in --output=~/folder."""

    def parse(self, argument):
        return os.path.expanduser(argument)

    def flag_type(self):
        return "string"


def define(name, default, text, **options):
    """Define a flag as `flags.DEFINE_string` does, for a path."""
    serializer = flags.ArgumentSerializer()
    return flags.DEFINE(PathParser(), name, default, text, serializer=serializer, **options)
