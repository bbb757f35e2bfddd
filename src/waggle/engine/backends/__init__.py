"""The backends that run the engine's tokens.

Read `base` (the interface of a backend), `lean` (our decoder over its caches, with `lm_head` for
the output), and `transformers` (the fallback for architectures that are not in the table).
"""
