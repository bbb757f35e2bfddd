"""Commands that evaluate and check: `waggle eval`, `report`, `check`, `bound`."""
