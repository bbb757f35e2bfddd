"""Shards as Ray actors, on a running cluster or on this machine.

A cheap law decides inside its shard. A law with weights is a pool of actors that all shards call,
see `law_pool`. The batches of a round go from shard to shard without passing through this process.
A dead actor is detected when its result is fetched; `restore` starts it again.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from waggle import plugin_files
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Law, World
from waggle.runtime import watchdog
from waggle.runtime.sync import Watcher
from waggle.shards.coordinator import KEEP_EVERY, Coordinator, LostShard
from waggle.shards.division import Division, ShardDecisions, ShardRound, divide
from waggle.shards.inline import answered
from waggle.shards.kept import own_key
from waggle.shards.law_pool import LawActor, PooledLaw
from waggle.shards.shard import Shard, restored

TRIES = 40
PAUSE_SECONDS = 3.0
"""Number of attempts to have all actors running, and the pause between two attempts."""

REACH_SECONDS = 15.0
"""Timeout for an address to answer; Ray itself would wait for minutes without a message."""
OTHER_ADDRESS = (
    "unset RAY_ADDRESS to use this machine, or start a cluster there with `ray start --head`"
)


def connect() -> Any:
    """Return the Ray module, connected to a running cluster or to a new one on this machine.

    Raises:
        ConfigError: if Ray is not installed, does not start, or RAY_ADDRESS does not answer.
    """
    # Batches of a failed shard are never fetched; `_got` reports the loss once.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # Actors do the work of the command; by default Ray would run them at low priority.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("this needs Ray; install it with `pip install ray`") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "")
        require_answer(address)
        try:
            ray.init(logging_level=logging.WARNING, log_to_driver=False, include_dashboard=False)
        except Exception as error:
            if address and isinstance(error, ConnectionError | ValueError):
                raise ConfigError(f"Ray did not connect ({error}); {OTHER_ADDRESS}") from None
            # Ray gives its processes fixed start timeouts, 15 and 30 s, and then raises a plain
            # Exception. A retry here would run beside the remains of the first attempt, which end
            # only with this process.
            if type(error) is not Exception:
                raise
            raise ConfigError(
                f"Ray did not start ({error}); run the same command again when this machine is "
                "less busy"
            ) from None
    return ray


def require_answer(address: str) -> None:
    """Report which cluster is tried, and raise ConfigError if its address does not answer.

    Args:
        address: the value of RAY_ADDRESS; values that Ray resolves, such as `auto`, are not tried.
    """
    if address in ("", "auto", "local"):
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"RAY_ADDRESS is {address!r}, not HOST:PORT; {OTHER_ADDRESS}")
    sys.stderr.write(f"connecting to the Ray cluster {address} (RAY_ADDRESS)\n")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address} ({error}); {OTHER_ADDRESS}"
        ) from None


def environment() -> dict[str, Any]:
    """Return variables that cluster workers do not inherit; plug-in files have the same path."""
    names = [name for name in (plugin_files.FILES, watchdog.SECONDS) if os.environ.get(name)]
    return {"env_vars": {name: os.environ[name] for name in names}}


class ShardActor:
    """One shard in a separate process."""

    _shard: Shard

    def restore(
        self, division: Division, index: int, state: Path | None, names: Mapping[str, str], law: Law
    ) -> None:
        """Load a kept state of a shard, or its initial state."""
        self._shard = restored(state, division, index, law)
        self._shard.swarm.aliases.adopt(names)

    def begin(self, round: int, committed: Mapping[int, str] | None) -> tuple[Any, ...]:
        """Play the first part of a round; return the report, then a batch for every shard."""
        sent, batches = answered(self._shard.begin(round, committed), self._shard.law)
        return sent, *batches

    def finish(self, round: int, shocking: bool, *batches: bytes) -> ShardRound:
        """Play the second part of a round with the batches of all shards."""
        return self._shard.finish(round, batches, shocking)

    def keep(self, path: Path) -> None:
        """Write the state."""
        self._shard.keep(path)

    def process(self) -> int:
        """Return the process ID; an answer shows that the actor is alive."""
        return os.getpid()


class Cluster:
    """Shards and laws as Ray actors."""

    def __init__(
        self, division: Division, law: Law, make: Callable[[], Law], pool: int | None = None
    ) -> None:
        """Take a division and its law.

        Args:
            division: the assignment of nodes to shards.
            law: the law; if it is cheap, every shard gets a copy.
            make: creates the law again, in the actors of the pool.
            pool: number of actors for a law with weights; by default one per GPU, at least one.
        """
        self._ray = connect()
        self._division = division
        self._law = law
        self._make = make
        gpus = self._ray.cluster_resources().get("GPU", 0)
        wanted = (pool or max(1, int(gpus))) if getattr(law, "batched", False) else 0
        self._gpu_share = min(1.0, gpus / wanted) if wanted else 0.0
        self._shards: list[Any] = [None] * division.shards
        self._pool: list[Any] = [None] * wanted
        self._batches: list[list[Any]] = []

    def restore(self, states: Sequence[Path] | None, names: Mapping[str, str]) -> None:
        """Start the missing actors; set every shard to a kept state, or its initial state.

        Ray detects a lost machine only after some seconds and starts actors there meanwhile, so
        one loss shows up several times. Losses before all actors run again count as the same loss.
        """
        for left in reversed(range(TRIES)):
            try:
                self._restore(states, names)
                return
            except LostShard:
                if not left:
                    raise
                time.sleep(PAUSE_SECONDS)

    def _restore(self, states: Sequence[Path] | None, names: Mapping[str, str]) -> None:
        self._batches = []
        on_one_gpu = round(1 / self._gpu_share) if self._gpu_share else 1
        for index, actor in enumerate(self._pool):
            if not self._alive(actor):
                self._pool[index] = self._remote(LawActor, num_gpus=self._gpu_share).options(
                    max_concurrency=self._division.shards + 1
                ).remote(self._make, on_one_gpu)  # fmt: skip
        for index, actor in enumerate(self._shards):
            if not self._alive(actor):
                self._shards[index] = self._remote(ShardActor).remote()
        law = PooledLaw(self._law.name, self._pool) if self._pool else self._law
        paths: Sequence[Path | None] = states or [None] * len(self._shards)
        whole = self._ray.put(self._division)
        self._all("restore", [(whole, k, path, names, law) for k, path in enumerate(paths)])

    def _remote(self, kind: type, **options: Any) -> Any:
        """Return an actor class that Ray spreads over its machines and does not restart."""
        return self._ray.remote(
            num_cpus=0, scheduling_strategy="SPREAD", runtime_env=environment(), **options
        )(kind)

    def _alive(self, actor: Any) -> bool:
        if actor is None:
            return False
        try:
            self._ray.get(actor.process.remote())
        except self._ray.exceptions.RayError:
            return False
        return True

    def begin(self, round: int, committed: Mapping[int, str] | None) -> list[ShardDecisions]:
        """Play the first part of a round."""
        returns = 1 + len(self._shards)
        everyone = None if committed is None else self._ray.put(committed)
        begun = [
            actor.begin.options(num_returns=returns).remote(round, everyone)
            for actor in self._shards
        ]
        self._batches = [batches for _, *batches in begun]
        return self._got([sent for sent, *_ in begun])

    def finish(self, round: int, shocking: bool) -> list[ShardRound]:
        """Pass the batches from shard to shard, and play the second part of a round."""
        batches = zip(*self._batches, strict=True)
        closed: list[ShardRound] = self._all("finish", [(round, shocking, *own) for own in batches])
        self._batches = []
        return closed

    def keep(self, paths: Sequence[Path]) -> None:
        """Write the state of every shard."""
        self._all("keep", [(path,) for path in paths])

    def processes(self) -> dict[str, int]:
        """Return the process IDs of all actors, by name."""
        named = {f"shard {index}": actor for index, actor in enumerate(self._shards)}
        named |= {f"law {index}": actor for index, actor in enumerate(self._pool)}
        return {name: self._ray.get(actor.process.remote()) for name, actor in named.items()}

    def close(self) -> None:
        """Kill the actors."""
        for actor in filter(None, (*self._shards, *self._pool)):
            self._ray.kill(actor)
        self._shards, self._pool = [None] * len(self._shards), [None] * len(self._pool)

    def _all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard and wait for all."""
        return self._got(
            [
                getattr(actor, method).remote(*own)
                for actor, own in zip(self._shards, arguments, strict=True)
            ]
        )

    def _got(self, answers: Sequence[Any]) -> list[Any]:
        errors = self._ray.exceptions
        found = []
        for index, answer in enumerate(answers):
            try:
                found.append(self._ray.get(answer))
            except errors.RayTaskError as error:
                if isinstance(error.cause, LostShard | errors.RayError):
                    raise LostShard(str(error.cause).splitlines()[0]) from None
                raise error.cause from None  # an error of the law or the world
            except errors.RayError:
                raise LostShard(f"shard {index} was lost") from None
        return found


