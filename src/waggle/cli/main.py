"""`waggle`: the command tree and the one place where an error becomes an exit code.

0 = done, 1 = a requested check or comparison, or a part of the work (an episode, an arm), failed,
2 = the command could not be carried out as given.
Commands return their exit code or None and raise `WaggleError`; only this file prints an error, as
one line that names the fix. Commands are named by import path, so that running one of them does not
import the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from cyclopts import App, CycloptsError, Group, Parameter

from waggle import __version__, plugin_files
from waggle.cli.errors import describe
from waggle.cli.options import spell_out, take_common
from waggle.core.errors import ConfigError, WaggleError, suggest
from waggle.extras import extra_of

HELP = """Run, evaluate and train anonymous local laws that organise swarms of LLM agents.

To start, run `waggle demo`. `waggle list` shows what can be run. Every command has `--help`.
No command uses the network unless its help says so."""

EPILOGUE = (
    "Every command accepts `--plugin FILE.py`, which loads your own substrates, laws or metrics, "
    "and `--watchdog SECONDS`, the time limit of a law for one batch (default: no limit). "
    "Exit codes: 0 success, 1 a check or part of the work failed, 2 the command could not be run."
)


class Command(NamedTuple):
    """The location of a command below `waggle.cli`, and its line in the overview."""

    target: str
    """Module and function; a function named `command` builds the command from a command line."""
    about: str


HEADINGS: dict[str, tuple[str, ...]] = {
    "Play episodes": ("demo", "run", "show", "view", "gif", "replay", "serve"),
    "Evaluate and check": ("eval", "report", "archive", "check", "bound", "bench"),
    "Train laws": ("corpus", "train", "tune", "learn", "fit", "diagnose", "law"),
    "Set up": ("list", "new", "recipes", "models", "doctor"),
}
"""The overview: headings, and the first words of their commands."""
COMMANDS = {
    "demo": Command("play.demo:demo", "Watch a shipped law organise a swarm."),
    "run": Command("play.run:command", "Run one episode and save its record."),
    "show": Command("play.show:show", "Show views, decisions and writes of a record."),
    "view": Command("play.view:view", "Show episodes in the browser."),
    "gif": Command("play.gif:gif", "Render an episode as an animated image."),
    "replay": Command("play.replay:replay", "Recompute a record and report differences."),
    "serve": Command("play.serve:serve", "Serve a law over an OpenAI-compatible API."),
    "eval": Command("measure.evaluate:evaluate", "Run the episodes of a recipe; resumable."),
    "report": Command("measure.evaluate:report", "Write the report of a run from its rows."),
    "archive": Command("measure.evaluate:archive", "Pack the rows of a run for a repository."),
    "check substrate": Command("measure.check:substrate", "Check the invariants of a substrate."),
    "check law": Command("measure.check:law", "Check the invariants of a law."),
    "check record": Command("measure.check:record", "Check that a record file is complete."),
    "check rows": Command("measure.check:rows", "Play sampled rows of a run again."),
    "check vectors": Command("measure.check:vectors", "Replay recorded vectors."),
    "check graphs": Command("measure.check:graphs", "Check AgentsNet graph files."),
    "bound silo": Command("measure.bound:silo", "Compute information-flow bounds on Silo."),
    "bound swarmbench": Command(
        "measure.bound:swarmbench", "Compute free-communication bounds on SwarmBench."
    ),
    "bench runtime": Command("measure.bench:command", "Measure the runtime cost per local update."),
    "bench silo": Command("measure.bench:command", "Measure seconds per Silo episode."),
    "bench swarmbench": Command("measure.bench:command", "Measure SwarmBench rounds per second."),
    "bench engine": Command("measure.bench:command", "Measure LLM engine decisions per second."),
    "bench play": Command("measure.bench:command", "Measure decisions per second of episodes."),
    "bench train": Command("measure.bench:command", "Measure the cost of a training update."),
    "corpus build": Command("training.corpus:build", "Generate the views of a corpus."),
    "corpus label": Command("training.corpus:label", "Label a corpus with a teacher."),
    "corpus transitions": Command("training.corpus:transitions", "Collect transitions."),
    "corpus tokenizer": Command("training.corpus:tokenizer", "Train the tokenizer of nano."),
    "corpus stats": Command("training.corpus:stats", "Print the datasheet of a corpus."),
    "corpus manifest": Command("training.corpus:manifest", "Write the training manifest."),
    "train": Command("training.train:train", "Train a law from a recipe."),
    "tune": Command("training.tune:tune", "Choose the learning rate for a recipe."),
    "learn": Command("training.learn:learn", "Train a law from the score of a world."),
    "fit": Command("training.fit:fit", "Train a peer method."),
    "diagnose": Command("training.diagnose:diagnose", "Measure a law on held-out data."),
    "law ranks": Command("training.law:ranks", "Measure the adapter rank a law needs."),
    "law pack": Command("training.law:pack", "Pack a trained law for distribution."),
    "law card": Command("training.law:card", "Rewrite the model card of a packed law."),
    "list": Command("setup.listing:show", "List substrates, tasks, laws, methods and metrics."),
    "new": Command("setup.new:new", "Create a law, metric, substrate or worker."),
    "recipes list": Command("setup.recipes:show", "List the bundled recipes."),
    "recipes copy": Command("setup.recipes:copy", "Copy bundled recipes to a folder."),
    "models fetch": Command("setup.models:fetch", "Download a model."),
    "models list": Command("setup.models:show", "List known models and shipped laws."),
    "models path": Command("setup.models:path", "Print the folder of a model."),
    "doctor": Command("setup.doctor:doctor", "Check the installation."),
}
GROUPS = {
    "check": "Check a substrate, law, record, rows, vectors or graph files.",
    "bound": "Compute upper bounds for communication without a law.",
    "bench": "Measure speed on this machine; needs a checkout of the repository.",
    "corpus": "Build the training data of a law.",
    "law": "Pack a trained law and its model card.",
    "models": "Download, list and locate model weights.",
    "recipes": "List and copy the recipes bundled with the package.",
}

_ALONE = ("--help", "-h", "--version")
"""Options that need no command."""


def build(tokens: Sequence[str] = ()) -> App:
    """Return the command tree for a command line.

    Only the command that is called is imported; the others appear with their line in the overview.
    """
    app = App(
        name="waggle",
        help=HELP,
        help_epilogue=EPILOGUE,
        help_format="markdown",
        version=__version__,
        default_parameter=Parameter(negative_iterable=()),
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    headings: dict[str, Any] = {}
    for place, (heading, names) in enumerate(HEADINGS.items()):
        group = Group(heading, sort_key=place)
        headings |= {name: {"group": group, "sort_key": i} for i, name in enumerate(names)}
    groups = {name: App(name=name, help=text, **headings[name]) for name, text in GROUPS.items()}
    for order, (name, command) in enumerate(COMMANDS.items()):
        head, _, last = name.rpartition(" ")
        called = name.split() == list(tokens[: len(name.split())])
        about = None if called else command.about
        target: Any = f"waggle.cli.{command.target}"
        if called and target.endswith(":command"):
            target = import_module(target.removesuffix(":command")).command(tokens)
        shown = {"sort_key": order} if head else headings[name]
        (groups[head] if head else app).command(target, name=last, help=about, **shown)
    for group_app in groups.values():
        app.command(group_app)
    alone = Group("Options", sort_key=len(HEADINGS))
    for name in ("--help", "--version"):
        app[name].group = alone
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raise for a user's mistake."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    if tokens[:1] == ["help"]:
        tokens = [*tokens[1:], "--help"]
    # Model threads that spin while they wait slow each other down on a shared machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        tokens = take_common(tokens)
        _known(tokens)
        result = build(tokens)(spell_out(tokens), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except (CycloptsError, WaggleError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _hang_up()
        return _complain(describe(error))
    except KeyboardInterrupt:
        sys.stderr.write("waggle: interrupted; nothing unfinished was written\n")
        return 130
    except plugin_files.FAULTS as error:
        missing = isinstance(error, ModuleNotFoundError) and extra_of(error.name)
        if not missing and not plugin_files.place_of(error):
            raise  # a bug of ours
        what = describe(error) if missing else f"a plug-in failed: {plugin_files.raised(error)}"
        return _complain(what)
    return result if isinstance(result, int) else 0


def _known(tokens: Sequence[str]) -> None:
    """Refuse an unknown command with a suggestion, without importing the known ones."""
    if tokens and tokens[0].startswith("-") and tokens[0] not in _ALONE:
        raise ConfigError(f"no option {tokens[0]!r} before a command; see `waggle --help`")
    words = [token for token in tokens[:2] if not token.startswith("-")]
    if words and words[0] in GROUPS:
        known = [name for name in COMMANDS if name.startswith(f"{words[0]} ")]
        asked = " ".join(words)
    else:
        known = sorted({name.partition(" ")[0] for name in COMMANDS})
        asked = words[0] if words else ""
    if asked and asked not in {*known, *GROUPS}:
        hint = suggest(asked, known)
        raise ConfigError(f"no command {asked!r}; there are {', '.join(known)}{hint}")


def _complain(line: str) -> int:
    """Print a one-line error, escaped since names in it may be untrusted; return exit code 2."""
    from waggle.api.grid import shown

    sys.stderr.write(f"waggle: {shown(line)}\n")
    return 2


def _hang_up() -> int:
    """Exit quietly when the reader of a pipe has gone, as in `waggle list | head`."""
    sys.stdout = None  # keeps the interpreter from flushing at exit
    return 0
