"""What one agent knows and how it walks.

Read `compass` (offsets and windows) and `bearing` (how a view says where something is), then
`memory` (its map) and `navigate` (paths).
"""
