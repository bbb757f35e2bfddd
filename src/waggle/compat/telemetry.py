"""Episodes as OpenTelemetry spans, following the semantic conventions for generative AI.

    OTEL_TRACES_EXPORTER=console waggle run beacon --otel

One trace per episode: `invoke_workflow TASK` contains one span per round, and a round contains one
`invoke_agent LAW` per local update, with an `execute_tool WORKER` if a private worker was called.
An update has the times of its round, since the runtime decides a round as one batch. The standard
environment variables choose the destination (`OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_SERVICE_NAME`, ...). Views and decodes are sent only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is true.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from waggle.core.canon import encode_decision
from waggle.core.errors import ConfigError, suggest
from waggle.core.record import Footer, Header, RoundRecord, UpdateRecord
from waggle.core.schema import Decision
from waggle.extras import missing
from waggle.plugins import Task

EXPORTERS = "OTEL_TRACES_EXPORTER"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
FILE = "WAGGLE_OTEL_FILE"
"""Variable with the file of the exporter `jsonl`, one span per line; `spans.jsonl` if unset."""

FLUSHED = 1_000
"""Number of spans after which the queue is flushed; it drops spans beyond two thousand."""


@contextmanager
def spans() -> Iterator[Spans]:
    """Yield a sink that sends an episode as spans; leaving the context flushes all spans.

    Raises:
        ConfigError: if OpenTelemetry or a requested exporter is missing.
    """
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ConfigError(missing("opentelemetry") or str(error)) from error
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "waggle"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    for exporter in _exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter))
    sink = Spans(provider.get_tracer("waggle"), provider.force_flush)
    try:
        yield sink
    except BaseException as error:
        sink.fail(error)
        raise
    finally:
        provider.shutdown()


def _exporters() -> Iterator[Any]:
    """Yield the exporters named by the environment variable; OTLP if it is unset."""
    found = {point.name: point for point in entry_points(group="opentelemetry_traces_exporter")}
    for name in os.environ.get(EXPORTERS, "otlp").split(","):
        name = name.strip()
        if name in ("", "none"):
            continue
        if name in ("console", "jsonl"):
            yield _lines(name)
            continue
        point = found.get(name)
        if name == "otlp":
            protocol = next((os.environ[key] for key in PROTOCOLS if os.environ.get(key)), "http")
            point = found.get(f"otlp_proto_{protocol.partition('/')[0]}")
        if point is None:
            known = ["none", "console", "jsonl", "otlp", *found]
            raise ConfigError(
                f"no span exporter {name!r} is installed; set {EXPORTERS} to one of "
                f"{', '.join(dict.fromkeys(known))}{suggest(name, known)}"
            )
        yield point.load()()


def _lines(name: str) -> Any:
    """Return an exporter that writes one JSON object per line, to standard error or a file."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    def line(span: ReadableSpan) -> str:
        return f"{span.to_json(indent=None)}\n"

    class File(ConsoleSpanExporter):
        def shutdown(self) -> None:
            self.out.close()

    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr, formatter=line)
    path = os.environ.get(FILE, "spans.jsonl")
    return File(out=open(path, "a", encoding="utf-8"), formatter=line)


