"""The command `gc-net`; in a checkout that is not installed, `python -m tools`."""

import ast
import difflib
import importlib
import os
import sys

from gc_net.version import __version__

# In the order of the list that `gc-net` prints.
COMMANDS = {
    "From photos to labels": (
        "check",
        "train",
        "evaluate",
        "predict",
        "export",
        "serve",
        "label_studio",
    ),
    "Experiments": ("compare", "sweep", "diagnose"),
    "Pictures": ("visualize", "contact_sheet", "draw_curves", "draw_masks"),
    "Files from elsewhere": ("convert_weights", "prepare_cub"),
    "Shapes": ("change_shape", "rate", "train_generator"),
}
NAMES = tuple(name for names in COMMANDS.values() for name in names)
_HELP = ("help", "--help", "-help", "--helpshort", "--helpfull", "-h", "-?")


def main() -> None:
    """Run the tool that the first argument names, with the flags that follow."""
    program = "gc-net" if __package__ != "tools" else "python -m tools"
    word, *arguments = sys.argv[1:] or ["--help"]
    if word in _HELP:
        word, *arguments = [*arguments, "--help"] if arguments else [None]
        if word is None:
            print(_overview(program))
            return
    if word == "--version":
        print(f"gc-net {__version__}")
        return
    name = word.replace("-", "_")
    if name not in NAMES:
        sys.exit(f"Error: {_unknown(word)} See {program} --help.")
    # What `--help` and errors call the tool, and what is kept in the record of a run.
    sys.argv = [f"{program} {name}", *arguments]
    tool = importlib.import_module(f".{name}", __package__)
    importlib.import_module(".program", __package__).run(tool.main)


def _overview(program):
    width = max(map(len, NAMES)) + 2
    lines = [
        "Weakly supervised object localization: tight boxes from class labels alone.",
        "",
        f"Usage: {program} COMMAND --flag=value ...",
        f"       {program} COMMAND --help",
    ]
    for title, names in COMMANDS.items():
        lines += ["", f"{title}:", *(f"  {name:{width}}{summary(name)}" for name in names)]
    return "\n".join(lines)


def summary(name: str) -> str:
    """Return the first line of a tool's description, without importing the tool."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), encoding="utf-8") as file:
        return ast.get_docstring(ast.parse(file.read())).partition("\n")[0]


def _unknown(word):
    kind = "flag" if word.startswith("-") else "command"
    close = difflib.get_close_matches(word.lstrip("-"), NAMES, n=len(NAMES), cutoff=0.5)
    known = [*close, *(name for name in NAMES if name not in close)]
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"Unknown {kind} {word!r}.{meant} Known commands: {', '.join(known)}."


if __name__ == "__main__":
    main()
