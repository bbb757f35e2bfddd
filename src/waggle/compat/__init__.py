"""Doors for other programs, and what strangers may do to them.

A server: `openai_server` (chat completions and messages), the `batcher` behind it, `replicas` of
its law in other processes, `limits` (time-outs, crowds, token) and `meters` (for Prometheus).
Learners: `pettingzoo` gives them a world, `slots` writes views and decisions as numbers.
Observability: `telemetry` sends episodes as OpenTelemetry spans.
"""
