"""The report of a conformance run: named checks, each passed or failed with its first finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from waggle.core.errors import ContractError, WaggleError
from waggle.plugin_files import FAULTS, raised


class ConformanceError(ContractError, AssertionError):
    """Raised when a substrate or law fails a check; also an AssertionError, for test runners."""


@dataclass(frozen=True)
class Check:
    """One conformance check and its result."""

    name: str
    about: str
    """The requirement that is checked, in one sentence."""
    finding: str = ""
    """A description of the first violation; empty if the check passed."""

    @property
    def passed(self) -> bool:
        """Whether the check found no violation."""
        return not self.finding


@dataclass
class Report:
    """All checks of one substrate or law."""

    subject: str
    checks: list[Check] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there is at least one check and every one passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def failures(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    def run(self, name: str, about: str, look: Callable[[], str | None]) -> None:
        """Run one check; `look` returns the first finding, or None.

        An exception raised by the subject is a finding too, so that one failure hides no other.
        """
        try:
            finding = look() or ""
        except WaggleError as error:
            finding = str(error)
        except FAULTS as error:
            finding = raised(error)
        self.checks.append(Check(name, about, finding))

    def require(self) -> Report:
        """Return the report if everything passed.

        Raises:
            ConformanceError: naming every failed check and its first finding.
        """
        if self.passed:
            return self
        found = "; ".join(f"{c.name}: {c.finding}" for c in self.failures) or "nothing was checked"
        raise ConformanceError(f"{self.subject} does not conform: {found}")

    def __str__(self) -> str:
        lines = [self.subject]
        for check in self.checks:
            lines.append(f"  {'pass' if check.passed else 'FAIL'}  {check.name:14} {check.about}")
            if not check.passed:
                lines.append(f"        {check.finding}")
        return "\n".join(lines)
