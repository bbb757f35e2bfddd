"""Commands that play episodes and show them. Every command is in the module of its name.

Read `run` first (one episode and its record), then `show`, `replay`, `view` and `gif`, which take
records; `demo` is a run with explanations, and `serve` runs a law as a server.
"""
