"""Replay of recorded episodes: `waggle check vectors swarmbench DIR`.

Every episode is replayed from its seed and from its stored state; positions, grid, score, task
state, views and messages are compared in every round. Two text functions of the official release
are compared as well: the rendering of a view and the parser of a model's answer (spec 8 and 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from conformance.observations import Spoken, extra, token_rows, window
from conformance.report import Outcome, VectorReport, count, guarded, read_vector
from conformance.stored import (
    Episode,
    Seen,
    StoredLayout,
    StoredRound,
    level_of_state,
)
from waggle.core.errors import ConfigError
from waggle.substrates.swarmbench.sim.config import (
    ACTION_NAMES,
    LETTERS,
    Cell,
    StateError,
    WorldConfig,
)
from waggle.substrates.swarmbench.sim.world import GridWorld

TOLERANCE = 1e-9
MAX_MESSAGE = 120
"""The number of characters of a message that the official release keeps."""
_Differences = Iterator[str | None]


class StoredRender(msgspec.Struct, frozen=True):
    """A view and its recorded text."""

    view: list[str]
    pos: Cell
    text: str


class StoredAnswer(msgspec.Struct, frozen=True):
    """An answer and its recorded parse."""

    text: str
    sync: bool = False
    move: str | None = None
    speak: str | None = None


def check_vectors(folder: Path) -> VectorReport:
    """Replay every vector of a folder.

    Raises:
        ConfigError: if the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(f"no folder {str(folder)!r}; give the folder that holds the vectors")
    return count(_outcomes(folder))


def _outcomes(folder: Path) -> Iterator[Outcome]:
    for path in sorted(folder.iterdir()):
        if path.name.endswith((".json", ".json.gz")) and not path.name.startswith("manifest."):
            check = _checker(path.name)
            if check is None:
                yield Outcome(path.name, skipped=True)
            else:
                found = (Outcome(path.name, difference) for difference in check(path))
                yield from guarded(path.name, found)


def _checker(name: str) -> Callable[[Path], _Differences] | None:
    stem = name.removesuffix(".gz").removesuffix(".json")
    named = {"layouts": _check_layouts, "render": _check_renders, "parser": _check_answers}
    return named.get(stem) or (_check_episode if name.endswith(".json.gz") else None)


def _check_layouts(path: Path) -> _Differences:
    for k, stored in enumerate(read_vector(path, list[StoredLayout])):
        size = stored.num_agents, stored.side, stored.side
        world = GridWorld.from_seed(
            WorldConfig(stored.task, *size, stored.seed, upstream_seed=True)
        )
        difference = _first(
            ("agents", stored.agents, world.agents),
            ("grid", stored.grid, world.grid()),
            ("state", stored.state, world.state()),
        )
        yield difference and f"layout {k} ({stored.task}, seed {stored.seed}): {difference}"


def _check_renders(path: Path) -> _Differences:
    for k, stored in enumerate(read_vector(path, list[StoredRender])):
        text = render_view([row.split(" ") for row in stored.view], stored.pos)
        yield _first((f"text {k}", stored.text, text))


def _check_answers(path: Path) -> _Differences:
    for k, stored in enumerate(read_vector(path, list[StoredAnswer])):
        answer = parse_answer(stored.text, stored.sync)
        yield _first((f"answer {k}", (stored.move, stored.speak), tuple(answer)))


def _check_episode(path: Path) -> _Differences:
    episode = read_vector(path, Episode)
    config = msgspec.structs.replace(episode.config, upstream_seed=True)
    difference = _replay(GridWorld.from_seed(config), episode, drawn=True)
    if difference is not None:
        yield f"from the seed, {difference}"
        return
    world = GridWorld(config, level_of_state(config, episode.initial))
    difference = _replay(world, episode, drawn=episode.initial.rng_state is not None)
    yield difference and f"from the state, {difference}"


def _replay(world: GridWorld, episode: Episode, drawn: bool) -> str | None:
    """Replay an episode; `drawn` means that the world uses the recorded random generator."""
    initial = episode.initial
    difference = _first(
        ("agents", initial.agents, world.agents),
        ("terrain", initial.terrain, world.terrain),
        ("grid", initial.grid or world.grid(), world.grid()),
        ("state", initial.state, world.state()),
        ("score", initial.score, world.score),
    )
    if difference is not None:
        return f"initial {difference}"
    spoken = Spoken(world)
    for t, stored in enumerate(episode.rounds):
        difference = _play(world, spoken, stored, drawn)
        if difference is not None:
            return f"round {t}: {difference}"
    return _final_difference(world, episode)


