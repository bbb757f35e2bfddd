from waggle.core.protocols import HeldTrace, Write
from waggle.runtime.commitment import coherence, gate
from waggle.runtime.state import Field
from waggle.runtime.switches import Switches


def write(ttl: int = 8, claim: str = "apple", sender: int = 1) -> Write:
    return Write(sender, 0, claim, 4, 4, 0, ttl, None, True)


def held(
    neighbour: int, support: int = 4, direction: str | None = "N", conflict: int = 0
) -> HeldTrace:
    return HeldTrace(neighbour, "apple", 4, support, conflict, 8, direction)


def test_novelty_falls_each_round_support_every_second() -> None:
    field = Field()
    field.put(write())
    seen = []
    for _ in range(5):
        (trace,) = field.traces()
        seen.append((trace.novelty, trace.support, trace.ttl))
        field.age()
    assert seen == [(4, 4, 8), (3, 4, 7), (2, 3, 6), (1, 3, 5), (0, 2, 4)]


def test_a_trace_lives_as_many_rounds_as_its_ttl() -> None:
    field = Field()
    field.put(write(ttl=3))
    expired = [field.age() for _ in range(4)]
    assert expired == [0, 0, 1, 0]
    assert field.traces() == ()


def test_newest_of_a_channel_wins_and_refreshes_decay() -> None:
    field = Field()
    field.put(write())
    field.age()
    field.put(write(ttl=5))
    (trace,) = field.traces()
    assert (trace.novelty, trace.ttl) == (4, 5)
    field.age()
    assert field.traces()[0].support == 4


def test_forget_drops_lost_channels_only() -> None:
    field = Field()
    field.put(write(sender=1))
    field.put(write(sender=2))
    field.forget(frozenset({2}))
    assert [t.neighbour for t in field.traces()] == [2]


def test_gate_needs_channels_support_coherence_and_no_conflict() -> None:
    switches, none = Switches(), frozenset[str]()
    pair = [held(1), held(2)]
    assert gate(pair, none, switches) == ("apple",)
    assert gate(pair[:1], none, switches) == ()
    assert gate([held(1), held(2, support=3)], none, switches) == ()
    assert gate([held(1), held(2, conflict=1)], none, switches) == ()
    assert gate([held(1), held(2, direction="S")], none, switches) == ()
    assert gate([held(1), held(2, direction="E")], none, switches) == ("apple",)
    assert gate(pair, frozenset({"apple"}), switches) == ()
    assert gate([held(1, 3), held(2, 3)], none, Switches(support=6)) == ("apple",)


def test_coherence_values() -> None:
    assert coherence([held(1), held(2)]) == 1.0
    assert coherence([held(1), held(2, direction="S")]) == 0.0
    assert abs(coherence([held(1), held(2, direction="E")]) - 0.5**0.5) < 1e-12
    assert coherence([held(1, direction="HERE"), held(2, direction=None)]) == 1.0
    assert coherence([held(1), held(2, direction="S"), held(3, direction="HERE")]) == 1 / 3
    assert coherence([]) == 0.0
