"""The five tasks as the adapter plays them: private plan, evidence and messages, one file each.

Reading order: `base` (what a task adds to an episode), `sites` (targets in Pursuit and Foraging)
with `pursuit`, `foraging` and the path planning of foragers in `winding`; then `synchronization`,
`flocking` and `transport`.
"""
