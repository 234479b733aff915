"""Tables and lists of the report, as HTML."""

from gc_net.evaluation import breakdown
from gc_net.experiments.compare import COLUMNS
from gc_net.report.charts import text

_NAMED_FILES = 500

# Metric: what it says, in the order of the headline.
_MEANINGS = {
    "corloc": "boxes that match the true one, IoU above 0.5",
    "corloc_70": "boxes that match it closely, IoU above 0.7",
    "loc_err_top1": "box or first class wrong",
    "loc_err_top5": "box or first five classes wrong",
    "cls_err_top1": "first class wrong",
    "cls_err_top5": "first five classes wrong",
    "mean_iou": "overlap of boxes, on average",
    "max_box_acc_v2": "right at IoU 0.3, 0.5 and 0.7, on average",
    "mask_iou": "overlap of the shape with the true mask",
    "angle_error": "between the main axes, on average",
}
_TABLE = tuple(_MEANINGS)[:8]


def _title(key):
    group, heading, _ = COLUMNS[key]
    # With a hyphen that does not break.
    return f"{group} {heading.lower().replace('top', 'top‑')}" if group else capital(heading)


def capital(words):
    return words[0].upper() + words[1:]


def _number(key, value, decimals=1):
    unit = "°" if key == "angle_error" else " %"
    return f'{value:.{decimals}f}<span class="unit">{unit}</span>'


def _interval(metrics, key, decimals=1):
    low, high = metrics[f"{key}_ci95"]
    return f"{low:.{decimals}f} – {high:.{decimals}f}"


def headline(metrics):
    """Return the tiles of all metrics that are known, each with its interval and its meaning."""
    tiles = [
        f'<div class="tile"><dt>{_title(key)}</dt><dd><span class="value">'
        f"{_number(key, metrics[key])}</span> "
        f'<span class="interval">95 %: {_interval(metrics, key)}</span>'
        f'<span class="meaning">{meaning}</span></dd></div>'
        for key, meaning in _MEANINGS.items()
        if key in metrics
    ]
    return "".join(tiles)


def methods(evaluation):
    """Return head and body of the table of GC-Net and the other methods; tuned ones are marked."""
    name = f"GC-Net, {evaluation.shape.name.replace('_', ' ')}"
    rows = [_method_row(name, evaluation.metrics, "own", "")]
    for result in evaluation.methods.values():
        mark = ' <span class="tuned">tuned on these boxes</span>' if result.tuned else ""
        style = "is-tuned" if result.tuned else ""
        rows.append(_method_row(result.title, result.metrics, style, mark))
    headings = "".join(
        f'<th scope="col">{_title(key)} '
        f'<span class="better">{"↓" if COLUMNS[key][2] else "↑"}</span></th>'
        for key in _TABLE
    )
    return (
        f'<thead><tr><th scope="col">Method</th>{headings}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody>"
    )


def _method_row(name, metrics, style, mark):
    cells = [
        f"<td>{metrics[key]:.1f}<small>{_interval(metrics, key)}</small>"
        + (f'<span class="bar" style="--share:{metrics[key]:.1f}%"></span>' * (key == "corloc"))
        + "</td>"
        if key in metrics
        else '<td><span aria-label="none">–</span></td>'
        for key in _TABLE
    ]
    return f'<tr class="{style}"><th scope="row">{text(name)}{mark}</th>{"".join(cells)}</tr>'


def notes(evaluation):
    """Return what has to be said about the numbers: what is tuned, what is left out."""
    found = []
    if any(result.tuned for result in evaluation.methods.values()):
        found.append(
            "<p>Methods <em>tuned on these boxes</em> had a threshold or a size chosen by the very "
            "boxes they are measured with. Their figures are upper bounds, not fair rivals.</p>"
        )
    if evaluation.metrics.get("ten_crop"):
        found.append("<p>ClsErr is of the mean over ten crops, LocErr of the central one.</p>")
    without = int((evaluation.num_truth_boxes == 0).sum())
    if without:
        found.append(
            f"<p>{without:,} of the images have no true box. They count for the classification "
            "errors only.</p>"
        )
    if evaluation.unreadable:
        found.append(_unreadable(evaluation.unreadable))
    return "".join(found)


def _unreadable(unreadable):
    items = "".join(
        f"<li><code>{text(file)}</code> {text(reason)}</li>"
        for file, reason in unreadable[:_NAMED_FILES]
    )
    more = len(unreadable) - _NAMED_FILES
    more = f"<p>… and {more:,} more, which metrics.json names.</p>" if more > 0 else ""
    images = "image" if len(unreadable) == 1 else "images"
    return (
        f'<details class="unreadable" open><summary>{len(unreadable):,} {images} could not be '
        f"read and are in no figure</summary><ul>{items}</ul>{more}</details>"
    )


def classes(evaluation, shown):
    """Return a row for every class, worst first; those in `shown` lead to their examples."""
    groups = sorted(breakdown.by_class(evaluation), key=lambda item: (item[1].corloc, item[0]))
    rows = []
    for label, group in groups:
        name = text(group.name)
        if label in shown:
            name = f'<button type="button" class="link" data-class="{label}">{name}</button>'
        low, high = group.interval
        rows.append(
            f'<tr><th scope="row">{name}</th><td>{group.count:,}</td>'
            f'<td data-value="{group.corloc:.4f}">{group.corloc:.1f}'
            f'<span class="bar" style="--share:{group.corloc:.1f}%"></span></td>'
            f"<td>{low:.0f} – {high:.0f}</td><td>{group.mean_iou:.1f}</td></tr>"
        )
    return "".join(rows)


def class_options(evaluation, shown):
    """Return the choices of the class filter: the labels in `shown`, by name."""
    return "".join(
        f'<option value="{label}">{text(evaluation.class_names[label])}</option>'
        for label in sorted(shown, key=lambda label: evaluation.class_names[label])
    )
