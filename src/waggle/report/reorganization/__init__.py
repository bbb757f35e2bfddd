"""Tables and figures of reorganization after late counterevidence.

Read `tables` first (the measurements and the matching of settings), then `runtime` (perturbations
and parameters), `trajectory` (one episode in words) and `figures`.
"""
