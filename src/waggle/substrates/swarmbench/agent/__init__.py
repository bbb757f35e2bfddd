"""The knowledge of one agent and how it walks.

Read `compass` (offsets and windows) and `bearing` (how a view shows a position), then `memory`
(its map) and `navigate` (paths).
"""
