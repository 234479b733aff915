"""Flags that name files and folders."""

import os

from absl import flags

# The flags belong to the modules that call `define`, which show them in their help.
flags.disclaim_key_flags()


class PathParser(flags.ArgumentParser):
    """Expands `~` to the home folder, which a shell does not do in --output=~/folder."""

    def parse(self, argument):
        return os.path.expanduser(argument)

    def flag_type(self):
        return "string"


def define(name, default, text, **options):
    """Define a flag as `flags.DEFINE_string` does, for a path."""
    serializer = flags.ArgumentSerializer()
    return flags.DEFINE(PathParser(), name, default, text, serializer=serializer, **options)
