"""Check instance files against this implementation (`waggle check vectors silo DIR`).

Each file is regenerated where its random stream is known, its golds are recomputed from its shards,
and its golds are scored as answers. Digests of the shipped instances are compared where the folder
has them. Invariant: a malformed file is a failure with a reason, never a traceback.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError, WaggleError
from waggle.substrates.silo.cases import (
    MAX_AGENTS,
    UPSTREAM_SIZES,
    Case,
    draw_case,
    independent_case,
    upstream_cases,
)
from waggle.substrates.silo.registry import find_task
from waggle.substrates.silo.scoring import score_answers
from waggle.substrates.silo.task import Setting

DIGESTS = "UPSTREAM_DIGESTS.json"
INDEX = "INDEX.json"
MAX_FILE_BYTES = 64 * 2**20
_UPSTREAM_SOURCE = "upstream-seed42-stream"
_BROKEN = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError,
    TypeError, ValueError, WaggleError,
)  # fmt: skip


class VectorReport(NamedTuple):
    """Counts of checks, and the first difference found."""

    passed: int
    failed: int
    skipped: int
    first_difference: str | None


class _Outcome(NamedTuple):
    name: str
    problem: str | None = None
    skipped: bool = False


def check_vectors(folder: Path) -> VectorReport:
    """Check every instance file of a folder, its index and its digests where it has them."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder; give the folder that holds the Silo instances"
        )
    outcomes = list(_outcomes(folder))
    if not outcomes:
        raise ConfigError(f"{folder} holds no .json instance; give a folder of Silo instances")
    problems = [f"{o.name}: {o.problem}" for o in outcomes if o.problem]
    skipped = sum(o.skipped for o in outcomes)
    passed = len(outcomes) - len(problems) - skipped
    return VectorReport(passed, len(problems), skipped, problems[0] if problems else None)


def _outcomes(folder: Path) -> Iterator[_Outcome]:
    upstream = _Upstream()
    for path in sorted(folder.glob("*.json")):
        if path.name == DIGESTS:
            yield from _check_digests(path, upstream)
        elif path.name == INDEX:
            yield from _check_index(path)
        else:
            yield from _check_instance(path, upstream)


class _Upstream:
    """The shipped instances, drawn once and only as far as a folder asks for."""

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


def _load(path: Path) -> Any:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
    return json.loads(path.read_text(encoding="utf-8"))


def _check_instance(path: Path, upstream: _Upstream) -> Iterator[_Outcome]:
    """Golds and scores count as one check, the regenerated shards as another."""
    try:
        data = _load(path)
        case, golds = _read_case(data)
        yield _Outcome(path.name, _gold_problem(case, golds))
        candidates = _candidates(data, case, upstream)
        yield _stream_outcome(path.name, data, case, candidates)
    except _BROKEN as error:
        yield _Outcome(path.name, f"cannot be checked: {type(error).__name__}: {error}"[:300])


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
    score = score_answers(case.task.level, golds, case.golds)
    return None if score.success == 1 else f"its own golds score S = {score.success}, expected 1"


def _candidates(data: Any, case: Case, upstream: _Upstream) -> list[Case]:
    """The cases this file may be, by the streams it names."""
    task, n, seed = case.task, case.setting.n, data.get("seed")
    if isinstance(seed, int):
        return [independent_case(task.id, n, seed), draw_case(task, n, Random(seed))]
    source = data["metadata"].get("source", _UPSTREAM_SOURCE)
    shipped = upstream.case(task.id, n) if str(source).startswith(_UPSTREAM_SOURCE) else None
    return [shipped] if shipped else []


def _stream_outcome(name: str, data: Any, case: Case, candidates: list[Case]) -> _Outcome:
    """Compare with the known streams; a recorded seed of a foreign stream cannot be checked."""
    recorded = (list(case.shards), dict(case.setting.public))
    differences = [_difference(recorded, candidate) for candidate in candidates]
    if not candidates or (all(differences) and "seed" in data):
        return _Outcome(name, skipped=True)
    return _Outcome(name, differences[0] if all(differences) else None)


def _difference(recorded: tuple[list[Any], dict[str, Any]], candidate: Case) -> str | None:
    shards, public = json.loads(json.dumps((candidate.shards, candidate.setting.public)))
    for position, (theirs, ours) in enumerate(zip(recorded[0], shards, strict=True)):
        if theirs != ours:
            return f"shard of agent {position} is {_short(theirs)}, regenerated {_short(ours)}"
    if recorded[1] != public:
        return f"public parameters are {_short(recorded[1])}, regenerated {_short(public)}"
    return None


def _check_digests(path: Path, upstream: _Upstream) -> Iterator[_Outcome]:
    try:
        digests = _load(path)
        for key, recorded in sorted(digests.items()):
            task_id, _, size = key.partition("_n")
            case = upstream.case(task_id, int(size))
            yield _Outcome(f"{path.name} {key}", _digest_problem(case, recorded), case is None)
    except _BROKEN as error:
        yield _Outcome(path.name, f"cannot be checked: {type(error).__name__}: {error}"[:300])


def _digest_problem(case: Case | None, recorded: dict[str, Any]) -> str | None:
    if case is None:
        return None
    for field, values in (("shards_sha256", case.shards), ("expected_sha256", case.golds)):
        if field in recorded and recorded[field] != digest(values):
            return f"{field} is {_short(recorded[field])}, computed {digest(values)}"
    return None


def digest(values: tuple[Any, ...]) -> str:
    """The first 16 hex digits of the SHA-256 of the compact JSON of a list."""
    text = json.dumps(list(values), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_index(path: Path) -> Iterator[_Outcome]:
    """Every indexed file must be there with the recorded digest."""
    try:
        for entry in _load(path):
            target = path.parent / Path(entry["file"]).name
            found = hashlib.sha256(target.read_bytes()).hexdigest() if target.is_file() else None
            same = found == entry["sha256"]
            yield _Outcome(
                f"{path.name} {target.name}",
                None if same or found is None else "sha256 of the file differs from the index",
                skipped=found is None,
            )
    except _BROKEN as error:
        yield _Outcome(path.name, f"cannot be checked: {type(error).__name__}: {error}"[:300])


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
