"""Other organisations on the same cases: the interface-matched controls of the paper.

`matched` holds the three controls, `graph_answers` how they answer AgentsNet tasks;
`graph_protocols` are distributed algorithms on the same graphs, as ceilings beside the laws.
"""
