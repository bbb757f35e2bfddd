"""Interfaces for other programs, with limits on untrusted clients.

Serving: `openai_server` (chat completions and messages), the `batcher` behind it, `replicas` of
its law in other processes, `limits` (timeouts, connections, token) and `meters` (for Prometheus).
Learners: `pettingzoo` wraps a world as an environment, `slots` encodes views and decisions as
numbers. Observability: `telemetry` sends episodes as OpenTelemetry spans.
"""
