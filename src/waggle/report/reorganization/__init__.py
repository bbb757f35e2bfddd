"""Tables and figures of reorganization after late counterevidence.

Read `tables` first (what is measured and how settings are matched), then `runtime` (perturbations
and parameters), `trajectory` (one episode in words) and `figures`.
"""
