"""Sixteen agents, sixteen folders of text, one question that needs them all.

    waggle run --plugin examples/documents/documents.py documents --law expert --watch

A beekeepers' co-op asks: how many jars of honey do we pack for Saturday? Every agent has the folder
of one member. Its worker reads the letters there and returns how many jars that member orders; the
law spreads the known orders, commits to a total once it covers all members, and reopens it when a
file changes on disk while the swarm runs.

This is a complete third-party substrate: `read` reads the files, `DocumentsWorld` is one episode,
`Documents` is the class that is registered. Invariant: agents hold orders under hidden keys, a
claim is a total, and a view shows neither a folder's name nor how many agents there are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from waggle import Act, Case, Contract, Evidence, Local, Sensed, Suggestion, WorldBase, substrate
from waggle.core.errors import ConfigError
from waggle.core.protocols import Write
from waggle.core.schema import MAX_BIN, Fact, Json
from waggle.core.seeds import derive
from waggle.core.worker import Work
from waggle.core.world import read_options

FOLDERS = Path(__file__).parent / "folders"
"""The letters that come with the example."""
ROUNDS = 60
QUESTION = (
    "These are the letters of one member of a beekeepers' co-op. How many jars of honey does the "
    "member order for this Saturday? Leave out what is said of other weeks. Answer with a number."
)
CONTRACT = Contract(
    "documents",
    "Agree on how many jars the co-op packs for Saturday. Each of you has read the letters of one "
    "member. A deposit on a channel sends along all orders that you know. Commit to the total that "
    "is ready, and reopen it when a letter has changed.",
    ("READ", "WAIT"),
)
_SENTENCE = re.compile(r"[^.!?]+[.!?]?")
_OTHER_WEEK = re.compile(r"\b(last|next)\b", re.I)
_JARS = re.compile(r"(\d{1,6}) jars")


def extract(letters: Sequence[str]) -> int:
    """Return the sum of all jars named in a member's letters, without those of other weeks."""
    sentences = (s for text in letters for s in _SENTENCE.findall(text))
    asked = (s for s in sentences if not _OTHER_WEEK.search(s))
    return sum(int(number) for s in asked for number in _JARS.findall(" ".join(s.split())))


class Order(NamedTuple):
    """The order of one member; a later version replaces an earlier one."""

    version: int
    jars: int


Orders = Mapping[int, Order]
"""Orders by the hidden key of the agent that read them."""


class Frame(NamedTuple):
    """The payload of a write: all orders its writer knows, and those its claim is based on."""

    orders: Orders
    basis: Orders


def total(orders: Orders) -> str:
    """Return the claim that a set of orders supports: the sum of their jars."""
    return f"{sum(order.jars for order in orders.values())} jars"


def outdated(basis: Orders, known: Orders) -> bool:
    """Return whether a known order is missing from a claim's basis, or newer than the one in it.

    False if the basis has an order that is not known here: the claim may then be right.
    """
    return all(key in known for key in basis) and any(
        key not in basis or order.version > basis[key].version for key, order in known.items()
    )


