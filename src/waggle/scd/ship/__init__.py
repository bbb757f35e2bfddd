"""From a trained student to a deployable law: `export` writes it, `low_rank` chooses its rank."""
