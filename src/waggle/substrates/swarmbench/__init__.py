"""SwarmBench: five grid-world tasks, bit-compatible with the official release, and their adapter.

Reading order: `sim` (the official grid world), `agent` (what one agent remembers and how it walks),
`scene` (the world seen by nodes), `tasks` (private plan, evidence and messages of each task),
`episode` (one episode as a `World`), `adapter` (the registered substrate), `ceilings` (bounds).
"""
