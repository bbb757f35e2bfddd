"""Interfaces of laws and substrates, two of the three extension points; the third is metrics.

Substrates use *world words*: nodes are ints, and claims are strings that the substrate defines
(their content). Only the runtime translates these into the opaque handles and aliases of a View, so
a substrate cannot leak an index by accident and a law cannot request one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from waggle.core.schema import Contract, Decision, Evidence, Fact, Json, View


class Usage(msgspec.Struct, frozen=True, gc=False):
    """The cost of one decode."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model_steps: int = 0
    failures: int = 0
    """Endpoint failures; the decode then falls back to the private proposal and is counted."""
    cost: int = 0
    """Cost in millionths of the currency of the law's prices."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """The request of one node to the law."""

    view: View
    entropy: int = 0
    """64 bits from the random stream of the node's hidden key, for laws that sample."""
    feedback: tuple[str, ...] = ()
    """Validator codes of the failed first decode; empty on the first attempt."""
    previous: str = ""
    """The failed first decode, truncated; empty on the first attempt."""


class Decode(msgspec.Struct, frozen=True, gc=False):
    """A law's answer to one request: text to be parsed, or a Decision object."""

    output: str | Decision
    usage: Usage = Usage()


@runtime_checkable
class Law(Protocol):
    """A decision source. Stateless across nodes; the order of a batch must not matter.

    Optional attributes describe its use: `order`, the canon order it was made for (default
    `shuffled`); `batched`, that it should play many episodes in parallel; `switches(contract)`, its
    runtime settings; `teacher` and `backbone`, printed with every table; `digest`, a text that
    changes with its weights and is stored with every result row; `max_failed`, the share of failed
    calls above which an episode counts as failed; and `trouble`, why the last call failed.
    """

    @property
    def name(self) -> str:
        """The name of the law; a read-only property, so that a class attribute satisfies it."""
        ...

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide for every request of one round."""
        ...


class Case(msgspec.Struct, frozen=True):
    """The complete specification of one episode."""

    substrate: str
    task: str
    n: int
    seed: int
    rounds: int | None = None
    """Number of local updates; None means the horizon of the task."""
    shock: bool = False
    """Whether late counterevidence is injected."""
    options: Mapping[str, Any] = {}
    """The options of the substrate, e.g. {"regime": "ports"}."""


class Write(msgspec.Struct, frozen=True, gc=False):
    """An admitted deposit in world words, addressed to one receiver."""

    sender: int
    receiver: int
    claim: str
    novelty: int
    support: int
    conflict: int
    ttl: int
    direction: str | None
    fresh: bool
    """True for a fresh private-evidence write, False for a relay."""


class HeldTrace(msgspec.Struct, frozen=True, gc=False):
    """A trace held by a node, in world words."""

    neighbour: int
    claim: str
    novelty: int
    support: int
    conflict: int
    ttl: int
    direction: str | None


class Local(msgspec.Struct, frozen=True, gc=False):
    """The runtime state of one node that a substrate may read: its field and commitment."""

    traces: tuple[HeldTrace, ...]
    commitment: str | None
    confidence: int = 0


class Suggestion(msgspec.Struct, frozen=True, gc=False):
    """The private proposal w_i in world words."""

    action: str
    target: int | None = None
    """A neighbour, for actions that take a handle (`VERB:@channel`)."""
    response: str | None = None
    claim: str | None = None


class Sensed(msgspec.Struct, frozen=True, gc=False):
    """What a substrate shows to one node, in world words; the runtime builds the View from it."""

    observation: Mapping[str, Json]
    proposal: Suggestion
    evidence: tuple[Evidence, ...] = ()
    """Evidence on world claims; positive conflict: the node's observation contradicts the claim."""
    ready: tuple[str, ...] = ()
    """Claims that pass the substrate's readiness test; used if `readiness` is `native`."""
    coverage: int | None = None
    ports: Mapping[int, Mapping[str, Fact]] = {}
    """Bounded facts per neighbour."""
    claims: Mapping[str, Mapping[str, Fact]] = {}
    """Bounded facts per claim."""


class Act(msgspec.Struct, frozen=True, gc=False):
    """An admitted decision in world words, after its commitment update; input of `World.step`."""

    action: str
    target: int | None
    """The contact named by a `VERB:@channel` action."""
    response: str | None
    intent: str | None
    local: Local
    claim: str | None = None
    """The claim named by a `VERB:@claim` action."""


