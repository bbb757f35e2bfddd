"""The adapter: conformance, nothing known that was not told, answers mapped and never chosen."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.substrates.golden import GRAPHS
from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Act, Case, Law, Local, Write
from waggle.core.schema import WAIT, Json, View
from waggle.laws.controls import PrivateOnly, Scripted
from waggle.runtime.recorder import Memory as Record
from waggle.runtime.replay import view_of
from waggle.runtime.sync import play
from waggle.substrates.agentsnet.adapter import AgentsNet
from waggle.substrates.agentsnet.graphs import POOL, AgentGraph, benchmark_graphs, from_edges
from waggle.substrates.agentsnet.tasks import TASKS, group_names
from waggle.substrates.agentsnet.world import (
    AgentsNetWorld,
    Memory,
    Report,
    Statement,
    episode_priorities,
)
from waggle.testing.episodes import REGIMES
from waggle.testing.propositions import relabelling
from waggle.testing.substrate import check_substrate

PATH = from_edges("path", ["James", "Mary", "Robert"], [(0, 1), (1, 2)])


def world(task: str, graph: AgentGraph = PATH, priority: bool = True) -> AgentsNetWorld:
    return AgentsNetWorld(Case("agentsnet", task, graph.n, 10_000), graph, priority)


def views(made: AgentsNetWorld, law: Law) -> list[tuple[int, View]]:
    record = Record()
    play(made, law, Case("agentsnet", made.task, made.n, 10_000), sinks=[record])
    kept = record.record()
    return [(u.node, view_of(kept.header, u)) for entry in kept.rounds for u in entry.updates]


def act(
    action: str,
    target: int | None = None,
    commitment: str | None = None,
    intent: str | None = None,
) -> Act:
    return Act(action, target, None, intent, Local((), commitment))


@pytest.mark.parametrize("priority", [True, False])
def test_conformance(priority: bool) -> None:
    options: dict[str, Json] = {"priority": priority, "family": "ba"}
    check_substrate(AgentsNet(), options=options, trajectories=False).require()


@pytest.mark.parametrize("task", TASKS)
def test_relabelled_swarms_without_priority_give_relabelled_trajectories(task: str) -> None:
    # With priorities every law is asked in tests/testing.
    case = Case("agentsnet", task, 8, 10_000, options={"priority": False, "family": "ba"})
    found = relabelling(AgentsNet(), plugins.get_law("heuristic"), case, regimes=REGIMES[-1:])
    assert found is None


def untold_knowledge(seen: list[tuple[int, View]]) -> Iterator[object]:
    """Yield what a view shows about others although nobody has deposited anything."""
    for _, view in seen:
        for port in view.private.channels:
            yield from port.facts.keys() - {"named"}
        yield from (row for row in view.private.claims if not row.facts["own"])


@pytest.mark.parametrize("task", TASKS)
def test_without_deposits_nothing_about_others_is_ever_shown(task: str) -> None:
    graph = benchmark_graphs((8,))[0]
    assert list(untold_knowledge(views(world(task, graph), PrivateOnly()))) == []


def test_that_check_catches_an_adapter_that_forwards_priorities_itself() -> None:
    class Smuggler(AgentsNetWorld):
        def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
            for node in range(self.n):
                for contact in self.neighbours(node):
                    said = self.payload(_own_write(self, contact, node))
                    self.receive(_own_write(self, contact, node), said)
            return super().step(acts)

    graph = benchmark_graphs((8,))[0]
    leaking = Smuggler(Case("agentsnet", "coloring", 8, 10_000), graph, True)
    assert list(untold_knowledge(views(leaking, PrivateOnly())))


def _own_write(made: AgentsNetWorld, sender: int, receiver: int) -> Write:
    claim = made.sense(sender, Local((), None)).evidence[0].claim
    return Write(sender, receiver, claim, 4, 4, 0, 8, None, True)


def test_a_deposit_tells_the_order_and_the_answer_of_the_same_update() -> None:
    made = world("coloring")
    write = _own_write(made, 0, 1)
    said = made.payload(write)
    made.step({0: act("Group 3"), 1: act("Group 1"), 2: act("Group 2")})
    made.receive(write, said)
    shown = [made.sense(v, Local((), None)).observation["priority"] for v in range(3)]
    ranks = [int(str(text)) for text in shown]
    seen = made.sense(1, Local((), None))
    assert seen.ports[0] == {
        "heard": 1,
        "sure": 4,
        "answer": "Group 3",
        "order": int(ranks[0] > ranks[1]),
    }
    assert seen.ports[2] == {}
    assert set(seen.claims) == {f"priority {ranks[0]}", f"priority {ranks[1]}"}
    assert made.sense(0, Local((), None)).ports[1] == {"told": 1, "vouched": 4}


def test_a_relay_carries_what_its_sender_was_told_and_names_no_contact() -> None:
    made = world("consensus")
    first = _own_write(made, 0, 1)
    said = made.payload(first)
    made.step({0: act("1"), 1: act("0"), 2: act("0")})
    made.receive(first, said)
    shown = made.sense(1, Local((), None)).claims[first.claim]
    second = msgspec.structs.replace(first, sender=1, receiver=2, fresh=False)
    made.receive(second, made.payload(second))
    seen = made.sense(2, Local((), None))
    assert {key: seen.claims[first.claim][key] for key in ("answer", "age")} == {
        "answer": shown["answer"],
        "age": shown["age"],
    }
    assert seen.ports[1] == {}


def receivers_of_equal_views(made: type[AgentsNetWorld]) -> list[Memory]:
    """Return what node 2 remembers of one relay over two hidden states behind equal views.

    Node 0 spoke in the first or in the third update; both are long ago when node 1 relays.
    """
    found = []
    for late in (0, 2):
        case = Case("agentsnet", "consensus", 3, 10_000)
        played = made(case, PATH, True)
        first = _own_write(played, 0, 1)
        for round in range(13):
            said = played.payload(first) if round == late else None
            played.step({0: act("1"), 1: act("0"), 2: act("0")})
            if said is not None:
                played.receive(first, said)
        view = played.sense(1, Local((), None))
        assert (view.claims[first.claim]["age"], view.ports[0]["heard"]) == (9, 9)
        relayed = msgspec.structs.replace(first, sender=1, receiver=2, fresh=False)
        played.receive(relayed, played.payload(relayed))
        found.append(played._memory[2])
    return found


def test_equal_views_and_equal_decisions_deliver_the_same_over_different_hidden_states() -> None:
    one, other = receivers_of_equal_views(AgentsNetWorld)
    assert one == other


def test_that_check_catches_a_relay_that_carries_the_exact_update() -> None:
    class Exact(AgentsNetWorld):
        def payload(self, write: Write) -> Statement | Report:
            known = self._memory[write.sender].claims.get(write.claim)
            return super().payload(write) if known is None else known

    one, other = receivers_of_equal_views(Exact)
    assert one != other


def test_a_relay_of_a_claim_that_the_view_does_not_list_carries_no_answer() -> None:
    star = from_edges("star", list(POOL[:20]), [(0, v) for v in range(1, 20)])
    made = AgentsNetWorld(Case("agentsnet", "consensus", 20, 10_000), star, True)
    writes = [_own_write(made, leaf, 0) for leaf in range(1, 20)]
    carried = [made.payload(write) for write in writes]
    made.step({v: act("1") for v in range(20)})
    for write, said in zip(writes, carried, strict=True):
        made.receive(write, said)
    listed = made.sense(0, Local((), None)).claims
    for write in writes:
        receiver = 1 if write.sender != 1 else 2
        relayed = msgspec.structs.replace(write, sender=0, receiver=receiver, fresh=False)
        said = made.payload(relayed)
        assert isinstance(said, Report) and (said.answer == "1") == (write.claim in listed)
    assert len(listed) < 20


def test_a_sender_knows_what_it_sent_and_not_whether_it_arrived() -> None:
    made = world("coloring")
    made.payload(_own_write(made, 0, 1))
    made.step({0: act("Group 3")})
    assert made.sense(0, Local((), None)).ports[1] == {"told": 1, "vouched": 4}
    assert made.sense(1, Local((), None)).ports[0] == {}


def test_an_older_statement_that_arrives_late_changes_nothing() -> None:
    made = world("coloring")
    write = _own_write(made, 0, 1)
    old = made.payload(write)
    made.step({0: act("Group 1")})
    new = made.payload(write)
    made.step({0: act("Group 2")})
    made.receive(write, new)
    made.receive(write, old)
    assert made.sense(1, Local((), None)).ports[0]["answer"] == "Group 2"


def test_a_partner_is_you_or_another() -> None:
    made = world("matching")
    for receiver in (0, 2):
        write = _own_write(made, 1, receiver)
        said = made.payload(write)
        made.step({1: act("MATCH", target=0)})
        made.receive(write, said)
    assert made.sense(0, Local((), None)).ports[1]["answer"] == "you"
    assert made.sense(2, Local((), None)).ports[1]["answer"] == "another"
    assert made.sense(1, Local((), None)).ports[0]["named"] == 1


@pytest.mark.parametrize(
    ("task", "acts", "official"),
    [
        ("coloring", [act("Group 2"), act("Group 1"), act(WAIT)], ["Group 2", "Group 1", None]),
        ("matching", [act("MATCH", 1), act("MATCH", 0), act("NONE")], ["Mary", "James", "None"]),
        ("vertex_cover", [act("No"), act("Yes"), act("No")], ["No", "Yes", "No"]),
        ("consensus", [act("1"), act("1"), act("1")], ["1", "1", "1"]),
    ],
)
def test_actions_map_one_to_one_onto_official_answers(
    task: str, acts: list[Act], official: list[str | None]
) -> None:
    made = world(task)
    made.step(dict(enumerate(acts)))
    assert made.official_answers() == official


def test_a_wait_keeps_the_answer_and_the_last_action_counts() -> None:
    made = world("leader_election")
    made.step({0: act("Yes"), 1: act("No"), 2: act("No")})
    assert made.score()["strict"] == 1.0
    made.step({0: act(WAIT), 1: act("Yes"), 2: act("No", intent="WAIT")})
    assert made.official_answers() == ["Yes", "Yes", "No"]
    assert made.score()["strict"] == 0.0


def overridden(made: type[AgentsNetWorld]) -> Iterator[tuple[str, str | None]]:
    """Yield actions whose answer is another, over all claims that may be held and all intents."""
    for task, actions in (("leader_election", ("Yes", "No")), ("consensus", ("0", "1"))):
        played = made(Case("agentsnet", task, 3, 10_000), PATH, True)
        told = _own_write(played, 1, 0)
        said = played.payload(told)
        played.step({1: act(actions[1])})
        played.receive(told, said)
        for held in (None, *(played.sense(v, Local((), None)).evidence[0].claim for v in range(3))):
            for intent in (None, "PRIVATE", "FIELD"):
                for action in actions:
                    played.step({0: act(action, commitment=held, intent=intent)})
                    if played.official_answers()[0] != action:
                        yield action, played.official_answers()[0]


def test_the_answer_is_the_laws_own_action_whatever_it_holds() -> None:
    assert list(overridden(AgentsNetWorld)) == []


def test_that_check_catches_an_adapter_that_answers_by_commitment() -> None:
    class Overriding(AgentsNetWorld):
        def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
            changed = {}
            for node, taken in acts.items():
                held = taken.local.commitment
                if held is not None and self.task == "leader_election":
                    leads = held == self._claims[node]
                    taken = msgspec.structs.replace(taken, action="Yes" if leads else "No")
                changed[node] = taken
            return super().step(changed)

    assert list(overridden(Overriding))


def test_priorities_are_unique_named_by_key_and_the_same_for_every_task() -> None:
    drawn = episode_priorities(7, range(100))
    assert len(set(drawn)) == 100
    assert all(0 <= u < 1 << 64 for u in drawn)
    assert episode_priorities(7, [2, 0, 1]) == [drawn[k] for k in (2, 0, 1)]
    shown = {world(task).sense(0, Local((), None)).observation["priority"] for task in TASKS}
    assert len(shown) == 1


def test_without_priority_no_order_and_one_common_claim() -> None:
    seen = views(world("vertex_cover", priority=False), plugins.get_law("heuristic"))
    assert all("order" not in v.private.observation for _, v in seen)
    assert all("order" not in p.facts for _, v in seen for p in v.private.channels)
    assert len({t.claim for _, v in seen for t in v.traces}) == 1


def legal_answers(task: str, graph: AgentGraph, node: int) -> tuple[str, ...]:
    """Return the official answers offered to one node (spec section 2)."""
    match task:
        case "coloring":
            return group_names(graph.max_degree + 1)
        case "consensus":
            return ("0", "1")
        case "matching":
            return (*(graph.names[v] for v in graph.adjacency[node]), "None")
        case _:
            return ("Yes", "No")


@pytest.mark.parametrize("task", TASKS)
def test_proposals_are_legal_and_fixed_for_the_episode(task: str) -> None:
    graph = benchmark_graphs((8,))[0]
    made = world(task, graph)
    for node in range(8):
        proposal = made.sense(node, Local((), None)).proposal
        made.step({node: act(proposal.action, proposal.target)})
        assert made.official_answers()[node] in legal_answers(task, graph, node)
        assert made.sense(node, Local((), None)).proposal == proposal


def test_sending_updates_then_one_answering_update_without_messages() -> None:
    made = world("coloring", benchmark_graphs((8,))[0])
    assert made.rounds == 5 + 1
    record = Record()
    case = Case("agentsnet", "coloring", 8, 10_000)
    play(made, plugins.get_law("heuristic"), case, sinks=[record])
    entries = record.record().rounds
    assert all(entry.delivered > 0 for entry in entries[:-1])
    assert entries[-1].delivered == 0
    causes = {w.cause for u in entries[-1].updates for w in u.writes}
    assert causes <= {"answering", "duplicate"}


def test_nonsense_from_a_law_is_data() -> None:
    made = world("matching", benchmark_graphs((8,))[0])
    case = Case("agentsnet", "matching", 8, 10_000)
    footer = play(made, Scripted('{"task_action": "MATCH:h?"}'), case)
    assert footer.scores["answered"] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "sorting"}, "use one of"),
        ({"n": 3}, "use n 4 to 100"),
        ({"options": {"family": "er"}}, "--agentsnet.family"),
        ({"options": {"index": 7}}, "index 0 to 2"),
        ({"options": {"colour": 1}}, "--agentsnet.colour"),
        ({"options": {"graphs": "/nowhere"}}, "leave the folder out"),
        ({"rounds": 0}, "at least one update"),
    ],
)
def test_bad_cases_are_one_line_that_names_the_fix(change: Any, message: str) -> None:
    case = msgspec.structs.replace(Case("agentsnet", "coloring", 8, 10_000), **change)
    with pytest.raises(ConfigError, match=message) as caught:
        AgentsNet().open(case)
    assert "\n" not in str(caught.value)


def test_a_folder_of_graphs_is_used() -> None:
    options = {"graphs": str(GRAPHS), "family": "dt", "index": 0}
    made = AgentsNet().open(Case("agentsnet", "coloring", 16, 10_000, options=options))
    assert made.graph.provenance == "released_verified"


def test_private_only_stays_at_the_level_of_random_answers() -> None:
    law, solved = PrivateOnly(), []
    for graph in benchmark_graphs():
        for task in ("coloring", "leader_election", "matching", "vertex_cover"):
            case = Case("agentsnet", task, graph.n, 10_000)
            footer = play(AgentsNetWorld(case, graph, True), law, case)
            solved.append(footer.scores["strict"])
            assert footer.counters["messages.delivered"] == 0
    assert sum(solved) / len(solved) <= 0.07


def test_a_swapped_goal_changes_the_goal_and_nothing_else() -> None:
    plain, swapped = (
        AgentsNet().open(Case("agentsnet", "leader_election", 8, 10_000, options=options))
        for options in ({}, {"goal": "vertex_cover"})
    )
    other = AgentsNet().open(Case("agentsnet", "vertex_cover", 8, 10_000))
    assert swapped.contract.goal == other.contract.goal != plain.contract.goal
    assert msgspec.structs.replace(swapped.contract, goal=plain.contract.goal) == plain.contract
    assert swapped.rounds == plain.rounds


def test_in_an_election_nodes_stand_by_the_smallest_priority_whatever_they_are_called() -> None:
    case = Case("agentsnet", "leader_election", 3, 10_000)
    for keys in ((0, 1, 2), (2, 0, 1)):
        ranks = episode_priorities(AgentsNetWorld(case, PATH, True, keys)._draws, keys)
        first = ranks.index(min(ranks))
        for answers, wrong in (("Yes Yes Yes", {0, 1, 2} - {first}), ("No No No", {first})):
            made = AgentsNetWorld(case, PATH, True, keys)
            made.step({node: act(answer) for node, answer in enumerate(answers.split())})
            # Nobody has told anything, so the first alone holds the smallest priority.
            assert [made.standing(node) for node in range(3)] == [
                (1 + 1.5 * (node not in wrong)) if node == first else float(node not in wrong)
                for node in range(3)
            ]
            assert len({made.share(node) for node in range(3)}) == 1  # all share the blame
    assert world("leader_election", priority=False).standing(0) is None


def test_whoever_is_told_the_smallest_priority_stands_better_for_it() -> None:
    made = AgentsNetWorld(Case("agentsnet", "leader_election", 3, 10_000), PATH, True)
    first = made._ranks.index(min(made._ranks))
    contact = next(iter(made.neighbours(first)))
    before = made.standing(contact)
    made.receive(_own_write(made, first, contact), Report(0, None))
    assert before is not None and made.standing(contact) == before + 1


@pytest.mark.parametrize(
    ("task", "leaves", "fits"),
    [("coloring", 62, True), ("coloring", 63, False), ("matching", 64, True),
     ("matching", 65, False)],
)  # fmt: skip
def test_a_hub_has_as_many_contacts_as_a_view_lists(
    tmp_path: Path, task: str, leaves: int, fits: bool
) -> None:
    star = {
        "names": [f"N{i}" for i in range(leaves + 1)],
        "edges": [[0, i + 1] for i in range(leaves)],
    }
    (tmp_path / f"ws_{leaves + 1}_0.json").write_bytes(msgspec.json.encode(star))
    case = Case("agentsnet", task, leaves + 1, 10_000, options={"graphs": tmp_path})
    if fits:
        world = AgentsNet().open(case)
        assert play(world, PrivateOnly(), case).rounds == world.rounds
        return
    with pytest.raises(ConfigError, match=f"{leaves} contacts.*choose another"):
        AgentsNet().open(case)
