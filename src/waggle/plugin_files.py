"""Sources of plug-in code, installed packages and single files, and reports of its errors.

`load_file` runs one Python file that registers something with the decorators of `waggle.plugins`;
every process that this one starts runs it too. `raised` describes in one line an exception of
plug-in code, and `place_of` returns where in that code it was raised.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from typing import NamedTuple

from waggle.built_in import BUILT_IN, Kind
from waggle.core.errors import ConfigError

FILES = "WAGGLE_PLUGINS"
"""Environment variable that lists plug-in files, as PATH lists folders; processes inherit it."""
WORKER_FILE = "waggle_worker_"
"""Prefix of the module names of private worker files (`waggle.workers.hire`)."""
FAULTS = (Exception, SystemExit)
"""Exceptions caught from plug-in code: `sys.exit` in it is an error and does not end the run."""

loaded: dict[str, str] = {}
"""Plug-in files that this process has run -> their module names."""
digests: dict[str, str] = {}
"""SHA-256 of these files as they were loaded, by the names of their modules."""
decorating: set[str] = set()
"""Modules that registered something with a decorator."""


class PluginError(ConfigError):
    """Raised when a name is unknown or registered twice, or its code cannot be used."""


class Entry(NamedTuple):
    """A registered name with its target, which is not imported yet."""

    name: str
    target: str
    """`module:attribute`."""
    origin: str
    """"waggle", the distribution that declares the entry point, a plug-in file, or "decorator"."""


@cache
def installed(kind: Kind) -> tuple[Entry, ...]:
    """Return the entry points of installed distributions."""
    found = entry_points(group=f"waggle.{kind}s")
    return tuple(Entry(p.name, p.value, p.dist.name if p.dist else "unknown") for p in found)


def load_file(path: str | Path) -> None:
    """Run a Python file that registers substrates, laws or metrics with the decorators.

    Processes that are started later load it as well. A second call runs the file again, so that a
    notebook gets the changes.

    Raises:
        PluginError: if there is no such file, or it fails; the line names the place in it.
    """
    file = Path(path).expanduser().resolve()
    spec = spec_from_file_location(file.stem.replace(".", "_"), file)
    if spec is None or spec.loader is None or not file.is_file():
        why = "" if file.is_file() else "there is no such file; "
        raise PluginError(f"{str(path)!r} is no plug-in; {why}name a Python file that ends in .py")
    if os.pathsep in str(file):  # other processes get all files in one variable
        raise PluginError(f"{file} holds {os.pathsep!r}, which separates plug-ins; rename it")
    refuse_taken(spec.name, file)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # a plug-in may import the files beside it
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    loaded[str(file)] = spec.name
    digests[spec.name] = sha256(file.read_bytes()).hexdigest()
    try:
        spec.loader.exec_module(module)
    except FAULTS as error:
        reason = raised(error)
        del loaded[str(file)], sys.modules[spec.name]
        raise PluginError(f"plug-in {path} cannot be loaded: {reason}") from error
    listed = [other for other in os.environ.get(FILES, "").split(os.pathsep) if other]
    os.environ[FILES] = os.pathsep.join(dict.fromkeys([*listed, str(file)]))


def refuse_taken(name: str, file: Path) -> None:
    """Raise PluginError if a plug-in file would shadow another module of its name."""
    if name in sys.modules:
        taken = getattr(sys.modules[name], "__file__", None)
    else:
        spec = find_spec(name)
        taken = str(file) if spec is None else spec.origin
    if taken is None or Path(taken).resolve() != file:
        raise PluginError(f"{name!r} is another module already ({taken}); give {file} another name")


def raised(error: BaseException) -> str:
    """Describe in one line an exception of plug-in code, and where in that code it was raised."""
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        what = f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    place = place_of(error)
    what = what.encode(errors="replace").decode()  # rows and terminals cannot hold lone surrogates
    return " ".join(what.split()) + (f" ({place})" if place else "")


def place_of(error: BaseException) -> str:
    """Return file and line of the innermost plug-in code that an error passed through, or ""."""
    # An installed plug-in covers its whole package, a decorated one only the decorating module.
    modules = decorating | set(loaded.values())
    packages = {e.target.partition(":")[0].partition(".")[0]
                for kind in BUILT_IN for e in installed(kind)}  # fmt: skip
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        top = name.partition(".")[0]
        theirs = name in modules or top in packages or name.startswith(WORKER_FILE)
        if theirs and top != "waggle":
            place = f"{Path(frame.f_code.co_filename).name}:{line}"
    return place
