"""A private worker behind a chat endpoint, with a prompt template.

It has the options of the law `chat` and uses the same client: OpenAI's and Anthropic's protocols,
one deadline per question, retries, limits. The prompt is a template in which `{task}`, `{goal}`,
`{actions}`, `{state}` and `{delivered}` are replaced by parts of the question. A reply may be the
answer itself or a JSON object with the key `answer`. An endpoint that does not answer its first
question is an error; a later failure costs its node the refresh.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from waggle.core.errors import ConfigError, EndpointError
from waggle.core.schema import Json
from waggle.core.worker import Answer, Work
from waggle.laws.chat import ChatLaw
from waggle.laws.endpoint import Failure, Question

TEMPLATE = """\
You work for one agent of a swarm. You see its private state and what messages brought to it, and
nothing else. Solve its task as well as these allow.

Task: {goal}
{actions}Private state: {state}
Delivered: {delivered}

Reply with a JSON object that has one key, "answer"."""
"""The default prompt."""
_PART = re.compile(r"\{(task|goal|actions|state|delivered)\}")
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.S)
_NOT_OURS = ("seed", "cache", "max_failed")
"""Options of the law that do not apply to a worker, or that every worker has."""


class ChatWorker:
    """A model behind an OpenAI-compatible or Anthropic endpoint.

    Args:
        template: file of the prompt; the default prompt if empty.
        options: those of the law `chat`.
    """

    files: ClassVar[tuple[str, ...]] = ("template",)

    def __init__(self, template: str = "", **options: Any) -> None:
        self._template = _read(template) if template else TEMPLATE
        try:
            self._client = ChatLaw(**options)
        except ConfigError as error:
            raise _of_worker(error) from None

    def __call__(self, work: Work) -> Answer:
        """Answer the question of one node."""
        return self.together([work])[0]

    def together(self, works: Sequence[Work]) -> list[Answer]:
        """Answer the questions of all nodes of an update in one call.

        Raises:
            EndpointError: if the endpoint does not answer its first question.
        """
        turns = [[{"role": "user", "content": prompt(self._template, work)}] for work in works]
        try:
            replies = self._client.ask([Question(each) for each in turns])
        except EndpointError as error:
            raise _of_worker(error) from None
        return [
            Answer(
                None if isinstance(reply, Failure) else answer_of(reply.text),
                self._client.usage(reply),
            )
            for reply in replies
        ]


_own = inspect.signature(ChatWorker.__init__, eval_str=True).parameters["template"]
_law = inspect.signature(ChatLaw, eval_str=True).parameters.items()
ChatWorker.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_own, *(parameter for name, parameter in _law if name not in _NOT_OURS)]
)


def _of_worker(error: Any) -> Any:
    """Return an error of the law, reworded for the worker's options."""
    return type(error)(str(error).replace("--law.", "--worker."))


def prompt(template: str, work: Work) -> str:
    """Return a template with its placeholders replaced by the parts of a question."""
    legal = f"Answer with one of: {', '.join(work.actions)}\n" if work.actions else ""
    parts = {
        "task": work.task, "goal": work.goal, "actions": legal, "state": _json(work.state),
        "delivered": _json(work.delivered),
    }  # fmt: skip
    return _PART.sub(lambda found: parts[found[1]], template)


def answer_of(text: str) -> Json:
    """Return the answer in a reply: its key `answer`, else the whole reply; None if it is blank."""
    plain = text.strip()
    if fenced := _FENCE.match(plain):
        plain = fenced[1].strip()
    try:
        found: Json = msgspec.json.decode(plain)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return plain or None
    return found["answer"] if isinstance(found, dict) and "answer" in found else found


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read the template {path!r} ({error}); name a text file"
        ) from None
