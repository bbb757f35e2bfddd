"""Other organisations on the same cases: the interface-matched controls of the paper."""
