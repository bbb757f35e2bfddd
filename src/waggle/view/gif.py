"""An episode as an animated image: screenshots of the viewer's page in a headless browser.

The drawing code of the viewer runs in the browser only, so the frames show exactly what the viewer
shows, for all substrates. Chromium or Chrome must be installed on this machine; otherwise a
one-line error says so. Pillow packs the frames as GIF, animated PNG or WebP, by the file suffix.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from waggle.core.errors import ConfigError
from waggle.extras import install
from waggle.view.export import write
from waggle.view.library import Library

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = (".gif", ".png", ".webp")
"""Supported file suffixes."""
MAX_FRAMES = 160
MAX_BYTES = 8 << 20
"""Largest file in bytes; a larger animation loses every second frame until it fits."""
SMALLEST, WIDEST = 320, 1600
"""Bounds of the width in pixels."""
_SMOOTH = 6
"""Frames per round if the episode is short enough."""
_SECOND = 1000
_PACE, _PAUSE, _END = 600, 900, 2500
"""Milliseconds of a round, of the frame of the injection, and of the last frame."""
_COLOURS = 256
_FLAT = 0.58
"""Height of the swarm as a fraction of the width."""
_ONLY = (
    ".back, .controls, .panel, .track select, figcaption b { display: none !important }"
    "body { background: var(--card) } main { padding: 6px 12px }"
    ".one .track { display: block; padding: 0; border: 0 } .track .bar { flex-wrap: nowrap }"
    "h2, .status { white-space: nowrap; overflow: hidden; text-overflow: ellipsis }"
    ".curves { grid-template-columns: repeat(2, minmax(0, 1fr)) }"
    ".curves figure:nth-child(n + 3) { display: none } ::-webkit-scrollbar { display: none }"
)
"""Style sheet that leaves only title, swarm, state, legend and the first two curves visible."""


def animate(record: Path, out: Path, *, width: int = 720, dark: bool = False) -> int:
    """Write the animation of a record and return its number of frames.

    Raises:
        ConfigError: for an unsupported suffix, a width out of bounds, a folder of records, or a
            missing browser or library.
        RecordError: if the viewer cannot show the record.
    """
    if out.suffix not in KINDS:
        raise ConfigError(f"a moving picture ends in {', '.join(KINDS)}, not {out.name!r}")
    if not SMALLEST <= width <= WIDEST:
        raise ConfigError(f"--width must be {SMALLEST} to {WIDEST}, not {width}")
    library = Library(record)
    if not record.is_file():
        raise ConfigError(f"{record} is a folder; name one record")
    taken = list(_frames(library, width, dark))
    images, times = [image for image, _ in taken], [time for _, time in taken]
    data = _packed(images, times, out.suffix)
    while len(data) > MAX_BYTES and len(images) > 2:
        images, times = _thinned(images, times)
        data = _packed(images, times, out.suffix)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(data)
    return len(images)


def _frames(library: Library, width: int, dark: bool) -> Iterator[tuple[Image, int]]:
    """Yield the frames of an episode, each with its duration in milliseconds."""
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError(
            f"moving pictures need Pillow; install it with `{install('report')}`"
        ) from None
    from waggle.view.chromium import Chromium

    # A terminated browser may still write to its profile.
    with tempfile.TemporaryDirectory(prefix="waggle-gif-", ignore_cleanup_errors=True) as own:
        page = Path(own) / "page"
        write(library, page, whole=False)
        with Chromium(Path(own) / "profile") as browser:
            browser.size(width, width, dark)
            browser.open(f"{page.as_uri()}/index.html#{urlencode({'run': library.names[0]})}")
            if said := browser.run("document.querySelector('[role=alert]')?.innerText"):
                raise ConfigError(f"the viewer cannot show {library.names[0]}: {said}")
            only = f"{_ONLY} .stage {{ height: {int(_FLAT * width)}px }}"
            browser.run(
                "document.adoptedStyleSheets = [new CSSStyleSheet()],"
                f"void document.adoptedStyleSheets[0].replaceSync({only!r})"
            )
            height = browser.run("document.querySelector('main').scrollHeight")
            browser.size(width, min(2 * width, int(height)), dark)
            length, injection = browser.run(
                "(() => { const { episode } = waggleViewer().tracks[0];"
                "return [episode.length, episode.injection]; })()"
            )
            for moment, time in schedule(length, injection):
                browser.run(
                    f"(() => {{ const player = waggleViewer(); player.time = {moment};"
                    "player.draw(); })()"
                )
                with Image.open(BytesIO(browser.picture())) as shot:
                    yield shot.convert("RGB"), time


def schedule(length: int, injection: int) -> list[tuple[float, int]]:
    """Return the time of each frame in rounds, and its duration in milliseconds.

    Short episodes get several frames per round and a slower pace; long ones skip rounds, so that
    the number of frames stays bounded.
    """
    smooth = max(1, min(_SMOOTH, MAX_FRAMES // length))
    stride = -(-length // MAX_FRAMES)
    time = max(40, min(_PACE, 30 * _SECOND // length) // smooth)
    found = []
    for round in range(0, length, stride):
        found += [(round + (part + 0.5) / smooth, time) for part in range(smooth)]
        if round <= injection < round + stride:
            found[-1] = (found[-1][0], _PAUSE)
    found[-1] = (length - 0.001, _END)
    return found


def _thinned(images: Sequence[Image], times: Sequence[int]) -> tuple[list[Image], list[int]]:
    """Drop every second frame except the last; the total duration stays the same."""
    kept = [*range(0, len(images) - 1, 2), len(images) - 1]
    ends = [*kept[1:], len(images)]
    return [images[k] for k in kept], [sum(times[a:b]) for a, b in zip(kept, ends, strict=True)]


def _packed(images: Sequence[Image], times: Sequence[int], kind: str) -> bytes:
    """Return the frames as one file; a GIF uses one palette for all frames to avoid flicker."""
    from PIL import Image

    more: dict[str, Any] = {"lossless": True} if kind == ".webp" else {}
    shots = list(images)
    if kind == ".gif":
        some = shots[:: max(1, len(shots) // 6)]
        sheet = Image.new("RGB", (some[0].width, sum(image.height for image in some)))
        for place, image in enumerate(some):
            sheet.paste(image, (0, place * image.height))
        palette = sheet.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE)
        shots = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in shots]
        more = {"optimize": False, "disposal": 1}
    with BytesIO() as file:
        shots[0].save(
            file, format={".gif": "GIF", ".png": "PNG", ".webp": "WEBP"}[kind], save_all=True,
            append_images=shots[1:], duration=list(times), loop=0, **more,
        )  # fmt: skip
        return file.getvalue()