class Shock(msgspec.Struct, frozen=True):
    """Late counterevidence that was injected."""

    round: int
    old_claims: tuple[str, ...]
    """World claims that the counterevidence refutes."""
    new_claims: tuple[str, ...]
    """World claims that it supports, if known at injection."""
    nodes: tuple[int, ...]
    """Nodes whose native view contains it immediately; empty if nodes discover it later."""
    note: str = ""


class World(Protocol):
    """One episode of a substrate. All state is kept here and in the runtime.

    Within a round the runtime calls: `shock`, then for every active node `neighbours` and `sense`
    (from one pre-update state), then `withhold`, `fingerprint` and `payload` for each write, then
    `step` once, then `receive` for every message that arrives, then `score`. The properties below
    may be plain attributes of the class or the object, since no other code sets them.

    Two hooks are optional. `share(node)`, for training, returns the node's current share of a
    score, or None if the task's score cannot be divided; the shares of all nodes average to the
    score named by the attribute `share_of`, by default the headline. `contradicts(write, payload)`,
    for the reputation defence, returns whether the payload of a write contradicts it.
    """

    @property
    def n(self) -> int:
        """The number of nodes."""
        ...

    @property
    def keys(self) -> Sequence[int]:
        """keys[i] is the hidden key of node i; every random draw for a node is derived from it."""
        ...

    @property
    def contract(self) -> Contract:
        """The task contract, the same in every view of this world."""
        ...

    @property
    def rounds(self) -> int:
        """The horizon, in rounds."""
        ...

    @property
    def readiness(self) -> Literal["gate", "native"]:
        """`gate`: the runtime's support-and-coherence test; `native`: `Sensed.ready`."""
        ...

    @property
    def handle_life(self) -> Literal["episode", "contact"]:
        """How long a handle refers to the same neighbour."""
        ...

    @property
    def refresh(self) -> int | None:
        """Rounds after which a repeated fingerprint may be written again; None: never."""
        ...

    @property
    def snapshots(self) -> bool:
        """Whether frames carry task data, which views show as offer, coverage and readiness.

        False for almost every world; `waggle check substrate` then enforces the rule of `payload`.
        """
        ...

    def active(self) -> Sequence[int]:
        """Return the nodes that take part in this update."""
        ...

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the current contacts of a node."""
        ...

    def sense(self, node: int, local: Local) -> Sensed:
        """Return p_i, w_i and the facts of node i. Must not change state."""
        ...

    def withhold(self, write: Write) -> str | None:
        """Return the name of the context safeguard that suppresses this write, or None."""
        ...

    def fingerprint(self, write: Write) -> Hashable:
        """Return a key that is equal for writes of one sender that count as repeats."""
        ...

    def payload(self, write: Write) -> object:
        """Return a snapshot of the data that is sent with the write, or None.

        It holds what the sender's view shows about the claim, in the bins of the view; the
        receiver's next view shows it in the same bins. It names no node and no claim, since the
        write does.
        """
        ...

    def receive(self, write: Write, payload: object) -> Write | None:
        """Absorb a message's payload; return the re-projected write, None if it does not arrive."""
        ...

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Compile the acts into native actions, advance the world, return the native actions.

        A stated action is executed regardless of the node's traces and commitment, or refused as
        if the node had waited. Intent FIELD is one step along the way shown for the held claim, or
        the stated action if no way is shown.
        """
        ...

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if it is due; called once per round until it fires."""
        ...

    def score(self) -> Mapping[str, float]:
        """Return the scores of the current state by name; "score" is the headline."""
        ...

    def done(self) -> bool:
        """Return whether the task has ended before its horizon."""
        ...

    def render(self) -> str:
        """Return a drawing of the state for display."""
        ...


@runtime_checkable
class Substrate(Protocol):
    """A family of tasks behind one adapter."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    options: ClassVar[type[Any]]
    """A pydantic model of the substrate's options, set on the command line as `--NAME.OPTION`."""

    def open(self, case: Case, keys: Sequence[int] | None = None) -> World:
        """Build the world of a case; node i is body keys[i] of the case."""
        ...


LawFactory: TypeAlias = Callable[..., Law]
