"""From a trained student to a law that ships: `export` writes it, `low_rank` chooses its rank."""
