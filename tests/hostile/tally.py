"""What was attacked, how often, and what came of it: the rows of the table in the documentation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Row:
    """Tries of one attack and how they ended, by outcome."""

    outcomes: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    """Most memory of any try, in bytes; 0 where it was not measured."""


@dataclass
class Tally:
    """Rows by the name of the attack."""

    rows: dict[str, Row] = field(default_factory=dict)

    def note(self, attack: str, outcome: str, tries: int = 1, peak: int = 0) -> None:
        """Count tries of an attack that ended in the same way."""
        row = self.rows.setdefault(attack, Row())
        row.outcomes[outcome] = row.outcomes.get(outcome, 0) + tries
        row.peak = max(row.peak, peak)

    def table(self) -> str:
        """Return the rows as a table in Markdown."""
        lines = ["| Attack | Tries | Outcome | Peak memory |", "|---|---:|---|---:|"]
        for attack, row in sorted(self.rows.items()):
            tries = sum(row.outcomes.values())
            ends = ", ".join(
                f"{count:,} {name}" if len(row.outcomes) > 1 else name
                for name, count in sorted(row.outcomes.items())
            )
            peak = f"{row.peak / 1e6:,.0f} MB" if row.peak else ""
            lines.append(f"| {attack} | {tries:,} | {ends} | {peak} |")
        return "\n".join(lines) + "\n"
