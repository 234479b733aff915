"""Tables as Markdown and as LaTeX."""

import re

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


class Markdown:
    """A pipe table; the groups of headings are written into the headings."""

    def text(self, text):
        return text.replace("|", "\\|")

    def bold(self, text):
        return f"**{text}**"

    def loss(self, letter):
        return f"L<sub>{letter}</sub>"

    def flag(self, value):
        return "✓" if value else "×"

    def table(self, labels, columns, rows):
        """Return a table.

        Args:
            labels: Headings of the leading columns, which hold text.
            columns: (group, heading) of the columns with numbers; group may be empty.
            rows: Lists of cells; None between groups of rows.
        """
        headings = [*labels, *(" ".join(filter(None, column)) for column in columns)]
        lines = [headings, ["---"] * len(labels) + ["---:"] * len(columns)]
        lines += [row for row in rows if row is not None]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class LaTeX:
    """A tabular for the package booktabs, in the form of the paper's."""

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
        """Return a table, see `Markdown.table`."""
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


MARKUPS = Registry("table format", {"markdown": Markdown, "latex": LaTeX})
