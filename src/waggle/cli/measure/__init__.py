"""Commands that evaluate and check: `waggle eval`, `report`, `archive`, `check` and `bound`."""
