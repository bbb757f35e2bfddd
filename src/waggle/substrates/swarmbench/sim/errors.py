"""What can go wrong in a SwarmBench world; every text names the fix."""

from waggle.core.errors import ConfigError, RecordError


class LevelError(ConfigError):
    """A configuration for which no level or no next prey exists (upstream spins for ever)."""


class StateError(RecordError):
    """A stored state or vector that does not follow the schema."""
