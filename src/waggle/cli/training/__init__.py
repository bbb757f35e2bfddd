"""Commands that train: `waggle corpus`, `train`, `tune`, `diagnose` and `law`."""