def on_ray(
    world: World,
    law: Law,
    make: Callable[[], Law],
    open: Callable[[Case], World],
    case: Case,
    *,
    folder: Path,
    shards: int,
    pool: int | None = None,
    keep_every: int = KEEP_EVERY,
    curves: bool = False,
    watch: Watcher | None = None,
    **settings: Any,
) -> Coordinator:
    """Return the coordinator of an episode on Ray, ready to play.

    Args:
        world: the opened world of the case; only the coordinator may use it afterwards.
        law: the law.
        make: creates the law again, in other processes.
        open: opens the world again.
        case: the episode.
        folder: folder of the shards' states and records; all machines can access it.
        shards: number of actors that the nodes are divided among.
        pool: number of actors for a law with weights.
        keep_every: rounds between two kept states; 0 keeps none.
        curves: whether to keep only scores and counts, without the local updates.
        watch: called after every round, with an entry that has no updates.
        **settings: order, switches and perturbation of the runtime.

    Raises:
        ConfigError: if the world or the law cannot be divided into shards, or without Ray.
    """
    if (pool is not None and pool < 1) or keep_every < 0:
        raise ConfigError("--pool must be at least 1, --keep-every 0 or more")
    division = divide(
        world, law, open, case, shards=shards, folder=folder.resolve(), curves=curves,
        key=own_key(), **settings,
    )  # fmt: skip
    group = Cluster(division, law, make, pool)
    return Coordinator(division, world, law, group, keep_every=keep_every, watch=watch)
