"""Views and decisions for property tests: valid by construction, and mutated ones beside them."""

from __future__ import annotations

import random
from functools import cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from waggle.core import templates
from waggle.core.options import actions
from waggle.core.schema import (
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Fact,
    Json,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)

HANDLES = ("h1", "h2", "h3", "ha", "hb7", "hzz", "h10", "h0a9")
CLAIMS = ("z1", "z2", "z3", "za", "zq9", "z0a9z")
ACTIONS = ("WAIT", "UP", "DOWN", "MATCH:@channel", "TRACK:@claim", "ANSWER")
ENTROPY = st.integers(0, 2**64 - 1)
POOL = 300
"""Views that the property tests share; each takes some of its own."""

contracts = st.builds(
    Contract,
    task=st.sampled_from(("beacon", "silo/III-26")),
    goal=st.sampled_from(("Agree.", 'Work out the "answer" é together.')),
    actions=st.sampled_from((ACTIONS, ("WAIT", "GO"), ("WAIT",))),
    deposits=st.integers(0, 4),
    broadcast=st.booleans(),
).flatmap(
    lambda c: st.sampled_from(
        (c, msgspec.structs.replace(c, response="ANSWER")) if "ANSWER" in c.actions else (c,)
    )
)
directions = st.sampled_from((None, None, "N", "HERE"))
facts: st.SearchStrategy[dict[str, Fact]] = st.dictionaries(
    st.sampled_from(("offer", "heard", "kind")),
    st.one_of(st.integers(-1, 2), st.sampled_from(("a", "b"))),
    max_size=2,
)
contents: st.SearchStrategy[dict[str, Json]] = st.dictionaries(
    st.sampled_from(("window", "energy", "z1", "note")),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.just(0.5), st.just("h1 é")),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(st.sampled_from(("a", "b")), inner, max_size=2),
        ),
        max_leaves=4,
    ),
    max_size=3,
)


def bins(top: int) -> st.SearchStrategy[int]:
    """Bins with many ties, which is where order and symmetry are hard."""
    return st.sampled_from((0, 1, top))


@st.composite
def fresh_views(draw: st.DrawFn, handles: int = 5, claims: int = 4, traces: int = 6) -> View:
    """Draw a bounded view with every slot in use."""
    hs = draw(st.lists(st.sampled_from(HANDLES), unique=True, max_size=handles))
    zs = draw(st.lists(st.sampled_from(CLAIMS), unique=True, max_size=claims))
    claim = st.sampled_from(zs) if zs else st.nothing()
    contract = draw(contracts)
    evidence = st.builds(Evidence, claim, bins(4), bins(3), st.sampled_from((0, 0, 2)), directions)
    trace = (
        st.builds(
            Trace, st.sampled_from(hs), claim, bins(3), bins(2), st.sampled_from((0, 0, 3)),
            st.sampled_from((1, 2, 5, 8)), directions,
        )
        if hs
        else st.nothing()
    )  # fmt: skip
    private = Private(
        draw(contents),
        tuple(draw(st.lists(evidence, max_size=4))) if zs else (),
        tuple(draw(st.lists(claim, unique=True, max_size=2))) if zs else (),
        draw(st.one_of(st.none(), bins(4))),
        tuple(Port(h, draw(st.sampled_from((0, 0, 7))), draw(facts)) for h in hs),
        tuple(ClaimRow(z, draw(facts)) for z in draw(st.lists(claim, unique=True, max_size=3)))
        if zs
        else (),
    )
    found = tuple(draw(st.lists(trace, max_size=traces))) if hs and zs else ()
    held = draw(st.none() | st.builds(Commitment, claim, bins(4))) if zs else None
    view = View(contract, private, Proposal("WAIT"), found, held, draw(bins(4)))
    return msgspec.structs.replace(view, proposal=draw(_proposals(view, zs)))


@cache
def _known() -> list[View]:
    found: list[View] = []

    @given(fresh_views())
    @settings(max_examples=POOL)
    def keep(view: View) -> None:
        found.append(view)

    keep()
    return found


def views() -> st.SearchStrategy[View]:
    """Return views of a pool: to draw one takes longer than most of what is asked of it.

    A profile that is not the standard one looks further, and draws views of its own.
    """
    if settings.get_current_profile_name() != "standard":
        return fresh_views()
    return st.deferred(lambda: st.sampled_from(_known()))


@st.composite
def _proposals(draw: st.DrawFn, view: View, claims: list[str]) -> Proposal:
    action = draw(st.sampled_from(actions(view)))
    response = draw(st.sampled_from((None, "42", 'é"')))
    return Proposal(action, response, draw(st.sampled_from([None, *claims])))


def mutate(decision: Decision, rng: random.Random) -> Decision:
    """Change one thing of a decision, legally or not."""
    replace = msgspec.structs.replace
    kind = rng.randrange(7)
    if kind == 0:
        texts = (
            "WAIT",
            "UP",
            "DOWN",
            "FLY",
            "ANSWER",
            "MATCH:h1",
            "MATCH:h99",
            "MATCH:@channel",
            "MATCH:z1",
            "TRACK:z1",
            "TRACK:z99",
            "TRACK:@claim",
            "TRACK:h1",
            "",
        )
        return replace(decision, task_action=rng.choice(texts))
    if kind == 1:
        return replace(decision, response=rng.choice((None, "42", "x" * 64, "x" * 65)))
    if kind == 2:
        intents = (None, "PRIVATE", "FIELD", "WAIT", "AUTO")
        return replace(decision, execution_intent=rng.choice(intents))
    if kind == 3:
        claim = rng.choice((*CLAIMS, "z77"))
        commit = rng.choice((None, Commitment(claim, rng.randint(-1, 5))))
        return replace(decision, commit=commit)
    if kind == 4 or not decision.deposits:
        return replace(decision, deposits=(*decision.deposits, random_deposit(rng)))
    if kind == 5:
        return replace(decision, deposits=decision.deposits[1:])
    first = _mutated_deposit(decision.deposits[0], rng)
    return replace(decision, deposits=(first, *decision.deposits[1:]))


def random_deposit(rng: random.Random) -> Trace:
    """Draw a deposit without looking at any view."""
    return Trace(
        rng.choice((*HANDLES, "*", "h99")), rng.choice((*CLAIMS, "z77")), rng.randint(-1, 5),
        rng.randint(-1, 5), rng.randint(-1, 5), rng.randint(0, 9),
        rng.choice((None, "N", "HERE", "UP")),
    )  # fmt: skip


def _mutated_deposit(deposit: Trace, rng: random.Random) -> Trace:
    field = rng.choice(("channel", "claim", "novelty", "support", "conflict", "ttl", "direction"))
    value: object = rng.choice(("h1", "ha", "*", "z1", "N", None))
    if field in ("novelty", "support", "conflict", "ttl"):
        value = getattr(deposit, field) + rng.choice((-1, 1, 4))
    elif field != "direction" and value is None:
        value = "h1"
    return msgspec.structs.replace(deposit, **{field: value})


def pairs(legal: bool = False) -> st.SearchStrategy[tuple[View, Decision]]:
    """Draw a view and a decision on it: admissible, or with up to four mutations."""
    mutations = st.none() if legal else st.integers(0, 2**32)
    return st.builds(_pair, views(), ENTROPY, mutations)


def _pair(view: View, entropy: int, mutations: int | None) -> tuple[View, Decision]:
    decision = templates.sample(view, entropy)
    if mutations is not None:
        rng = random.Random(mutations)
        for _ in range(rng.randint(0, 4)):
            decision = mutate(decision, rng)
    return view, decision
