"""What a law, a substrate and a metric are: the three extension points.

Substrates speak in *world words*: nodes are ints, claims are strings of the substrate's own making
(their content). The runtime alone turns these into the opaque handles and aliases of a View, so a
substrate cannot leak an index by accident and a law cannot ask for one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from waggle.core.schema import Contract, Decision, Evidence, Fact, Json, View


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What one decode cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    model_steps: int = 0
    failures: int = 0
    """Endpoint failures; the decode then degrades to the private proposal and is counted."""
    cost: int = 0
    """Millionths of the currency in which the law's prices are given."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One node's call of the law."""

    view: View
    entropy: int = 0
    """64 bits of the node's own stream, for laws that sample; they move with a relabelling."""
    feedback: tuple[str, ...] = ()
    """Validator codes of the failed first decode; empty on the first attempt."""
    previous: str = ""
    """The failed first decode, bounded; empty on the first attempt."""


class Decode(msgspec.Struct, frozen=True, gc=False):
    """What a law returns for one request: text to be parsed, or a decision already in shape."""

    output: str | Decision
    usage: Usage = Usage()


@runtime_checkable
class Law(Protocol):
    """A decision source. Stateless across nodes; the order of a batch must not matter.

    Optional attributes tell others how to use it: `order`, the canon order it was made for (else
    `shuffled`); `batched`, that it wants many episodes side by side; `switches(contract)`, its own
    setting of the runtime; `teacher` and `backbone`, printed with every table; `digest`, text that
    changes with its weights and is kept with every row it plays; `max_failed`, the share of failed
    calls above which an episode is no result, and `trouble`, why the last one failed.
    """

    @property
    def name(self) -> str:
        """What it is called; read only, so that a class may say it once for all its instances."""
        ...

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide for every request of one round."""
        ...


class Case(msgspec.Struct, frozen=True):
    """One episode, fully determined."""

    substrate: str
    task: str
    n: int
    seed: int
    rounds: int | None = None
    """Local updates; None takes the task's own horizon."""
    shock: bool = False
    """Whether late counterevidence is injected."""
    options: Mapping[str, Any] = {}
    """The substrate's own options, e.g. {"regime": "ports"}."""


class Write(msgspec.Struct, frozen=True, gc=False):
    """An admitted deposit in world words, on its way from one node to one or more contacts."""

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
    """A trace as a node holds it, in world words."""

    neighbour: int
    claim: str
    novelty: int
    support: int
    conflict: int
    ttl: int
    direction: str | None


class Local(msgspec.Struct, frozen=True, gc=False):
    """What the runtime holds for one node and a substrate may read: its field and commitment."""

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
    """Everything a substrate shows one node, in world words; the runtime makes the View of it."""

    observation: Mapping[str, Json]
    proposal: Suggestion
    evidence: tuple[Evidence, ...] = ()
    """Evidence whose `claim` is a world claim; positive conflict = own observation contradicts."""
    ready: tuple[str, ...] = ()
    """Claims ready by the substrate's own test (`readiness = "native"`)."""
    coverage: int | None = None
    ports: Mapping[int, Mapping[str, Fact]] = {}
    """Bounded facts per neighbour."""
    claims: Mapping[str, Mapping[str, Fact]] = {}
    """Bounded facts per claim."""


class Act(msgspec.Struct, frozen=True, gc=False):
    """An admitted decision in world words, after its commitment update, for the compiler."""

    action: str
    target: int | None
    """The contact that a `VERB:@channel` names."""
    response: str | None
    intent: str | None
    local: Local
    claim: str | None = None
    """The claim that a `VERB:@claim` names."""


class Shock(msgspec.Struct, frozen=True):
    """Late counterevidence, as it was injected."""

    round: int
    old_claims: tuple[str, ...]
    """World claims that the counterevidence refutes."""
    new_claims: tuple[str, ...]
    """World claims that it supports, where they are known at injection."""
    nodes: tuple[int, ...]
    """Nodes whose native view carries it at once; empty where nodes find it later."""
    note: str = ""


