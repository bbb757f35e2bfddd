"""Execute the notebooks of the documentation, and turn them into pages of the site.

    python docs/tools/notebooks.py docs/notebooks/*.ipynb

executes notebooks and saves their outputs. mkdocs calls `on_files` and `on_page_markdown` (see
`hooks` in mkdocs.yml), which turn every stored notebook into a page without executing it. The same
code gives the same text output; a test executes the notebooks again and compares.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def execute(path: Path) -> Any:
    """Run a notebook in a fresh kernel and an empty folder, and return it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            notebook, resources=resources, kernel_name="python3", record_timing=False, timeout=120
        )
        client.execute()
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for cell in notebook.cells:  # drop progress displays of a slow machine
        shown = [output for output in cell.get("outputs", ()) if output.output_type != _PROGRESS]
        cell.update({"outputs": shown} if "outputs" in cell else {})
    return notebook


_PROGRESS = "display_data"


def texts(notebook: Any) -> list[list[str]]:
    """Return the text outputs of every cell; pictures may differ between machines."""
    return [
        [output.get("text") or output["data"].get("text/plain", "") for output in shown]
        for shown in (cell.get("outputs", ()) for cell in notebook["cells"])
    ]


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every notebook, and its pictures."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        stem = file.src_uri.removesuffix(".ipynb")
        notebook = json.loads(file.content_string)
        pictures: dict[str, bytes] = {}
        text = "\n".join(_parts(notebook, Path(stem).name, pictures))
        files.append(File.generated(config, f"{stem}.md", content=text))
        for name, data in pictures.items():
            uri = f"{Path(stem).parent.as_posix()}/{name}"
            files.append(File.generated(config, uri, content=data))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Rewrite links to notebooks as links to their pages."""
    return re.sub(r"(\]\([\w./-]+)\.ipynb\)", r"\1.md)", markdown)


def _parts(notebook: Any, stem: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """Yield the cells of a notebook as Markdown; pictures are collected by name."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield f"{source}\n"
            continue
        yield f"```python\n{source}\n```\n"
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures)}.png"
                pictures[name] = b64decode("".join(data["image/png"]))
                yield f"![What the cell draws]({name})\n"
            elif "text/html" in data:
                table = re.sub(
                    r"<style.*?</style>|\n\s*", "", "".join(data["text/html"]), flags=re.S
                )
                yield f"{table}\n"
            else:
                shown = "".join(output.get("text") or data["text/plain"]).rstrip()
                yield f"```text\n{shown}\n```\n"


if __name__ == "__main__":
    import nbformat

    for name in sys.argv[1:]:
        nbformat.write(execute(Path(name)), name)