class DocumentsWorld(WorldBase):
    """One episode: the orders that each agent knows, and the total that it holds."""

    contract = CONTRACT
    snapshots = True  # orders travel with a deposit; views show them as offer, coverage, readiness

    def __init__(self, case: Case, folders: Sequence[Path], pace: float, keys: Sequence[int]):
        self.n, self.keys = case.n, tuple(keys)
        self.rounds = ROUNDS if case.rounds is None else case.rounds
        self._pace = pace
        drawn = sorted(folders, key=lambda path: derive(case.seed, "folder", path.name))
        self._folders = [drawn[key] for key in self.keys]
        self._letters = [read(folder) for folder in self._folders]
        self._changes = [0] * self.n
        ring = sorted(range(self.n), key=lambda key: derive(case.seed, "seat", key))
        node_of = {key: node for node, key in enumerate(self.keys)}
        seats = {key: seat for seat, key in enumerate(ring)}
        self._contacts = [
            sorted({node_of[ring[(seats[key] + k) % self.n]] for k in (-3, -1, 1, 3)} - {node})
            for node, key in enumerate(self.keys)
        ]
        self._known: list[dict[int, Order]] = [{} for _ in self.keys]
        self._sent: list[dict[int, Orders]] = [{} for _ in self.keys]
        self._bases: list[dict[str, Orders]] = [{} for _ in self.keys]
        self._held: dict[int, str | None] = {}
        self._hired = False
        for node in range(self.n):
            self.adopt(node, extract(self._letters[node]))

    # Observations.

    def neighbours(self, node: int) -> Sequence[int]:
        """Return the four contacts of an agent."""
        return self._contacts[node]

    def sense(self, node: int, local: Local) -> Sensed:
        """Show the total of the orders known here, and how much of it is news to each contact."""
        known = self._known[node]
        claim = total(known) if known else None
        complete = len(known) == self.n
        own = () if claim is None else (Evidence(claim, MAX_BIN, self._coverage(node), 0),)
        heard = {trace.claim for trace in local.traces if not trace.conflict}
        heard |= {local.commitment} if local.commitment is not None else set()
        bases = self._bases[node]
        refuted = sorted(z for z in heard if z != claim and outdated(bases.get(z, {}), known))
        return Sensed(
            observation={"letters": "read" if self.keys[node] in known else "not read"},
            proposal=Suggestion("READ", claim=claim),
            evidence=(*own, *(Evidence(z, MAX_BIN, 0, MAX_BIN) for z in refuted)),
            ready=(claim,) if claim is not None and complete else (),
            ports={j: self._port(node, j) for j in self._contacts[node]},
        )

    def _coverage(self, node: int) -> int:
        return MAX_BIN * len(self._known[node]) // self.n

    def _port(self, node: int, contact: int) -> dict[str, Fact]:
        """Return the share of known orders that a contact has not been sent, in five bins."""
        known, sent = self._known[node], self._sent[node].get(contact, {})
        news = sum(sent.get(key) != order for key, order in known.items())
        return {"offer": -(-MAX_BIN * news // max(1, len(known)))}

    # Requests to private workers, and their answers.

    def staff(self) -> None:
        """Let workers read the letters; no order is known until they answer."""
        self._hired = True
        for known in self._known:
            known.clear()

    def work(self, node: int, local: Local) -> Work:
        """Return the request for the order in the letters of an agent's folder."""
        letters = self._letters[node]
        return Work(
            "documents", QUESTION, {"letters": [*letters]}, version=self._changes[node],
            native=lambda: extract(letters),
        )  # fmt: skip

    def adopt(self, node: int, answer: Json) -> bool:
        """Store an answer as the order of the agent's member; return whether it is a valid one."""
        try:
            jars = int(str(answer))
        except ValueError:
            return False
        if not 0 <= jars < 10**6:
            return False
        before = self._known[node].get(self.keys[node])
        if before is None or before.jars != jars:
            version = 0 if before is None else before.version + 1
            self._known[node][self.keys[node]] = Order(version, jars)
        return True

    # Payloads.

    def fingerprint(self, write: Write) -> Hashable:
        """Return a key of the write; the same claim is news again once its writer knows more."""
        known = frozenset(self._known[write.sender].items())
        return (write.receiver, write.claim, write.conflict > 0, known)

    def payload(self, write: Write) -> Frame:
        """Return all orders that the writer knows, and those its claim is based on."""
        known = dict(self._known[write.sender])
        self._sent[write.sender][write.receiver] = known
        own = write.claim == total(known)
        return Frame(known, known if own else self._bases[write.sender].get(write.claim, {}))

    def receive(self, write: Write, payload: object) -> Write | None:
        """Store orders that are new or of a later version."""
        assert isinstance(payload, Frame)
        known = self._known[write.receiver]
        for key, order in payload.orders.items():
            if key not in known or order.version > known[key].version:
                known[key] = order
        self._bases[write.receiver][write.claim] = payload.basis
        return write

    # Rounds and scores.

    def step(self, acts: Mapping[int, Act]) -> Mapping[int, str]:
        """Store the total that every agent holds, then check whether a file has changed."""
        for node, act in acts.items():
            self._held[node] = act.local.commitment
            if self._known[node]:
                self._bases[node][total(self._known[node])] = dict(self._known[node])
        if self._pace:
            time.sleep(self._pace)
        for node, folder in enumerate(self._folders):
            letters = read(folder)
            if letters != self._letters[node]:
                self._letters[node] = letters
                self._changes[node] += 1
                if not self._hired:
                    self.adopt(node, extract(letters))
        return {node: act.action for node, act in acts.items()}

    def right(self) -> str:
        """Return the right total for the current files, by the rule of `extract`."""
        return f"{sum(map(extract, self._letters))} jars"

    def score(self) -> Mapping[str, float]:
        """Return the share of agents with the right total, the coverage and the file changes."""
        right = list(self._held.values()).count(self.right())
        known = sum(map(len, self._known)) / self.n**2
        return {"score": right / self.n, "coverage": known, "changes": sum(self._changes)}

    def render(self) -> str:
        """Return a line with the right total."""
        return f"the letters order {self.right()}"


def read(folder: Path) -> list[str]:
    """Return the letters of a folder, leaving out files that cannot be read yet."""
    letters = []
    for path in sorted(folder.glob("*.txt")):
        try:
            letters.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
    return letters


class DocumentsOptions(BaseModel):
    """Options of documents."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    folder: str = str(FOLDERS)
    """Folder with one folder of text files for each agent."""
    pace: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Minimum seconds per round, so that there is time to edit a file."""


@substrate("documents")
class Documents:
    """Agents that read letters and agree on a total."""

    name: ClassVar[str] = "documents"
    tasks: ClassVar[tuple[str, ...]] = ("documents",)
    options: ClassVar[type[DocumentsOptions]] = DocumentsOptions

    def open(self, case: Case, keys: Sequence[int] | None = None) -> DocumentsWorld:
        """Open the folders of a case; its seed determines which agent gets which folder."""
        options = read_options(DocumentsOptions, case)
        place = Path(options.folder).expanduser()
        folders = [path for path in sorted(place.glob("*")) if path.is_dir()]
        if case.shock:
            raise ConfigError("documents changes when a file does; edit one while it runs")
        if not 2 <= case.n <= len(folders):
            raise ConfigError(f"{place} has {len(folders)} folders; use 2 to {len(folders)} agents")
        return DocumentsWorld(case, folders, options.pace, keys or range(case.n))
