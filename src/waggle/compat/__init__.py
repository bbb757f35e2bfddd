"""Servers for other programs, and what strangers may do to them.

Read `openai_server` (chat completions and messages), the `batcher` behind it, `limits` (time-outs,
crowds, token) and `meters` (counts for Prometheus).
"""
