"""Pictures of a sweep: lines over one field, a heat map over two; where co-scheduling does not pay is hatched.

matplotlib is loaded here alone, when a picture is asked for (extra ``study``).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import itertools
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.schedule import WORTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.study.sweep import Swept

LINES = (
    ("serial", "serial", "#afb8c1", ":"),
    ("existing", "existing", "#57606a", "-"),
    ("concurrent", "concurrent", "#e69f00", "-"),
    ("fused_serial", "fused serial", "#d55e00", ":"),
    ("plan", "plan", "#0072b2", "-"),
    ("lower_bound", "lower bound", "#1f2328", "--"),
)
REGION = "do not co-schedule"
EDGE = f"break-even: {WORTH:.0%} of existing"
"""Less than that is not worth running tasks together."""
IN_WORDS = {
    "work_ratio": "work_ratio: work of the other tasks by that of the first",
    "jitter": "jitter: part of an op's time",
    "sync_grain": "sync_grain: tiles",
}
"""What stands at an axis, where the name of the field says no unit."""
STEADY: dict[str, Any] = {"svg.hashsalt": "hexloom", "svg.fonttype": "none", "font.size": 9}
"""The same bytes for the same rows."""


def has_matplotlib() -> bool:
    """Return whether pictures of sweeps can be made."""
    return importlib.util.find_spec("matplotlib") is not None


def plots(found: Swept) -> dict[str, str]:
    """Return SVG files by name: one per numeric field, and one per pair of numeric fields of a grid.

    Raises
    ------
    InvalidInputError
        matplotlib is not installed.
    """
    if not has_matplotlib():
        raise InvalidInputError("pictures of a sweep need matplotlib: pip install 'hexloom[study]'")
    numeric = [
        field
        for field in found.fields
        if all(_is_number(row["values"].get(field)) for row in found.rows)
        and len({row["values"].get(field) for row in found.rows}) > 1
    ]
    texts = {}
    for k, field in enumerate(numeric):
        texts[f"line_{_stem(field)}.svg"] = _lines(found, field)
        for other in numeric[k + 1 :]:
            texts[f"map_{_stem(field)}_{_stem(other)}.svg"] = _map(found, field, other)
    return texts


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _stem(field: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in field)


def _figure() -> tuple[Any, Any, Any]:
    matplotlib = importlib.import_module("matplotlib")
    figures = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(7.2, 4.4), layout="constrained")
    return matplotlib, figure, figure.subplots()


def _saved(matplotlib: Any, figure: Any) -> str:
    out = io.StringIO()
    with matplotlib.rc_context(STEADY):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "hexloom"})
    return out.getvalue()


def _is_geometric(values: Sequence[float]) -> bool:
    return len(values) > 2 and min(values) > 0 and max(values) / min(values) >= 20


def _lines(found: Swept, field: str) -> str:
    """Draw all times over one field; of other fields the median of what they take."""
    matplotlib, figure, axes = _figure()
    by_value: dict[float, list[dict[str, Any]]] = {}
    for row in found.rows:
        by_value.setdefault(row["values"][field], []).append(row)
    xs = sorted(by_value)
    drawn: list[float] = []
    for key, label, colour, dash in LINES:
        ys = [_median([row[key] for row in by_value[x] if row.get(key) is not None]) for x in xs]
        drawn += [y for y in ys if y is not None]
        if any(y is not None for y in ys):
            axes.plot(xs, [float("nan") if y is None else y for y in ys], dash, color=colour, label=label, lw=1.4)
    log = _is_geometric(xs)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    away = [x for x in xs if _stays_away(by_value[x])]
    for low, high in _runs(xs, away, log=log):
        axes.axvspan(low, high, facecolor="none", edgecolor="#afb8c1", hatch="//", lw=0, zorder=0)
    edges = _edges(xs, away, log=log)
    for k, at in enumerate(edges):
        axes.axvline(at, color="#c1121f", lw=1, ls="-.", label=EDGE if k == 0 else None)
    axes.set_title(found.name, fontsize=10)
    axes.set_xlabel(_label(field))
    axes.set_ylabel(f"time, {found.unit}" + ("" if len(found.fields) == 1 else " (median over other fields)"))
    if drawn and _is_geometric(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    if away:
        axes.fill_between([], [], facecolor="none", edgecolor="#afb8c1", hatch="//", label=REGION)
    axes.legend(fontsize=8, frameon=False)
    return _saved(matplotlib, figure)


def _label(field: str) -> str:
    return IN_WORDS.get(field, field)


def _median(values: list[float]) -> float | None:
    if not values:
        return None
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _stays_away(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether at most half of the points say that running tasks together pays."""
    return bool(2 * sum(row.get("answer") == "co_schedule" for row in rows) <= len(rows))


