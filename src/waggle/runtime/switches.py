"""Runtime ablations and the parameters the paper varies; the defaults are the formal settings."""

from __future__ import annotations

import msgspec

from waggle.core.errors import ConfigError


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One frozen setting of the fixed runtime."""

    conflict: bool = True
    """Off (NoConflict): verified conflict is hidden and conflicting writes carry nothing."""
    decay: bool = True
    """Off (NoDecay): held traces keep their novelty, support and lifetime."""
    reversible: bool = True
    """Off (irreversible quorum): a commitment is never cleared."""
    repeats: bool = False
    """On: send repeated writes again; the transient exchange of the native control."""
    support: int = 8
    """Total support required by the readiness gate."""
    coherence: float = 0.6
    """Support-weighted directional coherence required by the readiness gate."""
    channels: int = 2
    """Number of incident channels that must carry the claim."""
    refresh: int | None = None
    """Rounds after which a repeated write counts as a refresh. Default: the task's own."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.coherence <= 1.0:
            raise ConfigError("switch coherence must be a share from 0 to 1")
        for name in ("support", "channels"):
            if getattr(self, name) < 0:
                raise ConfigError(f"switch {name} must be 0 or more")
        if self.refresh is not None and self.refresh < 1:
            raise ConfigError("switch refresh must be 1 round or more")