class Spans:
    """A sink that sends the records of one episode as spans."""

    def __init__(self, tracer: Any, flush: Callable[[], object]) -> None:
        self._tracer, self._flush = tracer, flush
        self._waiting = 0
        self._content = os.environ.get(CONTENT, "").lower() in ("true", "1", "span_only")
        self._root: Any = None
        self._law = self._worker = ""
        self._began = 0

    def header(self, header: Header) -> None:
        """Start the trace of the episode."""
        case = header.case
        task = Task(case.substrate, case.task).name
        self._law, self._began = header.law, time.time_ns()
        self._worker = str(header.worker.get("name", ""))
        self._root = self._start(f"invoke_workflow {task}", None, {
            "gen_ai.operation.name": "invoke_workflow", "gen_ai.provider.name": "waggle",
            "gen_ai.workflow.name": task, "gen_ai.request.seed": case.seed,
            "waggle.law": header.law, "waggle.n": case.n, "waggle.rounds": header.rounds,
            "waggle.engine": header.engine, "waggle.order": header.order,
            "waggle.shock": case.shock,
        })  # fmt: skip

    def round(self, entry: RoundRecord) -> None:
        """Send one round and its updates."""
        scores = {f"waggle.score.{name}": float(value) for name, value in entry.score.items()}
        span = self._start(f"round {entry.round}", self._root, {
            "waggle.round": entry.round, "waggle.messages.attempted": entry.attempted,
            "waggle.messages.delivered": entry.delivered, "waggle.traces.expired": entry.expired,
            **scores,
        })  # fmt: skip
        if entry.shock is not None:
            span.add_event("waggle.counterevidence", {"waggle.note": entry.shock.note})
        end = time.time_ns()
        for update in entry.updates:
            self._update(update, span, end)
        span.end(end)
        self._began = end

    def footer(self, footer: Footer) -> None:
        """End the trace with the scores of the episode."""
        for name, value in footer.scores.items():
            self._root.add_event("gen_ai.evaluation.result", {
                "gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(value),
            })  # fmt: skip
        counts = footer.counters
        self._root.set_attributes({
            "gen_ai.usage.input_tokens": counts.get("tokens.input", 0),
            "gen_ai.usage.output_tokens": counts.get("tokens.output", 0),
        })  # fmt: skip
        self._root.end()

    def fail(self, error: BaseException) -> None:
        """End the trace of an episode that failed with an error."""
        from opentelemetry.trace import StatusCode

        if self._root is not None and self._root.is_recording():
            self._root.set_attribute("error.type", type(error).__name__)
            self._root.set_status(StatusCode.ERROR, str(error))
            self._root.end()

    def _update(self, update: UpdateRecord, parent: Any, end: int) -> None:
        from opentelemetry.trace import StatusCode

        usage = update.usage
        span = self._start(f"invoke_agent {self._law}", parent, {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "waggle",
            "gen_ai.agent.name": self._law, "gen_ai.agent.id": f"node-{update.node}",
            "gen_ai.request.model": self._law,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "waggle.calls": usage.calls, "waggle.stage": update.stage, "waggle.mode": update.mode,
            "waggle.writes": len(update.writes), **_given("waggle.action", update.native),
            **_given("waggle.claim", update.claim), **_given("waggle.reopened", update.reopened),
        })  # fmt: skip
        if update.codes:
            span.set_attribute("waggle.codes", update.codes)
        if self._content:
            span.set_attribute("gen_ai.input.messages", _message("user", bytes(update.view)))
            said = update.raw[-1] if update.raw else ""
            text = encode_decision(said) if isinstance(said, Decision) else said.encode()
            span.set_attribute("gen_ai.output.messages", _message("assistant", text))
        if usage.failures:
            span.set_attribute("error.type", "endpoint")
            span.set_status(StatusCode.ERROR, "the endpoint failed; the private proposal was kept")
        if update.work is not None:
            spent = update.work.usage
            self._start(f"execute_tool {self._worker}", span, {
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": self._worker,
                "gen_ai.usage.input_tokens": spent.input_tokens,
                "gen_ai.usage.output_tokens": spent.output_tokens,
                "waggle.calls": spent.calls, "waggle.failures": spent.failures,
            }).end(end)  # fmt: skip
        span.end(end)

    def _start(self, name: str, parent: Any, attributes: dict[str, Any]) -> Any:
        from opentelemetry.trace import SpanKind, set_span_in_context

        self._waiting += 1
        if self._waiting % FLUSHED == 0:
            self._flush()
        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(
            name, context, SpanKind.INTERNAL, attributes, start_time=self._began
        )


def _given(name: str, value: str | None) -> dict[str, str]:
    return {} if value is None else {name: value}


def _message(role: str, text: bytes) -> str:
    content = text.decode(errors="replace")
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])