def _between(a: float, b: float, *, log: bool) -> float:
    return float((a * b) ** 0.5) if log else (a + b) / 2


def _edges(xs: list[float], away: list[float], *, log: bool) -> list[float]:
    """Return the middle between neighbours of which one says co-schedule and the other does not."""
    return [_between(a, b, log=log) for a, b in itertools.pairwise(xs) if (a in away) != (b in away)]


def _runs(xs: list[float], away: list[float], *, log: bool) -> list[tuple[float, float]]:
    edges = _edges(xs, away, log=log)
    marks = [xs[0], *edges, xs[-1]]
    first = xs[0] in away
    return [(a, b) for k, (a, b) in enumerate(itertools.pairwise(marks)) if (k % 2 == 0) == first]


def _map(found: Swept, across: str, up: str) -> str:
    """Draw what running tasks together saves, in percent of the existing time, over two fields."""
    matplotlib, figure, axes = _figure()
    cells: dict[tuple[float, float], list[dict[str, Any]]] = {}
    for row in found.rows:
        cells.setdefault((row["values"][across], row["values"][up]), []).append(row)
    xs, ys = (sorted({key[k] for key in cells}) for k in (0, 1))
    value = {
        key: _median([100 * r["together"] for r in of if r.get("together") is not None]) for key, of in cells.items()
    }
    known = [v for v in value.values() if v is not None]
    most = max((abs(v) for v in known), default=1.0) or 1.0
    if len(cells) == len(xs) * len(ys) and len(cells) > 3:
        grid = [[value[x, y] if value[x, y] is not None else float("nan") for x in xs] for y in ys]
        painted = axes.pcolormesh(
            _borders(xs), _borders(ys), grid, cmap="RdBu", vmin=-most, vmax=most, rasterized=False
        )
        flags = [[1.0 if _stays_away(cells[x, y]) else 0.0 for x in xs] for y in ys]
        if len(xs) > 1 and len(ys) > 1 and 0 < sum(map(sum, flags)) < len(cells):
            axes.contour(xs, ys, flags, levels=[0.5], colors="#c1121f", linestyles="dashdot", linewidths=1.2)
        for x, y in cells:
            if _stays_away(cells[x, y]):
                axes.plot([x], [y], marker="x", color="#57606a", ms=5)
    else:
        keys = list(cells)
        painted = axes.scatter(
            [x for x, _ in keys],
            [y for _, y in keys],
            c=[value[key] if value[key] is not None else float("nan") for key in keys],
            cmap="RdBu",
            vmin=-most,
            vmax=most,
            edgecolors=["#c1121f" if _stays_away(cells[key]) else "none" for key in keys],
        )
    for scale, axis, values in ((axes.set_xscale, axes.xaxis, xs), (axes.set_yscale, axes.yaxis, ys)):
        if _is_geometric(values):
            scale("log")
            axis.set_major_formatter("{x:g}")
    figure.colorbar(painted, ax=axes, label="saved by running tasks together, % of existing")
    axes.set_xlabel(_label(across))
    axes.set_ylabel(_label(up))
    axes.set_title(f"{found.name}\ncrosses, or red rims: {REGION}; red line: {EDGE}", fontsize=8)
    return _saved(matplotlib, figure)


def _borders(values: list[float]) -> list[float]:
    """Return the borders of the cells around ``values``."""
    log = _is_geometric(values)
    if len(values) == 1:
        return [values[0] - 0.5, values[0] + 0.5]
    inner = [_between(a, b, log=log) for a, b in itertools.pairwise(values)]
    if log:
        return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]
    return [2 * values[0] - inner[0], *inner, 2 * values[-1] - inner[-1]]
