"""From a trained law to one that ships: export, low-rank factors."""
