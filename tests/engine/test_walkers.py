"""Grammars that other processes follow: the same answers, wherever a row is followed."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from benchmarks import workload
from tests.engine.helpers import PREFIX, ids, row_engine
from waggle.core.errors import ConfigError, WaggleError
from waggle.engine import walked_rows, walkers, wire
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.engine import Engine
from waggle.engine.request import Completion, Prompt
from waggle.engine.walker import Setting, Walker
from waggle.engine.walkers import Walkers
from waggle.engine.wire import Opening, Plan, Task


def beside(engine: Engine, count: int) -> Walkers:
    """Give an engine processes, and wait until they are ready."""
    made = Walkers(engine.tokenizer, engine.ends, count)
    made.wanted = True
    engine.walkers = made
    patience = time.monotonic() + 60
    while not made.ready and time.monotonic() < patience:
        made.fetch([])
        time.sleep(0.01)
    assert made.ready, "no process came up"
    return made


@pytest.fixture
def engine(tiny: Any) -> Any:
    """An engine as on a GPU, two processes beside it."""
    made = row_engine(tiny, 12)
    found = beside(made, 2)
    yield made
    found.close()


def asked(engine: Engine, count: int, seed: int = 1) -> list[Prompt]:
    """Prompts whose answers have names of their own."""
    return [
        Prompt(
            ids(engine.tokenizer, task.tail[-60:]),
            ids(engine.tokenizer, PREFIX),
            grammar=engine.constraint(partial(workload.named, task.handles, task.claims)),
            max_new_tokens=workload.LONGEST,
        )
        for task in workload.tasks(count, 2, seed)
    ]


def told(done: list[Completion]) -> list[tuple[Any, ...]]:
    return [(each.text, each.tokens, each.finish) for each in done]


def here(tiny: Any, count: int, seed: int = 1) -> list[tuple[Any, ...]]:
    """What the same prompts are answered when nobody else follows them."""
    alone = Engine(*tiny, max_rows=4)
    return told(alone.generate(asked(alone, count, seed)))


def test_answers_are_the_same(tiny: Any, engine: Engine) -> None:
    """More rows than slots, twice, mixed with free rows and rows that are followed here."""
    want = here(tiny, 30)
    for _ in range(2):
        assert told(engine.generate(asked(engine, 30))) == want
    assert engine.walkers._opened == 60
    assert not engine.walkers._rows, "rows that are done are forgotten"
    free = [Prompt(p.tail, p.prefix, max_new_tokens=9) for p in asked(engine, 8)]
    bound = asked(engine, 8)
    mine = [
        Prompt(p.tail, p.prefix, grammar=engine.constraint(p.grammar.grammar), max_new_tokens=256)
        for p in asked(engine, 8)
        if p.grammar is not None
    ]
    alone = Engine(*tiny, max_rows=4)
    mixed = [prompt for three in zip(free, bound, mine, strict=True) for prompt in three]
    found = told(engine.generate(mixed))
    assert found[1::3] == found[2::3] == want[:8]
    assert found[::3] == told(alone.generate(free))


def test_a_process_learns_as_the_engine_does(tiny: Any) -> None:
    """From all rows that it follows; in which order depends on who is quicker."""
    local, engine = row_engine(tiny, 6), row_engine(tiny, 6)
    made = beside(engine, 1)
    for seed in (1, 2):
        want = local.generate(asked(local, 9, seed))
        found = engine.generate(asked(engine, 9, seed))
        assert told(found) == told(want)
        mine, theirs = (sum(d.usage.model_steps for d in done) for done in (found, want))
        assert abs(mine - theirs) <= theirs / 5
    made.close()


@pytest.mark.parametrize("when", [0, 1, 4])
def test_rows_begin_again_where_a_process_is_lost(tiny: Any, engine: Engine, when: int) -> None:
    made = engine.walkers
    flush, calls = made._flush, []

    def flushed() -> None:
        if len(calls) == when:
            made._links[0]._process.kill()
            made._links[0]._process.wait()
        calls.append(1)
        flush()

    made._flush = flushed  # type: ignore[method-assign]
    assert told(engine.generate(asked(engine, 30))) == here(tiny, 30)
    assert not made.ready and not made._links
    assert told(engine.generate(asked(engine, 5, 3))) == here(tiny, 5, 3), "and without it"


def refused(_: Common | None = None) -> Grammar:
    raise ConfigError("no such grammar; give it another")


def test_what_goes_wrong_elsewhere_is_told(
    tiny: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walked_rows, "_portable", lambda make: True)
    bad = asked(engine, 4)
    assert bad[1].grammar is not None
    bad[1].grammar.make = partial(refused)
    with pytest.raises(ConfigError, match="no such grammar"):
        engine.generate(bad)
    assert engine.walkers.ready and engine.walkers._opened == 4, "it was told by a process"
    assert told(engine.generate(asked(engine, 9))) == here(tiny, 9), "the engine goes on"


def test_what_others_cannot_make_is_followed_here(tiny: Any, engine: Engine) -> None:
    own = asked(engine, 3)
    for prompt, task in zip(own, workload.tasks(3, 2, 1), strict=True):
        assert prompt.grammar is not None
        prompt.grammar.make = lambda common, task=task: workload.named(task.handles, task.claims)
    assert told(engine.generate(own)) == here(tiny, 3)
    assert engine.walkers._opened == 0
    assert not walked_rows._portable(partial(refused)) and not walked_rows._portable(None)


def test_what_was_learned_is_forgotten_elsewhere_too(tiny: Any) -> None:
    engine = row_engine(tiny, 6)
    made = beside(engine, 1)

    def steps() -> int:
        return sum(done.usage.model_steps for done in engine.generate(asked(engine, 9)))

    first, again = steps(), steps()
    engine.unlearn()
    assert again < (first + again) / 2 < steps()
    made.close()


def test_few_rows_or_cores_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAGGLE_WALKERS", raising=False)
    for cores, rows, count in ((16, 64, 12), (8, 64, 6), (4, 64, 3), (2, 64, 0), (16, 4, 0)):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, cores=cores: range(cores))
        assert walkers.fitting(rows) == count
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(16))
    monkeypatch.setattr(walkers, "parent_process", lambda: object())
    assert walkers.fitting(64) == 0, "other processes have the cores"


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for told in ("0", "5"):
        monkeypatch.setenv("WAGGLE_WALKERS", told)
        assert walkers.fitting(64) == int(told)
    for told in ("", "-1", "many", "\u0665", "1000"):
        monkeypatch.setenv("WAGGLE_WALKERS", told)
        with pytest.raises(ConfigError, match="0 to 12"):
            walkers.fitting(64)


def test_a_tokenizer_that_cannot_be_sent_has_none(tiny: Any) -> None:
    made = Walkers(object(), frozenset({2}), 4)
    made.wanted = True
    assert not made.fetch([]) and not made.ready and not made._links


class Told:
    """A line to a process, seen from within it."""

    def __init__(self, *tasks: Task) -> None:
        self._tasks = [wire.task(task) for task in tasks]
        self.said: list[tuple[int, list[Plan] | Exception]] = []

    @property
    def waiting(self) -> bool:
        """Whether more is told."""
        return bool(self._tasks)

    def receive(self) -> bytes:
        """Return the next task."""
        return self._tasks.pop(0)

    def send(self, message: bytes) -> None:
        """Note what is answered."""
        self.said.append(wire.read_plans(message))


def opening(number: int, make: Any = None) -> Opening:
    task = workload.tasks(1, 2, number)[0]
    made = wire.packed(make or partial(workload.named, task.handles, task.claims))
    return Opening(number, made, (1, 2, 3), workload.LONGEST, (6.0, 2, 15))


def numbers(said: tuple[int, list[Plan] | Exception]) -> list[int]:
    assert isinstance(said[1], list) and said[0] == len(said[1])
    return [plan.number for plan in said[1]]


@pytest.fixture
def walker(tiny: Any) -> Walker:
    text = tiny[1].backend_tokenizer.to_str()
    return Walker(Setting(text, 2, frozenset({2})))


def test_rows_under_way_go_before_those_to_be_opened(walker: Walker) -> None:
    line: Any = Told(Task(False, False, [], [opening(1)]))
    while line.waiting or not line.said:
        walker.turn(line)
    assert numbers(line.said[0]) == [1]
    plan = line.said[0][1][0]
    assert wire.tokens(plan.pending)[:3].tolist() == [1, 2, 3]
    said = [offer[0] for offer in plan.offers]
    line = Told(
        Task(False, False, [], [opening(2), opening(3)]), Task(False, False, [(1, said)], [])
    )
    for _ in range(4):
        walker.turn(line)
    assert [numbers(each) for each in line.said] == [[1], [2, 3]]


def test_rows_that_are_dropped_are_accounted_for(walker: Walker) -> None:
    line: Any = Told(
        Task(False, False, [], [opening(n) for n in (1, 2, 3)]),
        Task(True, True, [], [opening(4, partial(refused)), opening(5)]),
    )
    for _ in range(4):
        walker.turn(line)
    assert [rows for rows, _ in line.said] == [3, 1, 1]
    assert isinstance(line.said[1][1], ConfigError) and numbers(line.said[2]) == [5]


class Odd(Exception):
    """Cannot be made from what it says."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    rows, error = wire.read_plans(wire.failure(2, Odd(1, 2)))
    assert rows == 2 and isinstance(error, WaggleError) and str(error) == "Odd: 1 and 2"


def test_many_rows_to_open_never_block_both_ends(
    tiny: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a line is full its replies are read first."""
    want = here(tiny, 30)
    monkeypatch.setattr(walkers, "UNHEARD", 1)
    assert told(engine.generate(asked(engine, 30))) == want


def test_where_given_answers_do_not_pay_processes_find_them(tiny: Any, engine: Engine) -> None:
    want = here(tiny, 20)
    prompts = [replace(p, draft=w[1]) for p, w in zip(asked(engine, 20), want, strict=True)]
    assert told(engine.generate(prompts)) == want
    assert engine.walkers._opened == 0, "they pay, and are tried here"
    engine.backend.foretells = lambda rows, effort: False  # type: ignore[method-assign]
    assert told(engine.generate(prompts)) == want
    assert engine.walkers._opened == 20
    alone = row_engine(tiny, 12)
    alone.backend.foretells = lambda rows, effort: False  # type: ignore[method-assign]
    prompts = [replace(p, draft=w[1]) for p, w in zip(asked(alone, 20), want, strict=True)]
    done = alone.generate(prompts)
    assert told(done) == want and alone.walkers.wanted
    assert sum(d.usage.accepted_tokens for d in done) > 0, "where there are none it is tried here"
