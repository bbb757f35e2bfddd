"""Baselines on the same cases: the paper's matched controls, and methods of other papers.

`matched` has the three controls, `graph_answers` their rules for AgentsNet tasks;
`graph_protocols` has distributed algorithms on the same graphs, as ceilings for the laws;
`peers` has the methods of other papers.
"""
