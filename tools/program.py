"""Shared by all tools: readable help, and errors in one line."""

import contextlib
import dataclasses
import errno
import functools
import logging
import os
import re
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator

from absl import app, flags

RESUMES = "The same command resumes from here."
# Exit status if the work could not be done. That of a wrong flag is 1.
FAILED = 2
_HELP = ("--help", "-help", "--helpshort", "-helpshort", "-h", "-?")
_WIDTH = 100

_formatwarning = warnings.formatwarning

# Titles of groups of flags, and the names of the flags in them.
_groups: dict[str, list[str]] = {}


def group(title: str, names: Iterable[str]) -> None:
    """Show the named flags together in `--help`, below a title."""
    _groups.setdefault(title, []).extend(names)


def tool(
    argument: str | None = None,
    arguments: bool = False,
    first: tuple[str, ...] = (),
) -> Callable:
    """Return a decorator for the `main` of a tool.

    An error that a user can fix ends the tool with one line instead of a traceback;
    `--verbosity=1` shows the traceback too.

    Args:
        argument: The flag to suggest if an argument is given without a flag.
        arguments: Whether the tool takes arguments that are no flags.
        first: Flags that `--help` shows before all others.
    """

    def decorate(main):
        @functools.wraps(main)
        def run_main(argv):
            try:
                if argv[1:] and not arguments:
                    raise app.UsageError(_unexpected(argv[1:], argument))
                with ending_plainly():
                    return main(argv)
            except app.UsageError as error:
                _end(f"{error} See {_command(main)} --help.", error.exitcode)

        run_main.first = first
        return run_main

    return decorate


@contextlib.contextmanager
def ending_plainly(interrupted: str = "") -> Iterator[None]:
    """End the process without a traceback if the work fails or is interrupted.

    Args:
        interrupted: What to say after "Interrupted."
    """
    try:
        yield
    except app.UsageError:
        raise
    except (ValueError, OSError, ImportError) as error:
        if flags.FLAGS.is_parsed() and flags.FLAGS.verbosity > 0:
            raise
        _end(_reason(error), FAILED)
    except KeyboardInterrupt as interruption:
        print(f"\nInterrupted. {interrupted}".rstrip(), file=sys.stderr)
        # Training says by which signal.
        sys.exit(128 + next(iter(interruption.args), signal.SIGINT))


def run(main: Callable) -> None:
    """Parse the flags and run the `main` of a tool, then end the process."""
    app.run(main, flags_parser=functools.partial(_parse, main))


def _quieten_libraries():
    """Keep TensorFlow's messages off the terminal, unless `--verbosity` is given.

    absl would show them: an export prints the name of every variable four times.
    """
    if not flags.FLAGS["verbosity"].present:
        flags.FLAGS.verbosity = -1  # warnings; absl keeps a value that is set
        logging.getLogger("gc_net").setLevel(logging.INFO)
        warnings.formatwarning = _plain_warning


def _plain_warning(message, category, *place, **line):
    """Return what is meant for the user without the line of code that said it."""
    if issubclass(category, UserWarning):
        return f"Warning: {message}\n"
    return _formatwarning(message, category, *place, **line)


def _command(main):
    """Return what was typed to start the tool."""
    spec = sys.modules[main.__module__].__spec__
    if main.__module__ != "__main__" or spec is None:
        return os.path.basename(sys.argv[0])
    return f"python -m {spec.name.removesuffix('.__main__')}"


def _parse(main, argv):
    if any(argument in _HELP for argument in argv[1:]):
        print(help_text(main))
        sys.exit(0)
    try:
        arguments = flags.FLAGS(without_foreign(argv))
    except flags.Error as error:
        message = " ".join(map(_complaint, str(error).splitlines()))
        _end(f"{message} See {_command(main)} --help.", 1)
    _quieten_libraries()
    return arguments


