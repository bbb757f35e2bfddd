"""Other organisations on the same cases: the paper's matched controls, and the peers.

`matched` holds the three controls, `graph_answers` how they answer AgentsNet tasks;
`graph_protocols` are distributed algorithms on the same graphs, as ceilings beside the laws;
`peers` are the organisations of other papers.
"""
