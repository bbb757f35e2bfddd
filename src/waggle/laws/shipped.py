"""Laws loaded from trained folders, including `nano`, which ships with the package.

Each is a local law with the weights of a folder and the canon order it was trained in. The folder
is one of `waggle.shipped`, was exported by training, or was packed elsewhere. Creating a law is
cheap; its files are verified and loaded at the first decision. Invariant: a law without its weights
makes no decision and explains in one line how to get them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.laws.digest import Seen, look
from waggle.laws.local import LocalLaw
from waggle.laws.origin import FILES, origin

if TYPE_CHECKING:
    from waggle.engine.engine import Engine
    from waggle.laws.dialogue import Dialogue

ADAPTER = "adapter_config.json"
"""The file that marks a folder as an adapter, which needs its backbone."""


class ShippedLaw(LocalLaw):
    """A local law whose weights are the files of a packed folder."""

    place: Path

    def _look(self) -> Seen:
        model, _, _, adapter, _ = self._weights
        return look(model, adapter, packed=True)

    def _ready(self) -> tuple[Engine, Dialogue]:
        if self._loaded is None:
            shipped.verify(self.place)
        return super()._ready()


class Shipped:
    """The factory of one shipped law; its docstring describes the weights."""

    def __init__(self, name: str, about: str, folder: Path | None = None) -> None:
        """Set the law's name and the `folder` of its files, by default that of `waggle.shipped`."""
        self.name = name
        self._folder = folder
        self.__doc__ = f"{about} {self._description()}"

    def _description(self) -> str:
        try:
            found = shipped.manifest(self._place())
        except ConfigError:
            return "Its weights are not in this installation."
        return (
            f"Teacher {found.teacher}, backbone {found.backbone}, order {found.order}, "
            f"{found.parameters / 1e6:.1f} million weights, {found.bytes / 1e6:.1f} MB."
        )

    def _place(self) -> Path:
        return shipped.folder(self.name) if self._folder is None else self._folder

    def __call__(
        self,
        mode: Literal["free", "constrained"] = "free",
        device: str = "auto",
        dtype: str = "auto",
        max_rows: int | None = None,
    ) -> LocalLaw:
        """Return the law.

        Args:
            mode: `free` decodes greedily (used for the reported numbers); `constrained` generates
                only records that are admissible in the view.
            device: `auto`, `cpu` or `cuda`.
            dtype: `auto`, `float32`, `bfloat16` or `int8`; `int8` rounds the weights, is 1.1 to 1.5
                times as fast on a CPU, and can change answers.
            max_rows: maximum batch size; further nodes wait. Default: 64 on a CPU, 512 on a GPU.
        """
        law = of_folder(self._place(), mode, device=device, dtype=dtype, max_rows=max_rows)
        law.name = self.name
        return law


def is_folder(name: str) -> bool:
    """Return whether a name is a folder that training exported or that was packed."""
    return any((Path(name).expanduser() / file).is_file() for file in FILES)


def of_folder(
    folder: Path,
    mode: Literal["free", "constrained"] = "free",
    device: str = "auto",
    dtype: str = "auto",
    max_rows: int | None = None,
    max_new_tokens: int = 256,
) -> LocalLaw:
    """Return the law of a folder that training exported or that was packed."""
    place = folder.expanduser()
    packed = (place / shipped.LAW).is_file() or not is_folder(str(place))
    whole = not (place / ADAPTER).is_file()
    model = str(place) if whole else origin(str(place)).backbone
    kind = ShippedLaw if packed else LocalLaw
    law = kind(
        model, mode, None if whole else str(place), device=device, dtype=dtype, max_rows=max_rows,
        max_new_tokens=max_new_tokens,
    )  # fmt: skip
    if isinstance(law, ShippedLaw):
        law.place = place
    return law


nano = Shipped("nano", "The shipped law trained from scratch, small enough for a CPU.")
