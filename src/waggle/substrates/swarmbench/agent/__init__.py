"""What one agent knows: `compass` (offsets and windows), `memory` (its map), `navigate` (paths)."""