def given_by_hand(arguments: Iterable[str]) -> frozenset[str]:
    """Return the names of the flags on a command line, without those of its flagfiles."""
    words = [argument.lstrip("-") for argument in arguments if argument.startswith("-")]
    return frozenset(word.partition("=")[0] for word in words)


def without_foreign(argv: list[str]) -> list[str]:
    """Return a command line with its recipes read in, less what in them is for training alone.

    So every tool takes a recipe. A flag that is given by hand and not known stays an error.
    """
    words = [argv[0], *flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)]
    foreign = given_by_hand(words[1:]) - given_by_hand(argv[1:]) - set(flags.FLAGS)
    if not foreign:
        return words
    from gc_net.stages.config import RunOptions, setting_flags

    of_training = {*setting_flags(), *(field.name for field in dataclasses.fields(RunOptions))}
    # A flag that is on or off may be written --noflag.
    of_training |= {"boxes"} | {f"no{name}" for name in of_training}
    foreign = {name for name in foreign & of_training if name.removeprefix("no") not in flags.FLAGS}
    return [word for word in words if not given_by_hand([word]) & foreign]


def _complaint(line):
    missing = re.fullmatch(r"flag --(\w+)=None: .* must have a value other than None\.", line)
    if not missing:
        return line.replace(" ?", "?")  # as in "Did you mean: format ?"
    return f"--{missing[1]} is missing. {flags.FLAGS[missing[1]].help}"


def help_text(main: Callable) -> str:
    """Return what a tool does, the flags that matter most, and the others by group."""
    module = sys.modules[main.__module__]
    # absl knows the flags of the program that was started by the name of its file.
    owner = sys.argv[0] if main.__module__ == "__main__" else main.__module__
    known = {flag.name: flag for flag in flags.FLAGS.get_key_flags_for_module(owner)}
    known["flagfile"] = _FlagFile
    first = [name for name in main.first if name in known]
    grouped = {name for names in _groups.values() for name in names}
    rest = [name for name in known if name not in grouped and name != "flagfile"]
    blocks = [("Most used", first), ("More" if first else "Flags", rest), *_groups.items()]
    texts = [module.__doc__.strip()]
    shown = set()
    for title, names in blocks:
        lines = [_describe(known[name]) for name in names if name in known and name not in shown]
        shown.update(names)
        if lines:
            texts.append("\n".join([f"{title}:", *lines]))
    texts.append(
        "--flagfile=FILE reads flags from a file, one a line; later flags take precedence."
    )
    return "\n\n".join(texts)


class _FlagFile:
    name, boolean, default_as_str = "flagfile", False, None
    help = "Recipe: a file of flags, e.g. recipes/photos.flags; flags after it take precedence."


def _describe(flag):
    # absl puts the choices before the text, and a remark after it.
    form = r"(?:<(.*?)>: )?(.*?)(?:;\s*repeat this option .*)?"
    choices, text = re.fullmatch(form, flag.help, re.DOTALL).groups()
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    if choices:
        name += f"={choices}"
    default = (flag.default_as_str or "").strip("'\"")
    text = f"{name}: {text} (default: {default})" if default else f"{name}: {text}"
    return textwrap.fill(
        text, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )


def _unexpected(words, argument):
    if len(words) == 1:
        meant = f" Write --{argument}={words[0]}." if argument else ""
        return f"Unexpected argument: {words[0]}.{meant}"
    return (
        f"Unexpected arguments: {' '.join(words)}. Flags are written --name=value; quote patterns "
        "and values with spaces."
    )


def _reason(error):
    """Return the message of an error; for system errors, in words instead of a number."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return error
    advice = ""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        advice = " Choose another folder, or change its permissions."
    elif error.errno == errno.ENOTDIR:
        advice = " A part of the path is a file; expected a folder."
    return f"{error.filename}: {error.strerror}.{advice}"


def _end(message, status):
    if status == 1:
        sys.exit(f"Error: {message}")
    print(f"Error: {message}", file=sys.stderr)
    sys.exit(status)
