"""The picture of the opening: one axis per setting, marked with floor, laws, best and ceiling.

It is SVG with colours for light and dark mode, 380 units wide, so that its text is readable on a
phone. Every axis has a separate scale, from zero to its largest mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from waggle.report.web.opening import Setting

WIDE, EDGE, STEP = 380, 8, 40
"""Width of the picture, its margin, and the height of a setting, in units."""
_STYLE = """
.ov{--ov-ink:#1c2230;--ov-soft:#5b6472;--ov-line:#c9ced8;--ov-best:#0072b2;--ov-same:#7fb2dd;
--ov-warn:#a4470b;--ov-card:#fff}
@media(prefers-color-scheme:dark){.ov{--ov-ink:#e6e9ee;--ov-soft:#a9b1be;--ov-line:#4a515d;
--ov-best:#62b6f0;--ov-same:#2f6f9f;--ov-warn:#f0a35e;--ov-card:#1c2027}}
.ov{font:12px system-ui,-apple-system,"Segoe UI",sans-serif}.ov text{fill:var(--ov-ink)}
.ov .soft{fill:var(--ov-soft)}.ov .flat{fill:var(--ov-warn)}.ov .flat,.ov .name{font-weight:600}
.ov .axis{stroke:var(--ov-line);stroke-width:2}.ov .law{fill:var(--ov-soft);opacity:.75}
.ov .same{fill:var(--ov-same);stroke:var(--ov-best)}.ov .best{fill:var(--ov-best)}
.ov .floor{fill:var(--ov-card);stroke:var(--ov-ink);stroke-width:1.5}
.ov .ceiling{stroke:var(--ov-ink);stroke-width:2.5}
"""
_MARKS = (
    ("best", "best law"),
    ("same", "no difference from the best"),
    ("law", "another law"),
    ("floor", "best floor"),
    ("ceiling", "ceiling"),
)
"""The kinds of marks and their meanings."""


def picture(settings: tuple[Setting, ...]) -> str:
    """Return the picture as SVG; the same settings give the same text."""
    used = {kind for setting in settings for kind, _ in _marks(setting)}
    verdicts = [text for text in dict.fromkeys(each.verdict for each in settings) if text]
    lines = [line for place, each in enumerate(settings) for line in _line(each, STEP * place)]
    top = STEP * len(settings) + 14
    legend, high = _legend([mark for mark in _MARKS if mark[0] in used], verdicts, top)
    said = "; ".join(f"{s.name}: best {s.best} {s.text(s.means[s.best])}" for s in settings)
    return (
        f"<svg class='ov' viewBox='0 0 {WIDE} {high}' "
        f"role='img' aria-label='{escape('Best, floor and ceiling. ' + said, quote=True)}'>"
        f"<style>{_STYLE}</style>{''.join(lines)}{''.join(legend)}</svg>"
    )


def file(settings: tuple[Setting, ...]) -> str:
    """Return the picture as a standalone SVG file."""
    return picture(settings).replace("<svg ", "<svg xmlns='http://www.w3.org/2000/svg' ", 1)


def _marks(setting: Setting) -> list[tuple[str, float]]:
    """Return the marks of a setting with their values, in drawing order."""
    found = []
    for name, value in setting.means.items():
        kind = "best" if name == setting.best else "same" if name in setting.same else "law"
        found.append((kind, value))
    order = ("law", "same", "best")
    found.sort(key=lambda mark: order.index(mark[0]))
    if setting.ceiling is not None:
        found.insert(0, ("ceiling", setting.ceiling))
    if setting.low is not None:
        found.append(("floor", setting.low))
    return found


def _line(setting: Setting, top: int) -> Iterator[str]:
    marks = _marks(setting)
    least = min(0.0, *(value for _, value in marks))
    most = max(value for _, value in marks)
    scale = (WIDE - 4 * EDGE) / ((most - least) or 1.0)
    best = f"{_cut(setting.best, 18)} {setting.text(setting.means[setting.best])}"
    flat = f" {setting.verdict}" if setting.verdict else ""
    name = escape(_cut(setting.name, 58 - len(best + flat)))
    yield f"<text class='name' x='{EDGE}' y='{top + 14}'>{name}</text>"
    yield (
        f"<text class='soft' x='{WIDE - EDGE}' y='{top + 14}' text-anchor='end'>"
        f"{escape(best)}<tspan class='flat'>{flat}</tspan></text>"
    )
    yield f"<path class='axis' d='M{EDGE} {top + 27}H{WIDE - EDGE}'/>"
    for sort, value in marks:
        yield _mark(sort, 2 * EDGE + (value - least) * scale, top + 27)


def _mark(kind: str, x: float, y: float) -> str:
    place = f"{x:.1f}"
    if kind == "ceiling":
        return f"<path class='ceiling' d='M{place} {y - 8:.0f}v16'/>"
    if kind == "floor":
        return f"<path class='floor' d='M{place} {y + 2:.0f}l5.5 8h-11z'/>"
    radius = {"best": 6, "same": 5}.get(kind, 3)
    return f"<circle class='{kind}' cx='{place}' cy='{y:.0f}' r='{radius}'/>"


def _legend(marks: list[tuple[str, str]], verdicts: list[str], top: int) -> tuple[list[str], int]:
    """Return a legend of the marks in use, two per line, and the y coordinate of its end."""
    found = []
    for place, (kind, text) in enumerate(marks):
        x, y = EDGE + (place % 2) * 172, top + 18 * (place // 2)
        found.append(_mark(kind, x + 6, y - (8 if kind == "floor" else 4)))
        found.append(f"<text class='soft' x='{x + 18}' y='{y}'>{text}</text>")
    end = top + 18 * ((len(marks) + 1) // 2)
    found.append(
        f"<text class='soft' x='{EDGE}' y='{end}'>every line has a scale of its own</text>"
    )
    end += 18
    if verdicts:
        found.append(
            f"<text x='{EDGE}' y='{end}'><tspan class='flat'>{', '.join(verdicts)}</tspan>"
            "<tspan class='soft'> best law against floor, at 95 %</tspan></text>"
        )
        end += 18
    return found, end


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