def _play(world: GridWorld, spoken: Spoken, stored: StoredRound, drawn: bool) -> str | None:
    """Play one recorded round; return the first difference before or after it.

    Without the recorded generator the next prey cannot be drawn; it is placed as recorded.
    """
    if stored.relocate_prey_before is not None:
        world.relocate_prey(stored.relocate_prey_before)
    rows = token_rows(world)
    for seen in stored.obs:
        difference = _view_difference(world, spoken, rows, seen)
        if difference is not None:
            return f"agent {seen.id} {difference}"
    spoken.say({int(agent): text for agent, text in stored.say.items()})
    world.step([LETTERS[letter] for letter in stored.act])
    if stored.respawn is not None and not drawn:
        world.relocate_prey(stored.respawn)
    return _first(
        ("agents", stored.agents, world.agents),
        ("grid", stored.grid, world.grid()),
        ("state", stored.state, world.state()),
        ("score", stored.score, world.score),
    )


def _view_difference(
    world: GridWorld, spoken: Spoken, rows: list[list[str]], seen: Seen
) -> str | None:
    if not 0 <= seen.id < world.n:
        raise StateError(f"observed agent {seen.id} does not exist")
    return _first(
        ("pos", seen.pos, world.agents[seen.id]),
        ("view", seen.view, [" ".join(row) for row in window(world, rows, seen.id)]),
        ("heard", seen.heard, spoken.heard(seen.id)),
        ("extra", seen.extra, extra(world, seen.id)),
    )


def _final_difference(world: GridWorld, episode: Episode) -> str | None:
    final = episode.final
    if final is None:
        return None
    escaped = [agent for agent, gone in enumerate(world.escaped) if gone]
    difference = _first(
        ("final score", final.score, world.score),
        ("rounds", final.rounds, world.round),
        ("escaped", sorted(final.escaped), escaped),
    )
    if difference is None and final.ended != "cap" and not world.finished:
        return f"ended by {final.ended!r}, but the world is not finished"
    return difference


def _first(*pairs: tuple[str, object, object]) -> str | None:
    """Describe the first pair that differs, with both values cut to 200 characters."""
    for name, expected, found in pairs:
        if isinstance(expected, float) and isinstance(found, int | float):
            same = abs(expected - found) <= TOLERANCE
        else:
            same = expected == found
        if not same:
            return f"{name}: expected {str(expected)[:200]}, found {str(found)[:200]}"
    return None


class Answer(NamedTuple):
    """The move and the message that the official wrapper parses from a model's text."""

    move: str | None
    speak: str | None


def parse_answer(text: str, switch: bool = False) -> Answer:
    """Parse the move word and the message of an answer; `switch` adds the SWITCH action.

    A later marker that yields a word overrides an earlier one; within a line the word that comes
    first in the action list wins, whatever its position in the line.
    """
    words = (*ACTION_NAMES, "SWITCH") if switch else ACTION_NAMES
    move: str | None = None
    for marker in ("ACTION:", "Action:", "action:"):
        line = _line_after(text, marker)
        if line is not None:
            move = next((word for word in words if word in line), move)
    speak: str | None = None
    for marker in ("MSG:", "Msg:", "msg:"):
        line = _line_after(text, marker)
        if line is not None:
            speak = line.strip()
    if speak and len(speak) > MAX_MESSAGE:
        speak = speak[:MAX_MESSAGE] + "..."
    return Answer(move, speak or None)


def _line_after(text: str, marker: str) -> str | None:
    _, found, rest = text.partition(marker)
    return rest.split("\n", 1)[0] if found else None


def render_view(view: Sequence[Sequence[str]], pos: Cell) -> str:
    """Return the official text of a token view: global row and column numbers, centre as Y."""
    k = len(view)
    top, left = pos[0] - k // 2, pos[1] - k // 2
    columns = " ".join(f"{left + b:>3}" for b in range(k))
    lines = [f"   {columns}"]
    for a, tokens in enumerate(view):
        shown = ["Y" if (a, b) == (k // 2, k // 2) else t for b, t in enumerate(tokens)]
        lines.append(f"{top + a:>3}  " + "".join(f"{token:<4}" for token in shown))
    return "".join(f"{line}\n" for line in lines)
