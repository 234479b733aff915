"""Tables as text, as Markdown and as LaTeX."""

import abc
import re
from collections.abc import Sequence

from gc_net.registry import Registry

_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "–": "--",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


class Format(abc.ABC):
    """The format of a table. Its other methods make the texts of cells."""

    def text(self, text: str) -> str:
        """Return any text, such as a name, as a cell."""
        return text

    def bold(self, text: str) -> str:
        return text

    def loss(self, letter: str) -> str:
        """Return the symbol of a loss term."""
        return f"L_{letter}"

    def flag(self, value: bool) -> str:
        return "✓" if value else "×"

    @abc.abstractmethod
    def table(
        self,
        labels: Sequence[str],
        columns: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[str] | None],
    ) -> str:
        """Return a table.

        Args:
            labels: Headings of the leading columns, which hold text.
            columns: (group, heading) of the columns with numbers; group may be empty.
            rows: Lists of cells; None between groups of rows.
        """


class Text(Format):
    """Aligned columns, for a terminal; a group is named above its first column."""

    def table(self, labels, columns, rows):
        headings, last = list(labels), ""
        for group, heading in columns:
            headings.append(f"{group} {heading}" if group not in ("", last) else heading)
            last = group
        return aligned([headings, *(row for row in rows if row is not None)])


class Markdown(Format):
    """A pipe table; headings include their group."""

    def text(self, text):
        return text.replace("|", "\\|")

    def bold(self, text):
        return f"**{text}**"

    def loss(self, letter):
        return f"L<sub>{letter}</sub>"

    def table(self, labels, columns, rows):
        headings = [*labels, *(" ".join(filter(None, column)) for column in columns)]
        lines = [headings, ["---"] * len(labels) + ["---:"] * len(columns)]
        lines += [row for row in rows if row is not None]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class LaTeX(Format):
    """A tabular for the package booktabs, like the paper's tables."""

    def text(self, text):
        pattern = "|".join(map(re.escape, _LATEX_ESCAPES))
        return re.sub(pattern, lambda match: _LATEX_ESCAPES[match.group()], text)

    def bold(self, text):
        return rf"\textbf{{{text}}}"

    def loss(self, letter):
        return rf"$\mathcal{{L}}_{letter}$"

    def flag(self, value):
        return r"\checkmark" if value else r"$\times$"

    def table(self, labels, columns, rows):
        spec = "l" * len(labels) + "r" * len(columns)
        lines = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
        lines += self._groups(len(labels), columns)
        headings = [*map(self.text, labels), *(self.text(heading) for _, heading in columns)]
        lines += [_line(headings), r"\midrule"]
        lines += [r"\midrule" if row is None else _line(row) for row in rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def _groups(self, num_labels, columns):
        """Return the line of headings that span several columns, and the rules below them."""
        cells, rules, place = [""] * num_labels, [], num_labels + 1
        while place <= num_labels + len(columns):
            group = columns[place - num_labels - 1][0]
            rest = columns[place - num_labels - 1 :]
            width = next((n for n, (other, _) in enumerate(rest) if other != group), len(rest))
            width = width if group else 1
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{group}}}" if group else "")
            if group:
                rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
            place += width
        return [_line(cells), " ".join(rules)] if rules else []


def _line(cells):
    return " & ".join(cells) + r" \\"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts, the headings first, as lines; numbers are aligned right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    lines.insert(1, "─" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)


TABLE_FORMATS = Registry("table format", {"markdown": Markdown, "latex": LaTeX, "text": Text})
