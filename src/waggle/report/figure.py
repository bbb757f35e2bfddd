"""A figure and its formats: SVG in the page, SVG and PDF files. The only module with matplotlib.

    def shares(rows: Sequence[Row], recipe: Recipe) -> Figure:
        axes = canvas(1, 2)
        axes[0].plot(rounds, share)
        return finish(axes, "shares", "Commitment shares", "Mean over 40 settings.")

The same data gives the same bytes. This module is independent of any experiment.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from html import escape
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from waggle.core.errors import ConfigError
from waggle.extras import install
from waggle.report.tables import html_notes

FOLDER = "figures"
"""Folder of a run's figure files."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Colours that remain distinct in print and for colour-blind readers."""
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
    "legend.handlelength": 3.2,  # dashes show on both sides of a marker
    "lines.linewidth": 1.4,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
_NARROW = 4.2
"""Width of a figure for narrow screens, in inches."""
_LONG = 26
"""Longest legend label, in characters, for two legend columns on a narrow figure."""
_LINE = 0.15
"""Height of one line of a legend, in inches."""
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)
Given = ParamSpec("Given")
Made = TypeVar("Made")


class MissingLibrary(ConfigError):
    """Raised when figures are requested and matplotlib is not installed."""


class Figure(NamedTuple):
    """A drawn figure."""

    name: str
    """Stem of the names of its files."""
    title: str
    caption: str
    svg: bytes
    pdf: bytes
    narrow: bytes = b""
    """The figure as SVG for narrow screens, if it was drawn."""


def styled(draw: Callable[Given, Made]) -> Callable[Given, Made]:
    """Wrap a drawing function to use the common style, or raise if matplotlib is missing."""

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

    panels = rows * columns
    if _narrow.get():
        columns = min(columns, max(1, int(_NARROW // width)))
        rows = ceil(panels / columns)
    sheet = Sheet(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(sheet.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.set_axis_off()
    return axes[:panels]


@contextmanager
def narrow() -> Iterator[None]:
    """Draw for narrow screens in this context: fewer panels per row, the legend below them."""
    token = _narrow.set(True)
    try:
        yield
    finally:
        _narrow.reset(token)


def both(draw: Callable[Given, Figure], *given: Given.args, **named: Given.kwargs) -> Figure:
    """Draw a figure twice, for wide and for narrow screens."""
    wide = draw(*given, **named)
    with narrow():
        return wide._replace(narrow=draw(*given, **named).svg)


def legend(axes: Sequence[Any], loc: str = "outside right center", columns: int = 1) -> None:
    """Put one legend for all panels on the figure, with the labels of all panels."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    sheet = axes[0].figure
    if _narrow.get():
        long = max(map(len, handles), default=0) > _LONG
        loc, columns = "outside lower center", 1 if long else 2
        sheet.set_figheight(sheet.get_figheight() + _LINE * ceil(len(handles) / columns))
    ncols = min(columns, len(handles))
    sheet.legend(handles.values(), handles.keys(), loc=loc, ncols=ncols)


def finish(axes: list[Any], name: str, title: str, caption: str = "") -> Figure:
    """Return the figure that contains the axes; one for narrow screens has no PDF."""
    pdf = b"" if _narrow.get() else _bytes(axes[0], name, "pdf")
    return Figure(name, title, caption, _bytes(axes[0], name, "svg"), pdf)


def _bytes(panel: Any, name: str, format: str) -> bytes:
    """Save without a date and with ids derived from the figure's name, for reproducible bytes."""
    import matplotlib

    date = {"svg": "Date", "pdf": "CreationDate"}[format]
    with matplotlib.rc_context({"svg.hashsalt": name}), BytesIO() as file:
        panel.figure.savefig(file, format=format, metadata={date: None})
        return file.getvalue()


def html(figure: Figure, anchor: str = "") -> str:
    """Return a figure as an HTML fragment; its images are embedded, so ids cannot collide."""
    wide, small = (
        f"data:image/svg+xml;base64,{b64encode(data).decode()}"
        for data in (figure.svg, figure.narrow or figure.svg)
    )
    first, stop, rest = figure.caption.partition(". ")
    notes = html_notes([text for text in (first + stop, rest) if text])
    return (
        f"<section id='{escape(anchor)}'><h2>{escape(figure.title)}</h2><picture><source "
        f"media='(max-width:40rem)' srcset='{small}'><img alt='{escape(figure.title)}' "
        f"src='{wide}'></picture>{notes}</section>\n"
    )


def markdown(figure: Figure) -> str:
    """Return a figure as Markdown that links to its SVG file."""
    lines = [f"### {figure.title}", "", f"![{figure.title}]({FOLDER}/{figure.name}.svg)"]
    return "\n".join(lines + ([f"_{figure.caption}_"] if figure.caption else [])) + "\n"


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write the files of a figure under a run directory."""
    files = (("svg", figure.svg), ("pdf", figure.pdf))
    return [put(folder, f"{figure.name}.{kind}", data) for kind, data in files]


def put(folder: Path, name: str, data: bytes) -> Path:
    """Write one file of the figures of a run directory."""
    path = folder / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
