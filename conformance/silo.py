"""Check of recorded instances: `waggle check vectors silo DIR`.

Each file is regenerated if its random stream is known, its golds are recomputed from its shards,
and its golds are scored as answers. Digests of the shipped instances are compared if the folder has
them. A malformed file is a failure with a reason, never a traceback.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from conformance.report import Outcome, VectorReport, count, guarded, read_vector
from waggle.core.errors import ConfigError
from waggle.substrates.silo.cases import (
    MAX_AGENTS,
    UPSTREAM_SIZES,
    Case,
    draw_case,
    find_task,
    independent_case,
    upstream_cases,
)
from waggle.substrates.silo.scoring import rate, score
from waggle.substrates.silo.task import Setting

DIGESTS = "UPSTREAM_DIGESTS.json"
INDEX = "INDEX.json"
_UPSTREAM_SOURCE = "upstream-seed42-stream"


def check_vectors(folder: Path) -> VectorReport:
    """Check every instance file of a folder, and its index and digests if it has them."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder; give the folder that holds the Silo instances"
        )
    outcomes = list(_outcomes(folder))
    if not outcomes:
        raise ConfigError(f"{folder} holds no .json instance; give a folder of Silo instances")
    return count(outcomes)


def _outcomes(folder: Path) -> Iterator[Outcome]:
    upstream = _Upstream()
    for path in sorted(folder.glob("*.json")):
        if path.name == DIGESTS:
            found = _check_digests(path, upstream)
        elif path.name == INDEX:
            found = _check_index(path)
        else:
            found = _check_instance(path, upstream)
        yield from guarded(path.name, found)


class _Upstream:
    """The shipped instances, drawn only up to the largest size that has been requested."""

    def __init__(self) -> None:
        self._drawn = 0
        self._cases: dict[tuple[str, int], Case] = {}

    def case(self, task_id: str, n: int) -> Case | None:
        if n not in UPSTREAM_SIZES:
            return None
        if n > self._drawn:
            self._drawn = n
            self._cases = {(case.task.id, case.setting.n): case for case in upstream_cases(n)}
        return self._cases.get((task_id, n))


def _check_instance(path: Path, upstream: _Upstream) -> Iterator[Outcome]:
    """Yield one outcome for golds and scores, and one for the regenerated shards."""
    data = read_vector(path)
    case, golds = _read_case(data)
    yield Outcome(path.name, _gold_problem(case, golds))
    yield _stream_outcome(path.name, data, case, _candidates(data, case, upstream))


def _read_case(data: Any) -> tuple[Case, list[Any]]:
    task = find_task(data["case_id"])
    metadata, agents = data["metadata"], data["agent_configs"]
    n = metadata["num_agents"]
    if not isinstance(n, int) or not 2 <= n <= MAX_AGENTS or n != len(agents):
        raise ValueError("num_agents must be the number of agent_configs")
    if [agent["agent_id"] for agent in agents] != list(range(n)):
        raise ValueError("agent_id must count from 0")
    for field, ours in (("case_name", task.name), ("level", task.level)):
        if data.get(field, ours) != ours:
            raise ValueError(f"{field} is {data[field]!r}, expected {ours!r}")
    if metadata.get("is_segmented", task.segmented) != task.segmented:
        raise ValueError(f"is_segmented must be {task.segmented}")
    setting = Setting(n, metadata.get("public_parameters", {}))
    case = Case(task, setting, tuple(agent["input_shard"] for agent in agents))
    return case, [agent["expected_output"] for agent in agents]


def _gold_problem(case: Case, golds: list[Any]) -> str | None:
    ours = json.loads(json.dumps(case.golds))
    for position, (recorded, computed) in enumerate(zip(golds, ours, strict=True)):
        if recorded != computed or type(recorded) is not type(computed):
            return f"gold of agent {position} is {_short(recorded)}, computed {_short(computed)}"
    pairs = zip(golds, case.golds, strict=True)
    found = score([rate(case.task.level, recorded, gold) for recorded, gold in pairs]).success
    return None if found == 1 else f"its own golds score S = {found}, expected 1"


def _candidates(data: Any, case: Case, upstream: _Upstream) -> list[Case]:
    """Return the cases that the file may hold, given its seed or source."""
    task, n, seed = case.task, case.setting.n, data.get("seed")
    if isinstance(seed, int):
        return [independent_case(task.id, n, seed), draw_case(task, n, Random(seed))]
    source = data["metadata"].get("source", _UPSTREAM_SOURCE)
    shipped = upstream.case(task.id, n) if str(source).startswith(_UPSTREAM_SOURCE) else None
    return [shipped] if shipped else []


def _stream_outcome(name: str, data: Any, case: Case, candidates: list[Case]) -> Outcome:
    """Compare with the known streams; skip a file with a seed that none of them reproduces."""
    recorded = (list(case.shards), dict(case.setting.public))
    differences = [_difference(recorded, candidate) for candidate in candidates]
    if not candidates or (all(differences) and "seed" in data):
        return Outcome(name, skipped=True)
    return Outcome(name, differences[0] if all(differences) else None)


def _difference(recorded: tuple[list[Any], dict[str, Any]], candidate: Case) -> str | None:
    shards, public = json.loads(json.dumps((candidate.shards, candidate.setting.public)))
    for position, (theirs, ours) in enumerate(zip(recorded[0], shards, strict=True)):
        if theirs != ours:
            return f"shard of agent {position} is {_short(theirs)}, regenerated {_short(ours)}"
    if recorded[1] != public:
        return f"public parameters are {_short(recorded[1])}, regenerated {_short(public)}"
    return None


def _check_digests(path: Path, upstream: _Upstream) -> Iterator[Outcome]:
    for key, recorded in sorted(read_vector(path).items()):
        task_id, _, size = key.partition("_n")
        case = upstream.case(task_id, int(size))
        problems = []
        if case is not None:
            ours = {"shards_sha256": _digest(case.shards), "expected_sha256": _digest(case.golds)}
            problems = [
                f"{field} is {_short(recorded[field])}, computed {computed}"
                for field, computed in ours.items()
                if recorded.get(field, computed) != computed
            ]
        problem = problems[0] if problems else None
        yield Outcome(f"{path.name} {key}", problem, skipped=case is None)


def _digest(values: tuple[Any, ...]) -> str:
    """Return the first 16 hex digits of the SHA-256 of the compact JSON of a list."""
    text = json.dumps(list(values), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_index(path: Path) -> Iterator[Outcome]:
    """Check that every indexed file has the recorded digest; skip missing files."""
    for entry in read_vector(path):
        target = path.parent / Path(entry["file"]).name
        name = f"{path.name} {target.name}"
        if not target.is_file():
            yield Outcome(name, skipped=True)
        elif hashlib.sha256(target.read_bytes()).hexdigest() == entry["sha256"]:
            yield Outcome(name)
        else:
            yield Outcome(name, "sha256 of the file differs from the index")


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