class World(Protocol):
    """One episode of a substrate. State lives here and in the runtime, nowhere else.

    Within a round the runtime calls: `shock`, then for every active node `neighbours` and `sense`
    (from one pre-update state), then `withhold`, `fingerprint` and `payload` for each write, then
    `step` once, then `receive` for every message that arrives, then `score`. Nobody else sets the
    attributes of a world: plain attributes, on the class or on the object, will do.

    An optional hook helps a law to learn: `share(node)`, the node's part of a score at present, or
    None in a task whose score has no parts. Over all nodes the parts average to the score that the
    attribute `share_of` names, the headline where it is missing. Another helps a node to doubt:
    `contradicts(write, payload)`, whether what travels with a write speaks against it.
    """

    @property
    def n(self) -> int:
        """How many nodes there are."""
        ...

    @property
    def keys(self) -> Sequence[int]:
        """keys[i] is the hidden key of node i; every draw about a node is named by its key."""
        ...

    @property
    def contract(self) -> Contract:
        """What every view of this world says of its task."""
        ...

    @property
    def rounds(self) -> int:
        """The horizon."""
        ...

    @property
    def readiness(self) -> Literal["gate", "native"]:
        """`gate`: the runtime's support-and-coherence gate; `native`: `Sensed.ready`."""
        ...

    @property
    def handle_life(self) -> Literal["episode", "contact"]:
        """How long a handle means the same neighbour."""
        ...

    @property
    def refresh(self) -> int | None:
        """Rounds after which a repeated fingerprint may be written again; None: never."""
        ...

    @property
    def snapshots(self) -> bool:
        """Whether frames carry task data, whose effect views show as offer, coverage, readiness.

        False for almost every world: `waggle check substrate` then holds payloads to their rule.
        """
        ...

    def active(self) -> Sequence[int]:
        """Nodes that take part in this update."""
        ...

    def neighbours(self, node: int) -> Sequence[int]:
        """Current contacts of a node."""
        ...

    def sense(self, node: int, local: Local) -> Sensed:
        """Form p_i, w_i and the facts of node i. Must not change state."""
        ...

    def withhold(self, write: Write) -> str | None:
        """Name the context safeguard that silences this write, or None."""
        ...

    def fingerprint(self, write: Write) -> Hashable:
        """Name what makes two writes of one sender the same."""
        ...

    def payload(self, write: Write) -> object:
        """Return what travels with the write, captured now, or None.

        It is what the sender's view shows of the claim, in the bins of the view, and the receiver's
        next view shows it in the same bins. It names no node and no claim: the write does.
        """
        ...

    def receive(self, write: Write, payload: object) -> Write | None:
        """Take a message in: absorb its payload, re-project it; None if it does not reach."""
        ...

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Compile the acts into native actions, advance the world, return the native actions.

        An action that is said is done, whatever the node heard or holds, or refused as if the node
        had waited. Intent FIELD is one step along the shown way of the claim held, and the action
        itself where none is.
        """
        ...

    def shock(self, round: int, committed: Mapping[int, str]) -> Shock | None:
        """Inject late counterevidence if its rule says now; called once a round until it fires."""
        ...

    def score(self) -> Mapping[str, float]:
        """Return the named scores of the present state; "score" is the headline."""
        ...

    def done(self) -> bool:
        """Whether the task has ended before its horizon."""
        ...

    def render(self) -> str:
        """Draw the state for a person."""
        ...


@runtime_checkable
class Substrate(Protocol):
    """A family of tasks behind one adapter."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    options: ClassVar[type[Any]]
    """A pydantic model of the substrate's own options, shown as `--NAME.OPTION`."""

    def open(self, case: Case, keys: Sequence[int] | None = None) -> World:
        """Build the world of a case; keys[i] says which body of the case node i is."""
        ...


LawFactory: TypeAlias = Callable[..., Law]
