"""The registry: one meaning per name, lazy imports, and errors that name the fix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from waggle import plugins
from waggle.core.protocols import Law, Substrate
from waggle.laws.controls import PrivateOnly, RandomLegal
from waggle.substrates.beacon import Beacon

pytestmark = pytest.mark.usefixtures("clean_registry")


@pytest.mark.parametrize("name", plugins.names("law"))
def test_every_law_in_tree_loads_under_its_own_name(name: str) -> None:
    options = {o: "x" for o, p in plugins.law_options(name).items() if plugins._required(p)}
    if options:
        pytest.skip(f"needs {', '.join(options)}")
    law = plugins.get_law(name)
    assert isinstance(law, Law)
    assert law.name == name


@pytest.mark.parametrize("name", plugins.names("substrate"))
def test_every_substrate_in_tree_loads_under_its_own_name(name: str) -> None:
    substrate = plugins.get_substrate(name)
    assert isinstance(substrate, Substrate)
    assert substrate.name == name
    assert substrate.tasks


def test_listing_names_imports_no_plugin() -> None:
    code = (
        "import sys; from waggle import plugins; plugins.entries('law'); "
        "plugins.entries('substrate'); "
        "print([m for m in sys.modules if m.startswith(('waggle.laws', 'waggle.substrates'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_decorated_law_is_found_with_its_options() -> None:
    @plugins.law("loud")
    class Loud(PrivateOnly):
        name = "loud"

        def __init__(self, volume: int = 1) -> None:
            self.volume = volume

    made = plugins.get_law("loud", volume=11)
    assert isinstance(made, Loud) and made.volume == 11
    with pytest.raises(plugins.PluginError, match="did you mean 'volume'"):
        plugins.get_law("loud", volum=3)


def test_a_decorated_substrate_and_metric_are_found() -> None:
    @plugins.substrate("lamp")
    class Lamp(Beacon):
        name = "lamp"
        tasks = ("lamp",)

    @plugins.metric("rounds", better="lower", unit="rounds")
    def rounds(episode: list[int]) -> float:
        return float(len(episode))

    assert isinstance(plugins.get_substrate("lamp"), Lamp)
    assert plugins.find_task("lamp") == ("lamp", "lamp")
    metric = plugins.get_metric("rounds")
    assert metric([1, 2]) == 2.0 and metric.better == "lower" and metric.unit == "rounds"


def test_one_name_has_one_meaning() -> None:
    plugins.law("heuristic")(PrivateOnly)
    with pytest.raises(plugins.PluginError, match=r"registered twice.*rename one"):
        plugins.get_law("heuristic")
    plugins.law("quiet")(PrivateOnly)
    with pytest.raises(plugins.PluginError, match="already"):
        plugins.law("quiet")(Beacon)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: plugins.get_law("heuristc"), "did you mean 'heuristic'"),
        (lambda: plugins.get_substrate("becon"), "did you mean 'beacon'"),
        (lambda: plugins.get_metric("nothing like it"), "unknown"),
        (lambda: plugins.find_task("beacn"), "did you mean 'beacon'"),
        (lambda: plugins.find_task("beacon/beacn"), "unknown"),
        (lambda: plugins.find_task("nowhere/at-all"), "substrate 'nowhere' is unknown"),
        (lambda: plugins.get_law("private-only", volume=1), "has no option 'volume'"),
    ],
)
def test_a_wrong_name_is_one_line_that_names_the_fix(ask, expected: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(plugins.PluginError, match=expected) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_an_ambiguous_task_names_its_candidates() -> None:
    @plugins.substrate("lamp")
    class Lamp(Beacon):
        name = "lamp"
        tasks = ("beacon", "glow")

    @plugins.substrate("lantern")
    class Lantern(Beacon):
        name = "lantern"
        tasks = ("glow",)

    with pytest.raises(plugins.PluginError, match=r"ambiguous.*lamp/glow.*lantern/glow"):
        plugins.find_task("glow")
    assert plugins.find_task("lantern/glow").substrate == "lantern"
    assert plugins.find_task("beacon").substrate == "beacon", "a substrate's own name comes first"


def test_what_does_not_fit_says_what_is_missing() -> None:
    plugins.law("hollow")(dict)
    with pytest.raises(plugins.PluginError, match="decide"):
        plugins.get_law("hollow")
    plugins.substrate("hollow")(dict)
    with pytest.raises(plugins.PluginError, match="tasks"):
        plugins.get_substrate("hollow")


def test_a_substrate_with_a_text_for_tasks_or_no_model_of_options_is_told_so() -> None:
    plugins.substrate("one")(type("One", (Beacon,), {"name": "one", "tasks": "one"}))
    with pytest.raises(plugins.PluginError, match=r"is a text; write \('one',\)"):
        plugins.get_substrate("one")
    plugins.substrate("two")(type("Two", (Beacon,), {"name": "two", "options": None}))
    with pytest.raises(plugins.PluginError, match="is no pydantic model; use BaseModel"):
        plugins.get_substrate("two")


def test_a_decide_that_cannot_be_called_is_told_so() -> None:
    async def waits(self: object, requests: object) -> None:
        """Has to be awaited."""

    made = [(lambda self: []), (lambda self, view, more: []), waits]
    for k, decide in enumerate(made):
        plugins.law(f"odd-{k}")(type(f"Odd{k}", (), {"name": "odd", "decide": decide}))
        with pytest.raises(plugins.PluginError, match=r"write `def decide\(self, requests\)`"):
            plugins.get_law(f"odd-{k}")


def test_a_function_that_would_decide_is_told_what_a_law_is() -> None:
    @plugins.law("bare")
    def bare(requests: object) -> object:
        return requests

    told = r"'bare': a law is an object with `name` and `decide\(requests\)`, not a function"
    with pytest.raises(plugins.PluginError, match=told):
        plugins.get_law("bare")


def test_a_file_with_one_law_stands_for_it(tmp_path: Path) -> None:
    head = "from waggle import law\nfrom waggle.laws.heuristic import Heuristic\n"
    for name, count in (("none", 0), ("single", 1), ("pair", 2)):
        text = "".join(f"@law('{name}-{k}')\nclass L{k}(Heuristic): ...\n" for k in range(count))
        (tmp_path / f"plugin_{name}.py").write_text(head + text, encoding="utf-8")
    assert plugins.law_of_file(str(tmp_path / "plugin_single.py")) == "single-0"
    with pytest.raises(plugins.PluginError, match="registers no law; decorate one"):
        plugins.law_of_file(str(tmp_path / "plugin_none.py"))
    with pytest.raises(
        plugins.PluginError, match=r"laws pair-0, pair-1; name one: --plugin .*pair"
    ):
        plugins.law_of_file(str(tmp_path / "plugin_pair.py"))


def test_a_required_option_is_asked_for() -> None:
    @plugins.law("needy")
    def needy(path: str) -> PrivateOnly:
        return PrivateOnly()

    with pytest.raises(plugins.PluginError, match="needs the option 'path'"):
        plugins.get_law("needy")
    assert plugins.get_law("needy", path="x").name == "private-only"


def test_a_lent_object_replaces_a_decorated_one_in_other_processes_as_it_does_here() -> None:
    plugins.law("twice")(PrivateOnly)
    with plugins.lent({"law": {"twice": RandomLegal}}):
        assert isinstance(plugins.get_law("twice"), RandomLegal)
        things, _ = plugins.carried()
    with plugins.lent({}):  # as in a worker process, where nothing is lent yet
        plugins.adopt(things)
        assert isinstance(plugins.get_law("twice"), RandomLegal)
