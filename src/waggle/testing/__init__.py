"""The conformance kit: checks of your substrate or law, in a test of three lines.

    from waggle.testing import check_substrate

    def test_hive() -> None:
        check_substrate("hive").require()

Reading order: `substrate` and `law` (the checks), `propositions` (relabelling and soundness),
`channels` (the law organises, not the adapter), `episodes` (short episodes in memory), `report`.
`bound_swarmbench` computes the table of `waggle bound`.
"""

from waggle.testing.law import check_law
from waggle.testing.propositions import first_difference
from waggle.testing.report import Check, ConformanceError, Report
from waggle.testing.substrate import check_substrate

__all__ = [
    "Check",
    "ConformanceError",
    "Report",
    "check_law",
    "check_substrate",
    "first_difference",
]
