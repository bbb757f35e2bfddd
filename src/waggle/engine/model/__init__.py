"""The decoder: forward pass, attention, KV caches."""
