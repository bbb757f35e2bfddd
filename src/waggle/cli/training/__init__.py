"""Commands that make laws: `waggle corpus`, `train`, `tune`, `diagnose`, `law`."""
