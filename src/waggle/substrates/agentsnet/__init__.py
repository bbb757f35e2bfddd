"""AgentsNet-RP: five coordination tasks on graphs with anonymous contacts and private priorities.

Reading order: `tasks` (contracts, budgets, official scores), `graphs` and `graph_files` (the
instances), `world` (one episode as a `World`), `adapter` (the registered substrate). Beside them:
`symmetry` (the automorphism orbits of an instance). Recorded evaluations are checked by
`conformance` in a source checkout.
"""
