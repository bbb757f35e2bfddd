"""A figure and its faces: SVG in the page, SVG and PDF beside it. The one place for matplotlib.

    def shares(rows: Sequence[Row], recipe: Recipe) -> Figure:
        axes = canvas(1, 2)
        axes[0].plot(rounds, share)
        return finish(axes, "shares", "Commitment shares", "Mean over 40 settings.")

The same data gives the same bytes. Knows drawing, not experiments.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from waggle.core.errors import ConfigError
from waggle.extras import install

FOLDER = "figures"
"""Folder of the figure files of a run."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Colours that stay apart for colour-blind readers and in print."""
_STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 7.0,
    "lines.linewidth": 1.4,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
Given = ParamSpec("Given")
Made = TypeVar("Made")


class MissingLibrary(ConfigError):
    """Figures were asked for where matplotlib is not installed."""


class Figure(NamedTuple):
    """A drawn figure."""

    name: str
    """Stem of its files."""
    title: str
    caption: str
    svg: bytes
    pdf: bytes


def styled(draw: Callable[Given, Made]) -> Callable[Given, Made]:
    """Run a drawing function in the house style, or say how to install what it needs."""

    @wraps(draw)
    def drawn(*given: Given.args, **named: Given.kwargs) -> Made:
        try:
            import matplotlib
        except ImportError:
            raise MissingLibrary(
                f"figures need matplotlib; install it with `{install('report')}`"
            ) from None
        with matplotlib.rc_context(_STYLE):
            return draw(*given, **named)

    return drawn


def canvas(rows: int, columns: int, *, width: float = 2.9, height: float = 2.3) -> list[Any]:
    """Return the axes of a grid of panels, row by row; sizes are inches per panel."""
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=(width * columns, height * rows), layout="constrained")
    return list(sheet.subplots(rows, columns, squeeze=False).flat)


def legend(axes: Sequence[Any], loc: str = "outside right center", columns: int = 1) -> None:
    """Put one legend for all panels on the sheet, with every label that any of them has."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    ncols = min(columns, len(handles))
    axes[0].figure.legend(handles.values(), handles.keys(), loc=loc, ncols=ncols)


def finish(axes: list[Any], name: str, title: str, caption: str = "") -> Figure:
    """Turn the sheet of some axes into a figure."""
    return Figure(name, title, caption, _bytes(axes[0], name, "svg"), _bytes(axes[0], name, "pdf"))


def _bytes(panel: Any, name: str, format: str) -> bytes:
    """Save without a date, with ids named by the figure, so that bytes repeat."""
    import matplotlib

    date = {"svg": "Date", "pdf": "CreationDate"}[format]
    with matplotlib.rc_context({"svg.hashsalt": name}), BytesIO() as file:
        panel.figure.savefig(file, format=format, metadata={date: None})
        return file.getvalue()


def html(figure: Figure) -> str:
    """Return a figure as an HTML fragment; an image of its own, so that ids cannot collide."""
    data = b64encode(figure.svg).decode()
    caption = f"<p class='note'>{escape(figure.caption)}</p>" if figure.caption else ""
    return (
        f"<section><h2>{escape(figure.title)}</h2><div class='scroll'><img alt="
        f"'{escape(figure.title)}' style='background:#fff;max-width:100%' "
        f"src='data:image/svg+xml;base64,{data}'></div>{caption}</section>\n"
    )


def markdown(figure: Figure) -> str:
    """Return a figure as Markdown, read from its file."""
    lines = [f"### {figure.title}", "", f"![{figure.title}]({FOLDER}/{figure.name}.svg)"]
    return "\n".join(lines + ([f"_{figure.caption}_"] if figure.caption else [])) + "\n"


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write the files of a figure under a run directory."""
    paths = [folder / FOLDER / f"{figure.name}.{kind}" for kind in ("svg", "pdf")]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, data in zip(paths, (figure.svg, figure.pdf), strict=True):
        path.write_bytes(data)
    return paths
