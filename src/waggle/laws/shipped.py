"""Laws of trained folders, and the one that ships with the package: `nano`.

Each is a local law over the weights of a folder, in the canon order it was trained in: a folder of
`waggle.shipped`, one that training exported, or one that was packed elsewhere. Naming a law costs
nothing; its files are verified and loaded at the first decision. Invariant: a law without its
weights decides nothing and says in one line how to get them.
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
        """Name the law; `folder` is where its files lie, by default those of `waggle.shipped`."""
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
            mode: `free` decodes greedily (reported numbers); `constrained` allows only records
                that are admissible in the view.
            device: `auto`, `cpu` or `cuda`.
            dtype: `auto`, `float32`, `bfloat16`, or `int8`: on a CPU 1.1 to 1.5 times as fast, from
                rounded weights, whose answers may differ.
            max_rows: largest batch; more nodes queue. By default 64 on a CPU, 512 on a GPU.
        """
        law = of_folder(self._place(), mode, device=device, dtype=dtype, max_rows=max_rows)
        law.name = self.name
        return law


def is_folder(name: str) -> bool:
    """Whether a name is a folder that training exported or that was packed."""
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
