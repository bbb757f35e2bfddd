"""Commands that measure: `waggle eval`, `report`, `archive`, `check`, `bound` and `bench`."""
