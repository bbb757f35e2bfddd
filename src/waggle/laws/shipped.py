"""The laws that ship with the package, by name: `nano` and `smollm2`.

Each is a local law over the weights in `waggle.shipped`, in the canon order it was trained in.
Naming one costs nothing; its files are verified and loaded at the first decision. Invariant: a law
without its weights decides nothing and says in one line how to get them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.laws.local import LocalLaw

if TYPE_CHECKING:
    from waggle.engine.engine import Engine
    from waggle.laws.dialogue import Dialogue


class ShippedLaw(LocalLaw):
    """A local law whose weights are files of the package."""

    def _ready(self) -> tuple[Engine, Dialogue]:
        if self._loaded is None:
            shipped.verify(shipped.folder(self.name))
        return super()._ready()


class Shipped:
    """Makes one shipped law; its docstring says what ships."""

    def __init__(self, name: str, about: str) -> None:
        self.name = name
        self.__doc__ = f"{about} {self._told()}"

    def _told(self) -> str:
        try:
            found = shipped.manifest(shipped.folder(self.name))
        except ConfigError:
            return "Its weights are not in this installation."
        return (
            f"Teacher {found.teacher}, backbone {found.backbone}, order {found.order}, "
            f"{found.parameters / 1e6:.1f} million weights, {found.bytes / 1e6:.1f} MB."
        )

    def __call__(
        self,
        mode: Literal["free", "constrained"] = "free",
        device: str = "auto",
        dtype: str = "auto",
        max_rows: int | None = None,
    ) -> LocalLaw:
        """Return the law.

        Args:
            mode: `free` decodes greedily (reported numbers); `constrained` only spells records
                that are admissible in this very view.
            device: `auto`, `cpu` or `cuda`.
            dtype: `auto`, `float32` or `bfloat16`.
            max_rows: largest batch; more nodes queue. By default 64 on a CPU, 512 on a GPU.
        """
        place = shipped.folder(self.name)
        whole = not shipped.present(self.name) or shipped.manifest(place).kind == "full"
        model = str(place) if whole else shipped.manifest(place).backbone
        law = ShippedLaw(
            model, mode, None if whole else str(place), device=device, dtype=dtype,
            max_rows=max_rows,
        )  # fmt: skip
        law.name = self.name
        return law


nano = Shipped("nano", "The shipped law trained from scratch, small enough for a CPU.")
smollm2 = Shipped("smollm2", "The shipped law as an adapter on SmolLM2-135M.")
